//! One InferenceServer, two members, requests that arrive, and a status that tells.

use std::collections::BTreeSet;
use std::time::Duration;

use crds::labels;
use e2e::installed::NAMESPACE;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::Value;

use super::{SOON, alone, endpoints, server, serving, shared, slices};

/// How many changes of an address are measured.
const CHANGES: u8 = 8;
/// Longer than the pace at which the hub writes one slice, so that the next change of it is a first one.
const REST: Duration = Duration::from_millis(1_500);

pub(crate) async fn pod_uids(cluster: &e2e::Cluster, namespace: &str) -> BTreeSet<String> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await.unwrap(), namespace);
    let found = pods
        .list(&ListParams::default().labels(labels::SERVER))
        .await
        .unwrap();
    found.items.iter().filter_map(ResourceExt::uid).collect()
}

#[tokio::test]
async fn requests_at_the_hubs_gateway_are_answered_by_model_servers_in_both_members() {
    let fleet = shared().await;
    serving(&fleet, "answers", &["east", "west"]).await;
    let east = pod_uids(fleet.member("east").unwrap(), "answers").await;
    let west = pod_uids(fleet.member("west").unwrap(), "answers").await;
    let (mut by_east, mut by_west) = (0, 0);
    while by_east == 0 || by_west == 0 {
        let answer = fleet.ask("/answers/hello/v1/models").await.unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.body());
        let uid = answer.headers()["x-echo-pod-uid"].to_str().unwrap();
        assert!(
            east.contains(uid) || west.contains(uid),
            "{uid} is no Pod of the server"
        );
        by_east += usize::from(east.contains(uid));
        by_west += usize::from(west.contains(uid));
        let models: Value = serde_json::from_str(answer.body()).unwrap();
        assert_eq!(models["data"][0]["id"], "hello");
        assert!(
            by_east + by_west < 200,
            "only one cluster answers: {by_east} and {by_west}"
        );
    }
}

#[tokio::test]
async fn every_path_of_the_first_row_and_the_probe_arrive() {
    let fleet = shared().await;
    let server = serving(&fleet, "paths", &["east"]).await;
    // The client's column, by KServe's paths.
    let ready = fleet.ask("/paths/hello/v2/health/ready").await.unwrap();
    assert_eq!(ready.status(), 200);
    // The member's own: what a client of the discovery Service, and a probe, ask there.
    let east = fleet.member("east").unwrap();
    let gateway = east.gateway_address();
    let direct = fleet
        .hub()
        .get(gateway, "/cluster/paths/hello/v1/models")
        .await
        .unwrap();
    assert_eq!(direct.status(), 200);
    let probe = fleet
        .hub()
        .get(gateway, "/cluster/paths/hello/-/ready")
        .await
        .unwrap();
    assert_eq!(probe.status(), 200);
    let placement = probe.headers()[labels::PLACEMENT_HEADER].to_str().unwrap();
    assert_eq!(placement, server.uid().unwrap());
    let other = fleet.ask("/paths/other/v1/models").await.unwrap();
    assert_eq!(other.status(), 404);
}

#[tokio::test]
async fn the_status_tells_by_columns_conditions_and_clusters() {
    let fleet = shared().await;
    let server = serving(&fleet, "columns", &["east", "west"]).await;
    let status = server.status.unwrap();
    assert_eq!(serde_json::to_value(status.state).unwrap(), "Serving");
    let kinds: Vec<_> = status
        .conditions
        .iter()
        .map(|condition| condition.type_.as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "Ready",
            "Available",
            "Validation",
            "BackendProvision",
            "EndpointPublish",
            "DiscoveryRouteProvision",
            "TrafficRouteProvision",
            "ModelConfigProvision",
            "HealthCheck"
        ]
    );
    let hub = fleet.hub();
    let table = hub
        .kubectl(&["get", "isvr", "-n", "columns", "--no-headers"])
        .await
        .unwrap();
    let columns: Vec<_> = table.split_whitespace().collect();
    assert_eq!(
        columns[..6],
        ["hello", "echo", "2/2", "2/2", "True", "Serving"],
        "{table}"
    );
    let waited = [
        "wait",
        "--for=condition=Ready",
        "isvr/hello",
        "-n",
        "columns",
        "--timeout=10s",
    ];
    assert!(
        hub.kubectl(&waited)
            .await
            .unwrap()
            .contains("condition met")
    );
    let members = hub.kubectl(&["get", "mcl", "--no-headers"]).await.unwrap();
    let kubernetes = hub.client().await.unwrap().apiserver_version().await;
    let kubernetes = kubernetes.unwrap().git_version;
    for line in members
        .lines()
        .filter(|line| line.starts_with("east") || line.starts_with("west"))
    {
        let columns: Vec<_> = line.split_whitespace().collect();
        assert_eq!(columns[1..3], ["True", "True"], "{members}");
        assert_eq!(
            columns[4..6],
            [kubernetes.as_str(), env!("CARGO_PKG_VERSION")],
            "{members}"
        );
    }
}

