//! The profiles that come with the hub: each is served, and renders as ever.

use std::{collections::BTreeSet, fs, path::PathBuf};

use agent_plan::Kind;
use crds::{
    condition::State,
    v1alpha1::{AcceleratorProfile, RuntimeProfile},
};
use serde_json::json;

use crate::given::{World, shown};

const RUNTIMES: [&str; 4] = ["sglang", "torchserve", "triton", "vllm"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join("../../charts/inferfleet-hub/files").join(file)).unwrap()
}

fn runtime(name: &str) -> RuntimeProfile {
    serde_saphyr::from_str(&read(&format!("runtimes/{name}.yaml"))).unwrap()
}

fn accelerators() -> Vec<AcceleratorProfile> {
    let text = read("accelerators.yaml");
    let documents = text
        .split("\n---\n")
        .filter(|text| text.contains("\nkind:"));
    documents
        .map(|text| serde_saphyr::from_str(text).unwrap())
        .collect()
}

/// A server of a runtime that comes with the hub.
fn serving(name: &str) -> World {
    let mut world = World::well();
    let scheme = if name == "triton" { "s3" } else { "hf" };
    world.placement["spec"]["model"] = json!({"uri": format!("{scheme}://org/llama")});
    world.placement["spec"]["runtime"] =
        json!({"profile": name, "content": serde_json::to_value(runtime(name).spec).unwrap()});
    world
}

/// A Pod template that changes with the agent's version restarts every replica of every fleet: change the files only with a
/// reason for that.
#[test]
fn each_runtime_renders_as_ever() {
    for name in RUNTIMES {
        let mut world = serving(name);
        world.placement["spec"]["accelerator"] =
            json!({"resourceName": "nvidia.com/gpu", "count": 2});
        let deployment = world.rendered(Kind::Deployment);
        let text = serde_saphyr::to_string(&deployment).unwrap();
        let path = root().join(format!("tests/golden/{name}.yaml"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, golden, "{name}");
    }
}

#[test]
fn each_runtime_serves_with_every_accelerator_of_which_it_has_an_image() {
    let accelerators = accelerators();
    for name in RUNTIMES {
        for image in &runtime(name).spec.images {
            let mut world = serving(name);
            let mut of_vendor = accelerators
                .iter()
                .filter(|accelerator| accelerator.spec.vendor == image.vendor);
            if image.vendor != "none" {
                let accelerator = of_vendor.next().unwrap();
                let count = accelerator.spec.counts.first().unwrap_or(&1);
                world.placement["spec"]["accelerator"] =
                    json!({"profile": "a", "count": count, "content": accelerator.spec});
            }
            let verdict = &world.report().verdicts[0];
            assert_eq!(verdict.state, State::True, "{name}: {}", shown(verdict));
            assert_eq!(world.container()["image"], image.image, "{name}");
        }
    }
}

#[test]
fn each_accelerator_is_of_the_vendor_that_its_resource_says() {
    let accelerators = accelerators();
    let names: BTreeSet<_> = accelerators
        .iter()
        .map(|accelerator| &accelerator.metadata.name)
        .collect();
    assert_eq!(names.len(), accelerators.len(), "a name is given twice");
    for accelerator in &accelerators {
        let name = accelerator.metadata.name.as_deref().unwrap();
        let spec = &accelerator.spec;
        let mut world = World::well();
        world.content()["images"] = json!([{"vendor": spec.vendor, "image": "theirs"}]);
        world.placement["spec"]["accelerator"] =
            json!({"resourceName": spec.resource_name, "count": 1});
        let verdict = &world.report().verdicts[0];
        assert_eq!(verdict.state, State::True, "{name}: {}", shown(verdict));
    }
}
