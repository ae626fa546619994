//! What a server and its profile ask of a replica beside its resources.

use agent_plan::Kind;
use serde_json::{Value, json};

use crate::given::{World, shown};

fn variable<'a>(container: &'a Value, name: &str) -> Option<&'a Value> {
    let mut env = container["env"].as_array().unwrap().iter();
    env.find(|variable| variable["name"] == name)
}

#[test]
fn a_servers_arguments_come_after_its_profiles_as_they_were_written() {
    let mut world = World::well();
    world.placement["spec"]["runtime"]["args"] = json!(["--seed=$(POD_UID)", "$(port.http)"]);
    assert_eq!(
        world.container()["args"],
        json!([
            "--listen=0.0.0.0:8000",
            "--name=llama",
            "--seed=$(POD_UID)",
            "$(port.http)"
        ])
    );
}

#[test]
fn a_servers_image_beats_its_profiles() {
    let mut world = World::well();
    world.placement["spec"]["runtime"]["image"] = json!("mine@sha256:0");
    assert_eq!(world.container()["image"], "mine@sha256:0");
}

#[test]
fn variables_come_from_profile_and_server_and_the_later_beats_the_earlier_in_its_place() {
    let mut world = World::well();
    world.content()["env"] = json!([
        {"name": "MODEL", "value": "$(model.name) on $(port.http), $$(VAR)"},
        {"name": "LEVEL", "value": "info"},
        {"name": "EMPTY"},
    ]);
    world.placement["spec"]["runtime"]["env"] = json!([
        {"name": "LEVEL", "value": "debug"},
        {"name": "TOKEN", "secretKeyRef": {"name": "hub", "key": "token"}},
        {"name": "SITE", "configMapKeyRef": {"name": "site", "key": "name"}},
        {"name": "RAW", "value": "$(model.name)"},
    ]);
    let container = world.container();
    let names: Vec<_> = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names[4..],
        [
            "MODEL",
            "LEVEL",
            "EMPTY",
            "TOKEN",
            "SITE",
            "RAW",
            "INFERFLEET_MODEL_CONFIG"
        ]
    );
    let value = |name: &str| variable(&container, name).unwrap().clone();
    assert_eq!(value("MODEL")["value"], "llama on 8000, $$(VAR)");
    assert_eq!(value("LEVEL")["value"], "debug");
    assert_eq!(value("EMPTY")["value"], "");
    assert_eq!(
        value("TOKEN")["valueFrom"],
        json!({"secretKeyRef": {"name": "hub", "key": "token"}})
    );
    assert_eq!(
        value("SITE")["valueFrom"],
        json!({"configMapKeyRef": {"name": "site", "key": "name"}})
    );
    assert_eq!(value("RAW")["value"], "$(model.name)");
}

#[test]
fn a_variable_that_names_what_is_not_is_refused_with_its_name() {
    let mut world = World::well();
    world.content()["env"] = json!([{"name": "A", "value": "$(nothing)"}]);
    let said = shown(&world.report().verdicts[0]);
    assert!(
        said.starts_with("False InvalidProfile: RuntimeProfile echo, spec.env[A]: $(nothing) is unknown: use one of accelerator.count, model.name, model.path, model.uri, port.grpc,"),
        "{said}"
    );
}

#[test]
fn the_path_of_a_model_is_what_a_runtime_opens_by_itself() {
    let mut world = World::well();
    world.content()["args"] = json!(["$(model.path)"]);
    for (uri, path) in [
        ("hf://org/llama", "org/llama"),
        ("file:///models/llama", "/models/llama"),
    ] {
        world.placement["spec"]["model"]["uri"] = json!(uri);
        assert_eq!(world.container()["args"], json!([path]));
    }
    world.placement["spec"]["model"]["uri"] = json!("s3://models/llama");
    assert_eq!(
        shown(&world.report().verdicts[0]),
        "False InvalidProfile: RuntimeProfile echo, spec.args[0]: $(model.path) needs a model that a runtime opens by itself, of scheme hf:// or file://: s3://models/llama is none"
    );
}

#[test]
fn a_probe_may_ask_for_the_model_and_the_route_asks_the_same() {
    let mut world = World::well();
    world.content()["probes"]["readiness"]["path"] = json!("/v2/models/$(model.name)/ready");
    let path = "/v2/models/llama/ready";
    assert_eq!(world.container()["readinessProbe"]["httpGet"]["path"], path);
    let route = world.rendered(Kind::HttpRoute);
    assert_eq!(
        route.pointer("/spec/rules/0/filters/0/urlRewrite/path/replaceFullPath"),
        Some(&json!(path))
    );
}

