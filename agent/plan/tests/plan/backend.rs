//! The model servers: what each field of ServiceAccount, Deployment and Service is for.

use agent_plan::Kind;
use crds::condition::State;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::given::{World, shown};

fn refusal(world: &World) -> String {
    shown(&world.report().verdicts[0])
}

#[test]
fn as_many_replicas_run_as_are_asked_for() {
    let mut world = World::well();
    world.placement["spec"]["replicas"] = json!(7);
    assert_eq!(world.rendered(Kind::Deployment)["spec"]["replicas"], 7);
}

#[test]
fn a_server_that_is_scaled_to_zero_keeps_its_objects() {
    let mut world = World::well();
    world.placement["spec"]["replicas"] = json!(1);
    let before: Vec<_> = world
        .plan()
        .objects
        .iter()
        .map(agent_plan::Object::id)
        .collect();
    world.placement["spec"]["replicas"] = json!(0);
    let after: Vec<_> = world
        .plan()
        .objects
        .iter()
        .map(agent_plan::Object::id)
        .collect();
    assert_eq!(after, before);
    assert_eq!(world.rendered(Kind::Deployment)["spec"]["replicas"], 0);
}

#[test]
fn more_replicas_than_kubernetes_can_count_are_as_many_as_it_can() {
    let mut world = World::well();
    world.placement["spec"]["replicas"] = json!(u32::MAX);
    assert_eq!(
        world.rendered(Kind::Deployment)["spec"]["replicas"],
        i32::MAX
    );
}

#[test]
fn a_replica_leaves_only_when_its_successor_is_ready() {
    assert_eq!(
        World::well().rendered(Kind::Deployment)["spec"]["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}})
    );
}

#[test]
fn a_replica_has_no_token_for_the_api_server() {
    let world = World::well();
    assert_eq!(world.pod()["automountServiceAccountToken"], false);
    let account = world.rendered(Kind::ServiceAccount);
    assert_eq!(account["automountServiceAccountToken"], false);
}

#[test]
fn replicas_run_as_the_account_that_is_planned_for_them() {
    let world = World::well();
    assert_eq!(
        world.pod()["serviceAccountName"],
        world.rendered(Kind::ServiceAccount)["metadata"]["name"]
    );
}

#[test]
fn a_leaving_replica_takes_requests_for_five_more_seconds() {
    let lifecycle = &World::well().container()["lifecycle"];
    assert_eq!(lifecycle, &json!({"preStop": {"sleep": {"seconds": 5}}}));
}

#[test]
fn a_replica_is_killed_ten_seconds_after_its_drain_at_the_earliest() {
    let mut world = World::well();
    for (drain, grace) in [(0, 10), (30, 40), (86_400, 86_410)] {
        world.content()["drainSeconds"] = json!(drain);
        assert_eq!(world.pod()["terminationGracePeriodSeconds"], grace);
    }
}

#[test]
fn a_drain_that_is_beyond_counting_does_not_become_a_short_one() {
    let mut world = World::well();
    world.content()["drainSeconds"] = json!(u32::MAX);
    assert_eq!(world.pod()["terminationGracePeriodSeconds"], u32::MAX);
}

#[test]
fn replicas_spread_over_nodes_and_start_where_they_cannot() {
    assert_eq!(
        World::well().pod()["topologySpreadConstraints"],
        json!([{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"inferfleet.io/server": "llama"}},
            "matchLabelKeys": ["pod-template-hash"],
        }])
    );
}

#[test]
fn the_image_that_needs_no_accelerator_is_taken_wherever_it_stands() {
    let mut world = World::well();
    let (none, other) = (
        json!({"vendor": "none", "image": "echo:2"}),
        json!({"vendor": "amd", "image": "rocm"}),
    );
    for images in [json!([none, other]), json!([other, none])] {
        world.content()["images"] = images;
        assert_eq!(world.container()["image"], "echo:2");
    }
}

#[test]
fn an_image_without_a_vendor_needs_no_accelerator() {
    let mut world = World::well();
    world.content()["images"] = json!([{"image": "echo:3"}]);
    assert_eq!(world.container()["image"], "echo:3");
}

#[test]
fn a_profile_without_command_and_arguments_leaves_the_images_own() {
    let mut world = World::well();
    world.content()["command"] = json!([]);
    world.content()["args"] = json!([]);
    let container = world.container();
    assert_eq!(container.get("command"), None);
    assert_eq!(container.get("args"), None);
}

