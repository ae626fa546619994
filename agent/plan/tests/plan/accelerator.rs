//! The accelerator of a placement: what its Pods need for it, and what can't be.

use agent_plan::Kind;
use crds::condition::State;
use serde_json::{Value, json};

use crate::given::{World, shown};

/// A server that asks for this, with a runtime that has an image for NVIDIA and one for none.
fn asking(accelerator: &Value) -> World {
    let mut world = World::well();
    world.placement["spec"]["accelerator"] = accelerator.clone();
    world
}

/// A profile with all that one can say.
fn profile() -> Value {
    json!({
        "vendor": "nvidia",
        "resourceName": "nvidia.com/gpu",
        "nodeSelector": {"nvidia.com/gpu.product": "H100", "zone": "a"},
        "runtimeClass": {"name": "nvidia"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "env": [{"name": "NCCL_DEBUG", "value": "WARN"}],
        "supplementalGroups": [44],
        "counts": [1, 2, 4],
    })
}

fn refusal(world: &World) -> String {
    shown(&world.report().verdicts[0])
}

#[test]
fn a_profile_says_what_pods_need() {
    let mut world = asking(&json!({"profile": "h100", "count": 2, "content": profile()}));
    world.runtime_classes.insert("nvidia".to_owned());
    world.placement["spec"]["nodeSelector"] = json!({"zone": "b"});
    world.placement["spec"]["tolerations"] = json!([{"key": "own", "operator": "Exists"}]);
    let pod = world.pod();
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "cuda");
    assert_eq!(
        container["resources"],
        json!({
            "requests": {"cpu": "2", "memory": "1Gi"},
            "limits": {"memory": "2Gi", "nvidia.com/gpu": "2"},
        })
    );
    let env = container["env"].as_array().unwrap();
    assert!(env.contains(&json!({"name": "NCCL_DEBUG", "value": "WARN"})));
    assert_eq!(pod["runtimeClassName"], "nvidia");
    assert_eq!(
        pod["nodeSelector"],
        json!({"nvidia.com/gpu.product": "H100", "zone": "b"}),
        "the server's own word beats the profile's"
    );
    assert_eq!(
        pod["tolerations"],
        json!([{"key": "own", "operator": "Exists"}, {"key": "gpu", "operator": "Exists"}])
    );
    assert_eq!(pod["securityContext"], json!({"supplementalGroups": [44]}));
}

#[test]
fn no_accelerator_is_nothing_of_all_that() {
    let pod = World::well().pod();
    for field in [
        "runtimeClassName",
        "nodeSelector",
        "tolerations",
        "securityContext",
    ] {
        assert_eq!(pod.get(field), None, "{field}");
    }
}

#[test]
fn a_resource_name_alone_is_enough_and_its_taint_is_tolerated() {
    let world = asking(&json!({"resourceName": "nvidia.com/mig-1g.10gb", "count": 1}));
    let pod = world.pod();
    assert_eq!(pod["containers"][0]["image"], "cuda");
    assert_eq!(
        pod["containers"][0]["resources"]["limits"]["nvidia.com/mig-1g.10gb"],
        "1"
    );
    assert_eq!(
        pod["tolerations"],
        json!([{"key": "nvidia.com/mig-1g.10gb", "operator": "Exists"}])
    );
}

#[test]
fn a_servers_resource_name_beats_its_profiles() {
    let world = asking(&json!({
        "profile": "h100", "resourceName": "nvidia.com/gpu.shared", "count": 1, "content": profile(),
    }));
    let limits = world.container()["resources"]["limits"].clone();
    assert_eq!(
        limits,
        json!({"memory": "2Gi", "nvidia.com/gpu.shared": "1"})
    );
}

#[test]
fn the_domain_of_a_resource_says_whose_image_runs() {
    for (resource, vendor) in [
        ("amd.com/gpu", "amd"),
        ("gpu.intel.com/xe", "intel"),
        ("huawei.com/Ascend910", "huawei"),
        ("google.com/tpu", "google"),
        ("volcano.sh/vgpu-number", "nvidia"),
        ("chips.example.com/npu", "chips.example.com"),
    ] {
        let mut world = asking(&json!({"resourceName": resource, "count": 1}));
        world.content()["images"] =
            json!([{"image": "cpu"}, {"vendor": vendor, "image": "theirs"}]);
        assert_eq!(world.container()["image"], "theirs", "{resource}");
    }
}

#[test]
fn a_runtime_that_has_no_image_for_the_vendor_is_told_with_those_it_has() {
    let mut world = asking(&json!({"resourceName": "amd.com/gpu", "count": 1}));
    assert_eq!(
        refusal(&world),
        "False BackendUnsupported: RuntimeProfile echo has no image of vendor amd, whose amd.com/gpu spec.accelerator asks for: add one to the profile, or set spec.runtime.image; it has those of nvidia, none"
    );
    world.placement["spec"]["runtime"]["image"] = json!("mine:1");
    assert_eq!(world.container()["image"], "mine:1");
}