#[tokio::test]
async fn the_discovery_service_and_its_slices_are_as_promised() {
    let fleet = shared().await;
    let server = serving(&fleet, "discovery", &["east", "west"]).await;
    let hub = fleet.hub();
    let services: Api<Service> = Api::namespaced(hub.client().await.unwrap(), "discovery");
    let service = services.get("hello-endpoints").await.unwrap();
    assert_eq!(
        service.metadata.owner_references.as_ref().unwrap()[0].uid,
        server.uid().unwrap()
    );
    let spec = service.spec.unwrap();
    assert_eq!(
        (spec.type_.as_deref(), spec.selector),
        (Some("ClusterIP"), None)
    );
    let port = &spec.ports.unwrap()[0];
    assert_eq!((port.port, port.name.as_deref()), (80, Some("http")));
    for name in ["east", "west"] {
        let api = slices(hub, "discovery").await;
        let slice = api
            .get(&format!("hello-endpoints-{name}-ipv4-0"))
            .await
            .unwrap();
        let gateway = fleet.member(name).unwrap().gateway_address();
        assert_eq!(endpoints(&slice), [(gateway.ip(), true)]);
        assert_eq!(
            slice.ports.as_ref().unwrap()[0].port,
            Some(i32::from(gateway.port()))
        );
        assert_eq!(
            slice.labels()["kubernetes.io/service-name"],
            "hello-endpoints"
        );
        assert_eq!(
            slice.labels()["multicluster.kubernetes.io/source-cluster"],
            name
        );
    }
}