#[test]
fn the_container_has_the_name_that_logs_are_asked_for_by() {
    assert_eq!(World::well().container()["name"], "server");
}

#[test]
fn a_replica_knows_its_pod_namespace_uid_and_node() {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    assert_eq!(
        World::well().container()["env"].as_array().unwrap()[..4],
        [
            field("POD_NAME", "metadata.name"),
            field("POD_NAMESPACE", "metadata.namespace"),
            field("POD_UID", "metadata.uid"),
            field("NODE_NAME", "spec.nodeName"),
        ]
    );
}

#[test]
fn ports_of_one_number_are_one_that_is_called_http() {
    let mut world = World::well();
    world.content()["ports"] = json!([
        {"name": "metrics", "port": 8000}, {"name": "http", "port": 8000}, {"name": "grpc", "port": 9000},
    ]);
    assert_eq!(
        world.container()["ports"],
        json!([
            {"name": "http", "containerPort": 8000, "protocol": "TCP"},
            {"name": "grpc", "containerPort": 9000, "protocol": "TCP"},
        ])
    );
}

#[test]
fn of_two_other_names_for_one_number_the_first_is_kept() {
    let mut world = World::well();
    world.content()["ports"] = json!([
        {"name": "http", "port": 8000}, {"name": "metrics", "port": 9000}, {"name": "admin", "port": 9000},
    ]);
    assert_eq!(world.container()["ports"][1]["name"], "metrics");
    assert_eq!(world.container()["ports"].as_array().unwrap().len(), 2);
}

#[test]
fn a_port_at_either_end_of_the_range_is_rendered() {
    let mut world = World::well();
    world.content()["ports"] =
        json!([{"name": "http", "port": 65_535}, {"name": "low", "port": 1}]);
    assert_eq!(world.container()["ports"][0]["containerPort"], 1);
    assert_eq!(world.container()["ports"][1]["containerPort"], 65_535);
}

#[test]
fn every_probe_asks_at_the_port_that_takes_the_traffic() {
    let container = World::well().container();
    for (probe, path) in [
        ("startupProbe", "/v2/health/ready"),
        ("readinessProbe", "/v2/health/ready"),
        ("livenessProbe", "/v2/health/live"),
    ] {
        assert_eq!(
            container[probe]["httpGet"],
            json!({"path": path, "port": "http"}),
            "{probe}"
        );
    }
}

#[test]
fn readiness_and_startup_are_asked_for_each_second() {
    let container = World::well().container();
    assert_eq!(container["readinessProbe"]["periodSeconds"], 1);
    assert_eq!(container["startupProbe"]["periodSeconds"], 1);
}

#[test]
fn liveness_is_in_no_hurry() {
    let probe = &World::well().container()["livenessProbe"];
    assert_eq!(probe["periodSeconds"], 10);
}

#[test]
fn a_busy_replica_may_answer_late() {
    let container = World::well().container();
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        assert_eq!(container[probe]["timeoutSeconds"], 5, "{probe}");
    }
}

#[test]
fn a_probe_without_a_limit_may_fail_for_thirty_seconds() {
    let mut world = World::well();
    world.content()["probes"] = json!({
        "startup": {"path": "/"}, "readiness": {"path": "/"}, "liveness": {"path": "/"},
    });
    let container = world.container();
    assert_eq!(container["startupProbe"]["failureThreshold"], 30);
    assert_eq!(container["readinessProbe"]["failureThreshold"], 30);
    assert_eq!(container["livenessProbe"]["failureThreshold"], 3);
}

#[test]
fn a_probe_never_counts_as_failed_before_its_limit() {
    let mut world = World::well();
    for (seconds, tries) in [(1, 1), (10, 1), (11, 2), (40, 4), (41, 5), (86_400, 8_640)] {
        world.content()["probes"]["liveness"]["failureSeconds"] = json!(seconds);
        let probe = &world.container()["livenessProbe"];
        assert_eq!(probe["failureThreshold"], tries, "{seconds} s");
    }
}

#[test]
fn a_limit_of_nothing_still_is_one_try() {
    let mut world = World::well();
    world.content()["probes"]["readiness"]["failureSeconds"] = json!(0);
    assert_eq!(world.container()["readinessProbe"]["failureThreshold"], 1);
}

