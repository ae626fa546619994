//! What a cluster has other than its server says, and the accelerators that they name.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crds::v1alpha1::{
    Accelerator, AcceleratorProfileSpec, InferenceServer, Overrides, ServerPlacementSpec,
};
use hub_plan::{
    overrides::{Pinned, Profiles, accelerator_profiles},
    placements::{Intent, Site, placements},
};
use serde_json::{Value, json};

use crate::given::{Given, cluster, condition, healthy, profiles, server};

/// A server of four clusters: two as the server says, and two with overrides that are alike.
fn overridden(overrides: &Value) -> InferenceServer {
    let mut server = server(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
    let overrides: Overrides = serde_json::from_value(overrides.clone()).unwrap();
    for target in &mut server.spec.cluster_targets[2..] {
        target.overrides = Some(overrides.clone());
    }
    server
}

/// What `a` and what `c` is to hold. All that are alike share one.
fn planned(server: &InferenceServer, profiles: &Profiles) -> [ServerPlacementSpec; 2] {
    let names = ["a", "b", "c", "d"];
    let sites: BTreeMap<_, _> = names.map(|name| (cluster(name), Site::default())).into();
    let planned = placements(server, profiles, &sites, &BTreeSet::new());
    assert_eq!(planned.specs.len(), 2);
    let of = |name| {
        let Intent::Run(index) = planned.intents[&cluster(name)] else {
            panic!("{name} is to run")
        };
        planned.specs[index].clone()
    };
    assert_eq!((of("a"), of("c")), (of("b"), of("d")));
    [of("a"), of("c")]
}

fn accelerator(value: &Value) -> Accelerator {
    serde_json::from_value(value.clone()).unwrap()
}

/// As there are these AcceleratorProfiles.
fn with(names: &[&str]) -> Profiles {
    let profile = |name: &&str| {
        let spec = json!({"vendor": name, "resourceName": format!("{name}.com/gpu")});
        let spec: AcceleratorProfileSpec = serde_json::from_value(spec).unwrap();
        let pinned = Pinned {
            revision: 2,
            content: Arc::new(spec),
        };
        ((*name).to_owned(), Ok(pinned))
    };
    Profiles {
        accelerators: names.iter().map(profile).collect(),
        ..profiles()
    }
}

#[test]
fn each_override_beats_the_servers_word_as_a_whole() {
    let mut server = overridden(&json!({
        "replicas": 5,
        "image": "theirs",
        "resources": {"limits": {"memory": "2Gi"}},
        "nodeSelector": {"pool": "theirs"},
        "accelerator": {"resourceName": "amd.com/gpu", "count": 2},
    }));
    let spec = &mut server.spec;
    spec.runtime.image = Some("mine".to_owned());
    spec.resources = serde_json::from_value(json!({"requests": {"cpu": 1}})).unwrap();
    spec.node_selector = [("disk".to_owned(), "ssd".to_owned())].into();
    spec.accelerator = Some(accelerator(&json!({"resourceName": "nvidia.com/gpu"})));
    let [a, c] = planned(&server, &profiles());
    let shown = |spec: &ServerPlacementSpec| {
        json!({
            "replicas": spec.replicas, "image": spec.runtime.image, "resources": spec.resources,
            "nodeSelector": spec.node_selector, "accelerator": spec.accelerator,
        })
    };
    assert_eq!(
        shown(&a),
        json!({
            "replicas": 2, "image": "mine", "resources": {"requests": {"cpu": 1}},
            "nodeSelector": {"disk": "ssd"}, "accelerator": {"resourceName": "nvidia.com/gpu", "count": 1},
        })
    );
    assert_eq!(
        shown(&c),
        json!({
            "replicas": 5, "image": "theirs", "resources": {"limits": {"memory": "2Gi"}},
            "nodeSelector": {"pool": "theirs"}, "accelerator": {"resourceName": "amd.com/gpu", "count": 2},
        })
    );
}

#[test]
fn no_replicas_there_are_not_as_many_as_elsewhere() {
    let [a, c] = planned(&overridden(&json!({"replicas": 0})), &profiles());
    assert_eq!((a.replicas, c.replicas), (2, 0));
}

#[test]
fn what_the_server_asks_of_its_replicas_reaches_every_cluster() {
    let mut server = overridden(&json!({"replicas": 1}));
    let spec = json!({
        "clusterTargets": [], "runtime": {
            "profile": "echo", "args": ["-v"], "env": [{"name": "A", "value": "b"}],
        },
        "spreading": "Required", "disruption": {"maxUnavailable": 3},
        "tolerations": [{"key": "k", "operator": "Exists"}], "imagePullSecrets": [{"name": "s"}],
    });
    let asked: crds::v1alpha1::InferenceServerSpec = serde_json::from_value(spec.clone()).unwrap();
    server.spec = crds::v1alpha1::InferenceServerSpec {
        cluster_targets: server.spec.cluster_targets,
        ..asked
    };
    for placed in planned(&server, &profiles()) {
        let placed = serde_json::to_value(placed).unwrap();
        for field in ["spreading", "disruption", "tolerations", "imagePullSecrets"] {
            assert_eq!(placed[field], spec[field], "{field}");
        }
        for field in ["args", "env"] {
            assert_eq!(placed["runtime"][field], spec["runtime"][field], "{field}");
        }
    }
}

#[test]
fn an_accelerator_profile_is_inside_of_what_asks_for_it() {
    let server = overridden(&json!({"accelerator": {"profile": "amd"}}));
    let [a, c] = planned(&server, &with(&["amd", "unused"]));
    assert_eq!(a.accelerator, None);
    let content = c.accelerator.unwrap().content.unwrap();
    assert_eq!(content.resource_name.0, "amd.com/gpu");
    assert_eq!(accelerator_profiles(&server), ["amd"].into());
}

#[test]
fn a_missing_accelerator_profile_changes_nothing_where_it_is_asked_for() {
    let server = overridden(&json!({"accelerator": {"profile": "amd"}}));
    let names = ["a", "c"];
    let sites: BTreeMap<_, _> = names.map(|name| (cluster(name), Site::default())).into();
    let planned = placements(&server, &with(&["nvidia"]), &sites, &BTreeSet::new());
    assert_eq!(planned.intents[&cluster("a")], Intent::Run(0));
    assert_eq!(planned.intents[&cluster("c")], Intent::Keep);

    let mut given = healthy();
    given.server.spec.accelerator = Some(accelerator(&json!({"profile": "amd"})));
    let validation = |given: &Given| condition(&given.plan().status, "Validation");
    assert_eq!(validation(&given), "False AcceleratorProfileNotFound");
    given.profiles = with(&["amd"]);
    assert_eq!(validation(&given), "True Valid");
}

#[test]
fn replicas_are_counted_as_each_cluster_is_to_have_them() {
    let mut given = healthy();
    given.server.spec.cluster_targets[0].overrides = Some(Overrides {
        replicas: Some(7),
        ..Overrides::default()
    });
    let targets = u32::try_from(given.server.spec.cluster_targets.len()).unwrap();
    let status = given.plan().status;
    assert_eq!(status.summary.replicas.wanted, (targets - 1) * 2 + 7);
}