#[test]
fn a_count_that_no_pod_may_have_is_refused() {
    let mut profile = profile();
    let world = asking(&json!({"profile": "h100", "count": 3, "content": profile}));
    assert_eq!(
        refusal(&world),
        "False InvalidAccelerator: spec.accelerator: count is 3, and one Pod takes nvidia.com/gpu only in counts of 1, 2, 4"
    );
    profile["counts"] = json!([]);
    let world = asking(&json!({"profile": "h100", "count": 3, "content": profile}));
    assert_eq!(world.report().verdicts[0].state, State::True);
}

#[test]
fn an_accelerator_that_resources_name_too_is_refused() {
    for part in ["requests", "limits"] {
        let mut world = asking(&json!({"resourceName": "nvidia.com/gpu", "count": 1}));
        world.placement["spec"]["resources"] = json!({part: {"nvidia.com/gpu": 1}});
        assert_eq!(
            refusal(&world),
            "False InvalidAccelerator: spec.accelerator: spec.resources names nvidia.com/gpu as well: take it out there, spec.accelerator.count says how many"
        );
    }
}

#[test]
fn an_accelerator_that_nothing_names_is_refused() {
    let world = asking(&json!({"count": 1}));
    assert_eq!(
        refusal(&world),
        "False InvalidAccelerator: spec.accelerator: neither profile nor resourceName says which"
    );
}

#[test]
fn an_nvidia_pod_has_the_runtime_class_of_its_cluster_and_no_other_pod_has() {
    let class = |accelerator: Value, classes: &[&str]| {
        let mut world = asking(&accelerator);
        world.content()["images"] =
            json!([{"vendor": "nvidia", "image": "cuda"}, {"vendor": "amd", "image": "rocm"}]);
        world.runtime_classes = classes.iter().map(ToString::to_string).collect();
        world.pod().get("runtimeClassName").cloned()
    };
    let nvidia = || json!({"resourceName": "nvidia.com/gpu", "count": 1});
    assert_eq!(class(nvidia(), &["nvidia"]), Some(json!("nvidia")));
    assert_eq!(class(nvidia(), &["gvisor"]), None);
    let amd = json!({"resourceName": "amd.com/gpu", "count": 1});
    assert_eq!(class(amd, &["nvidia"]), None);
    let mut none = nvidia();
    none["runtimeClassName"] = json!("");
    assert_eq!(class(none, &["nvidia"]), None);
    let mut own = nvidia();
    own["runtimeClassName"] = json!("kata");
    assert_eq!(class(own, &["nvidia", "kata"]), Some(json!("kata")));
    let mut without = json!({"profile": "h100", "count": 1, "content": profile()});
    without["content"]["runtimeClass"] = Value::Null;
    assert_eq!(class(without, &["nvidia"]), None, "a profile says all");
}

#[test]
fn a_runtime_class_that_is_required_and_not_there_is_refused() {
    let message = |name: &str| {
        format!(
            "False RuntimeClassMissing: there is no RuntimeClass {name} in this cluster: install what brings it, or set spec.accelerator.runtimeClassName (\"\" for none)"
        )
    };
    let mut required = profile();
    required["runtimeClass"]["policy"] = json!("Required");
    let mut world = asking(&json!({"profile": "h100", "count": 1, "content": required}));
    assert_eq!(refusal(&world), message("nvidia"));
    world.runtime_classes.insert("nvidia".to_owned());
    assert_eq!(world.report().verdicts[0].state, State::True);
    let world =
        asking(&json!({"resourceName": "nvidia.com/gpu", "count": 1, "runtimeClassName": "kata"}));
    assert_eq!(refusal(&world), message("kata"));
}

#[test]
fn a_runtime_class_that_goes_restarts_nothing() {
    let mut world = asking(&json!({"resourceName": "nvidia.com/gpu", "count": 1}));
    world.runtime_classes.insert("nvidia".to_owned());
    let before = world.rendered(Kind::Deployment);
    world.deployment.as_mut().unwrap()["spec"] = json!({
        "selector": {}, "template": {"spec": {"containers": [], "runtimeClassName": "nvidia"}},
    });
    world.runtime_classes.clear();
    assert_eq!(world.rendered(Kind::Deployment), before);
}

#[test]
fn a_successor_does_not_wait_for_the_accelerator_of_its_predecessor() {
    let world = asking(&json!({"resourceName": "nvidia.com/gpu", "count": 1}));
    assert_eq!(
        world.rendered(Kind::Deployment)["spec"]["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})
    );
}

#[test]
fn the_words_of_a_profile_may_speak_of_how_many_there_are() {
    let args = |world: &mut World| {
        world.content()["args"] = json!(["--tensor-parallel-size=$(accelerator.count)"]);
        world.container()["args"].clone()
    };
    let mut world = asking(&json!({"resourceName": "nvidia.com/gpu", "count": 4}));
    assert_eq!(args(&mut world), json!(["--tensor-parallel-size=4"]));
    let without = args(&mut World::well());
    assert_eq!(without, json!(["--tensor-parallel-size=1"]));
}
