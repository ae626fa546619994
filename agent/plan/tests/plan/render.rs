//! Which objects there are, and what they say.

use std::{fmt::Write, fs, path::Path};

use agent_plan::{Kind, Object, ObjectId};
use crds::condition::State;
use serde_json::{Value, json};

use crate::given::{World, id, pod, shown};

fn kinds(world: &World) -> Vec<&'static str> {
    let plan = world.plan();
    plan.objects
        .iter()
        .map(|object| object.id().kind.as_str())
        .collect()
}

/// All that a world in which all is well has.
fn owned() -> Vec<ObjectId> {
    World::well()
        .plan()
        .objects
        .iter()
        .map(Object::id)
        .collect()
}

/// A Pod template that changes with the agent's version restarts every replica of every fleet: change the file only
/// with a reason for that.
#[test]
fn the_echo_profile_renders_as_ever() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/echo.yaml");
    let mut text = String::new();
    for object in World::well().plan().objects {
        write!(text, "---\n{}", serde_saphyr::to_string(&object).unwrap()).unwrap();
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(&path).unwrap_or_default());
}

#[test]
fn to_scale_changes_nothing_but_the_number() {
    let (mut one, two) = (World::well(), World::well());
    one.placement["spec"]["replicas"] = json!(1);
    let mut expected = two.rendered(Kind::Deployment);
    expected["spec"]["replicas"] = json!(1);
    assert_eq!(one.rendered(Kind::Deployment), expected);
}

#[test]
fn the_selector_is_in_the_pods_labels_and_is_one_label() {
    let deployment = World::well().rendered(Kind::Deployment);
    let selector = &deployment["spec"]["selector"]["matchLabels"];
    assert_eq!(selector, &json!({"inferfleet.io/server": "llama"}));
    assert_eq!(
        deployment["spec"]["template"]["metadata"]["labels"]["inferfleet.io/server"],
        "llama"
    );
    assert_eq!(
        &World::well().rendered(Kind::Service)["spec"]["selector"],
        selector
    );
}

#[test]
fn a_server_without_a_model_has_no_model_list_and_mounts_none() {
    let mut world = World::well();
    world.placement["spec"]["model"] = Value::Null;
    world.placement["spec"]["runtime"]["content"]["args"] = json!([]);
    assert_eq!(
        kinds(&world),
        [
            "ServiceAccount",
            "Deployment",
            "Service",
            "PodDisruptionBudget",
            "HTTPRoute"
        ]
    );
    let pod = &world.rendered(Kind::Deployment)["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"], Value::Null);
    assert!(
        !pod["containers"][0]["env"]
            .to_string()
            .contains("MODEL_CONFIG")
    );
    assert_eq!(
        shown(&world.report().verdicts[2]),
        "True Provisioned: no model is set"
    );
}

#[test]
fn a_profile_that_cannot_be_rendered_ends_nothing() {
    let mut world = World::well();
    world.owned = owned();
    world.content()["images"] = json!([]);
    assert_eq!(world.plan().removals, []);
}

#[test]
fn a_profile_that_cannot_be_rendered_keeps_neither_route_nor_model_list_from_being_applied() {
    let mut world = World::well();
    world.content()["images"] = json!([]);
    assert_eq!(kinds(&world), ["ConfigMap", "HTTPRoute"]);
    let states = world.report().verdicts.map(|verdict| verdict.state);
    assert_eq!(states[1..3], [State::True, State::True]);
}

#[test]
fn what_the_plan_no_longer_has_is_removed() {
    let mut world = World::well();
    world.owned = owned();
    let surplus = [
        id(Kind::ServiceAccount, "old"),
        id(Kind::ConfigMap, "old"),
        id(Kind::Deployment, "old"),
        id(Kind::Service, "old"),
        id(Kind::HttpRoute, "llama-traffic-1"),
    ];
    world.owned.extend(surplus.clone());
    assert_eq!(world.plan().removals, surplus);
}

#[test]
fn a_plan_of_what_is_already_there_removes_nothing() {
    let mut world = World::well();
    world.owned = owned();
    assert_eq!(world.plan().removals, []);
}

#[test]
fn an_object_of_another_kind_is_not_taken_for_the_planned_one_of_its_name() {
    let mut world = World::well();
    world.owned = vec![id(Kind::ConfigMap, "llama")];
    assert_eq!(world.plan().removals, world.owned);
}

#[test]
fn a_model_list_goes_with_its_model() {
    let mut world = World::well();
    world.owned = owned();
    world.placement["spec"]["model"] = Value::Null;
    world.content()["args"] = json!([]);
    assert_eq!(
        world.plan().removals,
        [id(Kind::ConfigMap, "llama-model-config")]
    );
}

#[test]
fn a_missing_gateway_keeps_no_other_object_from_being_removed() {
    let mut world = World::well();
    world.owned = vec![
        id(Kind::Service, "old"),
        id(Kind::HttpRoute, "llama-traffic-0"),
    ];
    world.gateway = None;
    assert_eq!(world.plan().removals, [id(Kind::Service, "old")]);
}

#[test]
fn a_route_outlives_its_listener_and_the_gateway_api() {
    let mut world = World::well();
    world.owned = vec![id(Kind::HttpRoute, "llama-traffic-0")];
    world.listen(json!([]));
    assert_eq!(world.plan().removals, []);
    world.gateway_api = false;
    assert_eq!(world.plan().removals, []);
}

#[test]
fn what_an_object_names_comes_before_it() {
    assert_eq!(
        kinds(&World::well()),
        [
            "ConfigMap",
            "ServiceAccount",
            "Deployment",
            "Service",
            "PodDisruptionBudget",
            "HTTPRoute"
        ]
    );
}

#[test]
fn what_became_of_the_objects_changes_nothing_of_what_is_planned() {
    let (before, mut world) = (World::well().plan(), World::well());
    world.deployment = None;
    world.route = None;
    world.pods = vec![pod("p", &json!({}))];
    world.address(json!([]));
    assert_eq!(world.plan(), before);
}

#[test]
fn a_route_outlives_its_gateway_but_not_the_wish_for_one() {
    let mut world = World::well();
    world.owned = vec![id(Kind::HttpRoute, "llama-traffic-0")];
    world.gateway = None;
    assert_eq!(world.plan().removals, []);
    world.default_gateway = None;
    assert_eq!(world.plan().removals, world.owned);
}

#[test]
fn the_placements_own_gateway_beats_the_default() {
    let mut world = World::well();
    // As a whole: the default's listener is one of another Gateway.
    world.default_gateway.as_mut().unwrap().listener = Some("one-host".to_owned());
    world.placement["spec"]["gateway"] = json!({"namespace": "own", "name": "gate"});
    let route = world.rendered(Kind::HttpRoute);
    assert_eq!(
        route["spec"]["parentRefs"],
        json!([{"namespace": "own", "name": "gate", "sectionName": "http"}])
    );
}

#[test]
fn every_object_belongs_to_the_placement() {
    for object in World::well().plan().objects {
        let metadata = &serde_json::to_value(&object).unwrap()["metadata"];
        assert_eq!(metadata["ownerReferences"][0]["uid"], "placement-uid");
        assert_eq!(metadata["ownerReferences"][0]["controller"], true);
        assert_eq!(
            metadata["labels"]["app.kubernetes.io/managed-by"],
            "inferfleet-agent"
        );
        assert_eq!(metadata["namespace"], "team-a", "{:?}", Object::id(&object));
    }
}