#[tokio::test]
async fn shares_of_the_traffic_follow_the_weights() {
    let fleet = shared().await;
    super::namespace(&fleet, "weights").await;
    let mut server = server("weights", &["east", "west"]);
    server.spec.cluster_targets[0].weight = 3;
    fleet.apply(&server).await.unwrap();
    fleet.ready("weights", "hello").await.unwrap();
    let east = pod_uids(fleet.member("east").unwrap(), "weights").await;
    // The gateway's data plane may be a moment behind its word: what is asked for is that it gets there, and then that all are
    // answered. Without weights east would answer 200.
    let shared = || async {
        let mut by_east = 0;
        for _ in 0..400 {
            let answer = fleet.ask("/weights/hello/v1/models").await?;
            let by = answer.headers().get("x-echo-pod-uid");
            let by = by.ok_or_else(|| anyhow::anyhow!("no model server: {}", answer.status()))?;
            by_east += u32::from(east.contains(by.to_str()?));
        }
        // 300 are expected, with a standard deviation of 9.
        anyhow::ensure!(
            (255..=345).contains(&by_east),
            "east answered {by_east} of 400"
        );
        Ok(())
    };
    e2e::wait::eventually("three of four answers from east", SOON, shared)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_changed_gateway_address_reaches_the_hubs_slice_without_a_timer() {
    let fleet = alone().await;
    serving(&fleet, "moved", &["east", "west"]).await;
    let (hub, east) = (fleet.hub(), fleet.member("east").unwrap());
    let gateways: Api<gateway_api::gateways::Gateway> =
        Api::namespaced(east.client().await.unwrap(), "infra");
    let slice = slices(hub, "moved").await;
    let mut took = Vec::new();
    for round in 0..CHANGES {
        // What follows within the pace of the slice's last write waits for its end on purpose. A round is about what does not:
        // that time passes is its premise, and there is nothing to see that it has.
        tokio::time::sleep(REST).await;
        // The last one is the address that all other tests know.
        let address = east
            .other_gateway_address((CHANGES - 1 - round) % 2 * (round + 1))
            .unwrap()
            .ip();
        let wanted = address.to_string();
        let held = |object: Option<&gateway_api::gateways::Gateway>| {
            let addresses = object.and_then(|gateway| gateway.status.as_ref()?.addresses.as_ref());
            addresses
                .is_some_and(|addresses| addresses.iter().any(|address| address.value == wanted))
        };
        let published = |slice: Option<&k8s_openapi::api::discovery::v1::EndpointSlice>| {
            slice.is_some_and(|slice| endpoints(slice) == [(address, true)])
        };
        let announced = async {
            e2e::wait::until(gateways.clone(), "public", SOON, held)
                .await
                .unwrap();
            e2e::clock::monotonic()
        };
        let arrived = async {
            e2e::wait::until(
                slice.clone(),
                "hello-endpoints-east-ipv4-0",
                SOON,
                published,
            )
            .await
            .unwrap();
            e2e::clock::monotonic()
        };
        let ((), announced, arrived) = tokio::join!(
            async { east.set_gateway_address(address).await.unwrap() },
            announced,
            arrived
        );
        took.push(arrived.saturating_duration_since(announced));
    }
    took.sort_unstable();
    let (median, longest) = (took[took.len() / 2], took[took.len() - 1]);
    println!(
        "gateway address → hub's slice, {CHANGES} changes: p50 {median:.1?}, longest {longest:.1?}"
    );
    // Far more than events take, and less than a timer: the pace of a slice alone is a second.
    assert!(
        median < Duration::from_millis(500),
        "p50 {median:?} of {took:?}"
    );
}

/// What the hub counts.
pub(crate) async fn metrics(fleet: &e2e::Installed) -> String {
    let pods: Api<Pod> = Api::namespaced(fleet.hub().client().await.unwrap(), NAMESPACE);
    let pod = pods
        .get(&super::faults::hub_pod(fleet).await)
        .await
        .unwrap();
    let address = pod.status.unwrap().pod_ip.unwrap();
    let address = std::net::SocketAddr::new(address.parse().unwrap(), 8080);
    fleet
        .hub()
        .get(address, "/metrics")
        .await
        .unwrap()
        .into_body()
}

#[tokio::test]
async fn events_and_metrics_tell_what_happened() {
    let fleet = shared().await;
    serving(&fleet, "told", &["east", "west"]).await;
    let hub = fleet.hub();
    let events: Api<Event> = Api::namespaced(hub.client().await.unwrap(), "told");
    let until_told = async |action: &str| {
        let told = || async {
            let found = events.list(&ListParams::default()).await?.items;
            let told: Vec<_> = found.into_iter().filter_map(|event| event.action).collect();
            let count = told.iter().filter(|told| *told == action).count();
            anyhow::ensure!(count == 1, "{told:?}");
            Ok(told)
        };
        e2e::wait::eventually("one event", SOON, told)
            .await
            .unwrap()
    };
    // It serves on: what has begun is kept.
    let mut wanted = server("told", &["east", "west"]);
    wanted.spec.runtime.profile = "nobodys".to_owned();
    fleet.apply(&wanted).await.unwrap();
    let told = until_told("ReadyFalse").await;
    assert_eq!(
        told,
        ["ReadyFalse"],
        "a creation that goes well is not told"
    );
    fleet
        .apply(&server("told", &["east", "west"]))
        .await
        .unwrap();
    until_told("ReadyTrue").await;
    let metrics = metrics(&fleet).await;
    for line in [
        "inferfleet_hub_sessions 2",
        "inferfleet_hub_endpoints{state=\"ready\"}",
        "inferfleet_hub_reconciles_total",
        "inferfleet_hub_servers_waiting",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let propagated = metrics
        .lines()
        .find_map(|line| line.strip_prefix("inferfleet_hub_endpoint_propagation_seconds_count "));
    let propagated: u64 = propagated.unwrap().parse().unwrap();
    assert!(propagated >= 2, "two endpoints came about: {propagated}");
    let table = fleet
        .inferfleet(&["placements", "hello", "-n", "told"])
        .await
        .unwrap();
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[1].starts_with("east     Serving  1/1"), "{table}");
}
