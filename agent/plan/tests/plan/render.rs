//! Which objects there are, and what they say.

use std::{fmt::Write, fs, path::Path};

use agent_plan::{Kind, Object, ObjectId};
use serde_json::{Value, json};

use crate::given::{World, shown};

fn rendered(world: &World, kind: Kind) -> Value {
    let plan = world.plan();
    let object = plan.objects.iter().find(|object| object.id().kind == kind);
    serde_json::to_value(object.unwrap()).unwrap()
}

fn kinds(world: &World) -> Vec<&'static str> {
    let plan = world.plan();
    plan.objects
        .iter()
        .map(|object| object.id().kind.as_str())
        .collect()
}

fn id(kind: Kind, name: &str) -> ObjectId {
    ObjectId {
        kind,
        name: name.to_owned(),
    }
}

/// A Pod template that changes with the agent's version restarts every replica of every fleet: change the file only
/// with a reason for that.
#[test]
fn the_echo_profile_renders_as_ever() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/echo.yaml");
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
    let mut expected = rendered(&two, Kind::Deployment);
    expected["spec"]["replicas"] = json!(1);
    assert_eq!(rendered(&one, Kind::Deployment), expected);
}

#[test]
fn the_selector_is_in_the_pods_labels_and_is_one_label() {
    let deployment = rendered(&World::well(), Kind::Deployment);
    let selector = &deployment["spec"]["selector"]["matchLabels"];
    assert_eq!(selector, &json!({"inferfleet.io/server": "llama"}));
    assert_eq!(
        deployment["spec"]["template"]["metadata"]["labels"]["inferfleet.io/server"],
        "llama"
    );
    assert_eq!(
        &rendered(&World::well(), Kind::Service)["spec"]["selector"],
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
        ["ServiceAccount", "Deployment", "Service", "HTTPRoute"]
    );
    let pod = &rendered(&world, Kind::Deployment)["spec"]["template"]["spec"];
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
fn a_profile_that_cannot_be_rendered_says_where_and_ends_nothing() {
    let mut world = World::well();
    world.owned = vec![id(Kind::Deployment, "llama"), id(Kind::Service, "llama")];
    let content = ["spec", "runtime", "content"];
    for (field, value, message) in [
        (
            "args",
            json!(["a", "$(model.nme)"]),
            "RuntimeProfile echo, spec.args[1]: $(model.nme) is unknown: use one of model.name, model.uri, port.grpc, port.http, port.metrics, or $$( for a literal $(",
        ),
        (
            "images",
            json!([{"vendor": "nvidia", "image": "cuda"}]),
            "RuntimeProfile echo, spec.images: no image is of vendor none, and no accelerator is asked for",
        ),
        (
            "ports",
            json!([{"name": "grpc", "port": 1}]),
            "RuntimeProfile echo, spec.ports: one port must be named http",
        ),
    ] {
        let before = world.placement.clone();
        let mut at = &mut world.placement;
        for step in content {
            at = &mut at[step];
        }
        if field == "ports" {
            at["args"] = json!([]);
        }
        at[field] = value;
        assert_eq!(world.plan().removals, [], "{field}");
        let report = world.report();
        assert_eq!(
            shown(&report.verdicts[0]),
            format!("False InvalidProfile: {message}")
        );
        assert_eq!(report.verdicts[3].state, crds::condition::State::Unknown);
        world.placement = before;
    }
}

#[test]
fn what_the_plan_no_longer_has_is_removed() {
    let mut world = World::well();
    world.owned = vec![
        id(Kind::ConfigMap, "llama-model-config"),
        id(Kind::Deployment, "llama"),
        id(Kind::HttpRoute, "llama-traffic-1"),
    ];
    assert_eq!(
        world.plan().removals,
        [id(Kind::HttpRoute, "llama-traffic-1")]
    );
    world.placement["spec"]["model"] = Value::Null;
    world.placement["spec"]["runtime"]["content"]["args"] = json!([]);
    assert_eq!(world.plan().removals.len(), 2);
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
    let route = rendered(&world, Kind::HttpRoute);
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