#[test]
fn shared_memory_is_as_large_as_the_profile_says() {
    let mut world = World::well();
    world.content()["sharedMemory"] = json!("2Gi");
    let pod = world.pod();
    assert_eq!(
        pod["volumes"][1],
        json!({"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}})
    );
    assert_eq!(
        pod["containers"][0]["volumeMounts"][1],
        json!({"name": "shared-memory", "mountPath": "/dev/shm"})
    );
}

#[test]
fn a_container_may_do_what_its_profile_says() {
    let mut world = World::well();
    assert_eq!(world.container().get("securityContext"), None);
    world.content()["securityContext"] = json!({"runAsNonRoot": true});
    let said = &world.container()["securityContext"];
    assert_eq!(said, &json!({"runAsNonRoot": true}));
}

#[test]
fn pods_say_where_their_metrics_are() {
    let mut world = World::well();
    world.content()["metrics"] = json!({"port": "grpc"});
    let template = &world.rendered(Kind::Deployment)["spec"]["template"];
    assert_eq!(
        template["metadata"]["annotations"],
        json!({
            "prometheus.io/scrape": "true", "prometheus.io/port": "9000", "prometheus.io/path": "/metrics",
        })
    );
    world.content()["metrics"] = json!({"port": "none"});
    assert_eq!(
        shown(&world.report().verdicts[0]),
        "False InvalidProfile: RuntimeProfile echo, spec.metrics.port: no port is named none"
    );
}

#[test]
fn replicas_of_one_revision_are_kept_apart_as_the_server_asks() {
    let affinity = |spreading: &str| {
        let mut world = World::well();
        world.placement["spec"]["spreading"] = json!(spreading);
        let pod = world.pod();
        (
            pod.get("affinity").cloned(),
            pod.get("topologySpreadConstraints").is_some(),
        )
    };
    let term = json!({
        "labelSelector": {"matchLabels": {"inferfleet.io/server": "llama"}},
        "matchLabelKeys": ["pod-template-hash"],
        "topologyKey": "kubernetes.io/hostname",
    });
    let preferred = json!({"podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}],
    }});
    let required = json!({"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
    }});
    assert_eq!(affinity("Preferred"), (Some(preferred), true));
    assert_eq!(affinity("Required"), (Some(required), true));
    assert_eq!(affinity("None"), (None, false));
}

#[test]
fn one_replica_more_or_less_changes_no_template() {
    let template = |replicas: u32, spreading: &str| {
        let mut world = World::well();
        world.placement["spec"]["replicas"] = json!(replicas);
        world.placement["spec"]["spreading"] = json!(spreading);
        world.pod()
    };
    for spreading in ["Preferred", "Required", "None"] {
        assert_eq!(template(1, spreading), template(9, spreading));
    }
}

#[test]
fn of_several_replicas_one_may_be_away_while_nodes_are_drained() {
    let mut world = World::well();
    let budget = world.rendered(Kind::PodDisruptionBudget);
    assert_eq!(
        budget["spec"],
        json!({
            "maxUnavailable": 1,
            "selector": {"matchLabels": {"inferfleet.io/server": "llama"}},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        })
    );
    world.placement["spec"]["disruption"] = json!({"maxUnavailable": 0});
    let budget = world.rendered(Kind::PodDisruptionBudget);
    assert_eq!(budget["spec"]["maxUnavailable"], 0);
}

#[test]
fn one_replica_alone_holds_up_no_drain_unless_that_is_asked_for() {
    let mut world = World::well();
    world.placement["spec"]["replicas"] = json!(1);
    let kinds: Vec<_> = world
        .plan()
        .objects
        .iter()
        .map(|one| one.id().kind)
        .collect();
    assert!(!kinds.contains(&Kind::PodDisruptionBudget));
    world.placement["spec"]["disruption"] = json!({"maxUnavailable": 0});
    let budget = world.rendered(Kind::PodDisruptionBudget);
    assert_eq!(budget["spec"]["maxUnavailable"], 0);
}

#[test]
fn images_are_pulled_with_the_secrets_of_the_server() {
    let mut world = World::well();
    world.placement["spec"]["imagePullSecrets"] = json!([{"name": "registry"}]);
    assert_eq!(
        world.pod()["imagePullSecrets"],
        json!([{"name": "registry"}])
    );
}

#[test]
fn no_service_of_the_namespace_is_in_the_environment_of_a_replica() {
    assert_eq!(World::well().pod()["enableServiceLinks"], false);
}
