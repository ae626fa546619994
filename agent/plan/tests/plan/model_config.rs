//! The model list, and how a runtime finds it.

use agent_plan::Kind;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::given::World;

fn models(world: &World) -> Value {
    let data = &world.rendered(Kind::ConfigMap)["data"];
    serde_json::from_str(data["model-list.json"].as_str().unwrap()).unwrap()
}

#[test]
fn the_model_list_has_name_uri_deployment_and_phase_of_the_model() {
    let mut world = World::well();
    let model = json!({
        "name": "chat",
        "uri": "s3://models/llama-3",
        "deployment": "chat-7",
        "phase": "Staged",
    });
    world.placement["spec"]["model"] = model.clone();
    assert_eq!(models(&world), json!({"models": [model]}));
}

#[test]
fn a_model_of_the_servers_own_specification_serves_and_is_of_no_deployment() {
    let models = models(&World::well());
    let model = &models["models"][0];
    assert_eq!(
        (&model["deployment"], &model["phase"]),
        (&json!(""), &json!("Serving"))
    );
}

#[test]
fn a_model_without_a_name_is_called_like_its_server() {
    assert_eq!(models(&World::well())["models"][0]["name"], "llama");
}

#[test]
fn a_runtime_finds_the_model_list_where_the_variable_says() {
    let container = World::well().container();
    let variable = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .find(|variable| variable["name"] == "INFERFLEET_MODEL_CONFIG");
    let folder = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    assert_eq!(folder, "/etc/inferfleet/models");
    assert_eq!(
        variable.unwrap()["value"],
        format!("{folder}/model-list.json")
    );
}

#[test]
fn what_is_mounted_is_the_model_list_that_is_planned() {
    let world = World::well();
    let (pod, list) = (world.pod(), world.rendered(Kind::ConfigMap));
    assert_eq!(
        pod["volumes"],
        json!([{
            "name": pod["containers"][0]["volumeMounts"][0]["name"],
            "configMap": {"name": list["metadata"]["name"]},
        }])
    );
}

#[test]
fn a_runtime_cannot_write_the_model_list() {
    assert_eq!(
        World::well().container()["volumeMounts"][0]["readOnly"],
        true
    );
}

#[test]
fn a_server_without_a_model_has_no_mount_and_no_volume() {
    let mut world = World::well();
    world.placement["spec"]["model"] = Value::Null;
    world.content()["args"] = json!([]);
    assert_eq!(world.container().get("volumeMounts"), None);
    assert_eq!(world.pod().get("volumes"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_a_model_is_called_the_list_says_it(name in r#"["\\\PC]{1,40}"#, uri in r#"["\\\PC]{1,40}"#) {
        let mut world = World::well();
        world.content()["args"] = json!([]);
        world.placement["spec"]["model"] = json!({"name": name, "uri": uri});
        prop_assert_eq!(models(&world), json!({"models": [{"name": name, "uri": uri, "deployment": "", "phase": "Serving"}]}));
    }
}