#[test]
fn a_profile_without_startup_and_liveness_is_asked_for_readiness_alone() {
    let mut world = World::well();
    world.content()["probes"] = json!({"readiness": {"path": "/ready"}});
    let container = world.container();
    assert_eq!(container.get("startupProbe"), None);
    assert_eq!(container.get("livenessProbe"), None);
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/ready");
}

#[test]
fn resources_reach_the_container_as_they_were_written() {
    let mut world = World::well();
    world.placement["spec"]["resources"] = json!({
        "requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": 1},
    });
    assert_eq!(
        world.container()["resources"],
        json!({
            "requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"},
        })
    );
}

#[test]
fn a_server_without_resources_asks_for_none() {
    let mut world = World::well();
    world.placement["spec"]["resources"] = Value::Null;
    assert_eq!(world.container().get("resources"), None);
}

#[test]
fn requests_without_limits_set_no_limits() {
    let mut world = World::well();
    world.placement["spec"]["resources"] = json!({"requests": {"cpu": 1}});
    assert_eq!(
        world.container()["resources"],
        json!({"requests": {"cpu": "1"}})
    );
    world.placement["spec"]["resources"] = json!({"limits": {"cpu": 1}});
    assert_eq!(
        world.container()["resources"],
        json!({"limits": {"cpu": "1"}})
    );
}

#[test]
fn the_service_is_reached_at_port_80_within_the_cluster_and_leads_to_http() {
    let spec = &World::well().rendered(Kind::Service)["spec"];
    assert_eq!(spec["type"], "ClusterIP");
    assert_eq!(
        spec["ports"],
        json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}])
    );
}

#[test]
fn another_number_for_http_leaves_the_service_as_it_is() {
    let (before, mut world) = (World::well().rendered(Kind::Service), World::well());
    world.content()["ports"] = json!([{"name": "http", "port": 3000}]);
    assert_eq!(world.rendered(Kind::Service), before);
    assert_eq!(world.container()["ports"][0]["containerPort"], 3000);
}

#[test]
fn another_model_uri_restarts_no_replica_that_reads_the_model_list() {
    let (before, mut world) = (World::well().rendered(Kind::Deployment), World::well());
    world.placement["spec"]["model"]["uri"] = json!("hf://org/other");
    assert_eq!(world.rendered(Kind::Deployment), before);
}

#[test]
fn another_gateway_restarts_no_replica() {
    let (before, mut world) = (World::well().rendered(Kind::Deployment), World::well());
    world.placement["spec"]["gateway"] = json!({"namespace": "own", "name": "gate"});
    assert_eq!(world.rendered(Kind::Deployment), before);
}

#[test]
fn a_profile_for_accelerators_alone_is_refused() {
    let mut world = World::well();
    world.content()["images"] = json!([{"vendor": "nvidia", "image": "cuda"}]);
    assert_eq!(
        refusal(&world),
        "False BackendUnsupported: RuntimeProfile echo has no image that needs no accelerator (vendor none), and spec.accelerator asks for none: add one to the profile, or set spec.runtime.image; it has those of nvidia"
    );
}

#[test]
fn a_profile_without_a_port_for_traffic_is_refused() {
    let mut world = World::well();
    world.content()["args"] = json!([]);
    world.content()["ports"] = json!([{"name": "grpc", "port": 1}]);
    assert_eq!(
        refusal(&world),
        "False InvalidProfile: RuntimeProfile echo, spec.ports: one port must be named http"
    );
}

#[test]
fn a_refused_profile_is_not_told_as_a_fault_of_the_replicas() {
    let mut world = World::well();
    world.content()["images"] = json!([{"vendor": "nvidia", "image": "cuda"}]);
    let health = &world.report().verdicts[3];
    assert_eq!(health.state, State::Unknown);
    assert_eq!(
        health.message,
        "2 of 2 replicas ready; the Deployment is not yet as planned"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_a_profiles_ports_restarts_no_replica(
        ports in Just(vec![("http", 8000), ("grpc", 9000), ("metrics", 7000), ("debug", 8000)]).prop_shuffle(),
    ) {
        let mut world = World::well();
        world.content()["ports"] = ports
            .iter()
            .map(|(name, port)| json!({"name": name, "port": port}))
            .collect();
        prop_assert_eq!(
            world.container()["ports"].clone(),
            json!([
                {"name": "metrics", "containerPort": 7000, "protocol": "TCP"},
                {"name": "http", "containerPort": 8000, "protocol": "TCP"},
                {"name": "grpc", "containerPort": 9000, "protocol": "TCP"},
            ])
        );
    }
}
