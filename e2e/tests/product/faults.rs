//! Processes that are killed, and API servers that stop and freeze.

use crds::v1alpha1::{InferenceServer, MemberCluster};
use e2e::installed::{NAMESPACE, condition};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;

use super::endpoints::{agents, without_agent};
use super::lifecycle::in_member;
use super::{SOON, SliceWatch, alone, endpoints, server, serving, slices};

const HUB: [(&str, &str); 1] = [("app.kubernetes.io/name", "inferfleet-hub")];
const AGENT: [(&str, &str); 1] = [("app.kubernetes.io/name", "inferfleet-agent")];

/// Kills a component's process, and returns how often its container has been started again by now.
async fn kill(cluster: &e2e::Cluster, labels: &[(&str, &str)]) -> i32 {
    let restarts = restarts(cluster, labels).await;
    assert_eq!(
        cluster.kill_pod_process(NAMESPACE, labels).await.unwrap(),
        1
    );
    restarts
}

async fn restarts(cluster: &e2e::Cluster, labels: &[(&str, &str)]) -> i32 {
    let pod = pod(cluster, labels).await;
    pod.status.unwrap().container_statuses.unwrap()[0].restart_count
}

async fn pod(cluster: &e2e::Cluster, labels: &[(&str, &str)]) -> Pod {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await.unwrap(), NAMESPACE);
    let selector = format!("{}={}", labels[0].0, labels[0].1);
    pods.list(&ListParams::default().labels(&selector))
        .await
        .unwrap()
        .items
        .remove(0)
}

/// Returns once the component runs again, and is ready.
async fn back(cluster: &e2e::Cluster, labels: &[(&str, &str)], restarts: i32) {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await.unwrap(), NAMESPACE);
    let name = pod(cluster, labels).await.metadata.name.unwrap();
    let ready = |pod: Option<&Pod>| {
        let status = pod.and_then(|pod| pod.status.as_ref()?.container_statuses.as_ref()?.first());
        status.is_some_and(|status| status.restart_count > restarts && status.ready)
    };
    e2e::wait::until(pods, &name, SOON, ready).await.unwrap();
}

#[tokio::test]
async fn a_gateway_address_that_changed_while_the_hub_was_dead_is_the_only_slice_event() {
    let fleet = alone().await;
    serving(&fleet, "hubless", &["east", "west"]).await;
    let (hub, east) = (fleet.hub(), fleet.member("east").unwrap());
    let watch = SliceWatch::start(hub, "hubless").await;
    // The second death in a row is followed by a back-off of a second: the address changes within it.
    let first = kill(hub, &HUB).await;
    back(hub, &HUB, first).await;
    fleet.connected("east").await.unwrap();
    let second = kill(hub, &HUB).await;
    let address = east.other_gateway_address(50).unwrap().ip();
    east.set_gateway_address(address).await.unwrap();
    assert_eq!(
        restarts(hub, &HUB).await,
        second,
        "the hub was back before the address had changed"
    );
    back(hub, &HUB, second).await;
    let seen = watch.until(1).await;
    assert_eq!(
        seen,
        [format!("hello-endpoints-east-ipv4-0 [({address}, true)]")]
    );
    // All have reported, and the server is Ready: nothing more is to come.
    fleet.ready("hubless", "hello").await.unwrap();
    east.set_gateway_address(east.gateway_address().ip())
        .await
        .unwrap();
    let seen = watch.until(2).await;
    assert_eq!(
        seen[1..],
        [format!(
            "hello-endpoints-east-ipv4-0 [({}, true)]",
            east.gateway_address().ip()
        )]
    );
}

#[tokio::test]
async fn an_agent_that_is_killed_and_comes_back_makes_no_slice_event() {
    let fleet = alone().await;
    serving(&fleet, "agentless", &["east", "west"]).await;
    let (hub, east) = (fleet.hub(), fleet.member("east").unwrap());
    let watch = SliceWatch::start(hub, "agentless").await;
    let restarts = kill(east, &AGENT).await;
    back(east, &AGENT, restarts).await;
    fleet.connected("east").await.unwrap();
    fleet.ready("agentless", "hello").await.unwrap();
    // A change that must arrive comes after anything that should not have.
    let address = east.other_gateway_address(51).unwrap().ip();
    east.set_gateway_address(address).await.unwrap();
    let seen = watch.until(1).await;
    assert_eq!(
        seen,
        [format!("hello-endpoints-east-ipv4-0 [({address}, true)]")]
    );
    east.set_gateway_address(east.gateway_address().ip())
        .await
        .unwrap();
    watch.until(2).await;
}

#[tokio::test]
async fn a_server_deleted_while_an_agent_is_dead_is_cleaned_up_when_it_returns() {
    let fleet = alone().await;
    serving(&fleet, "late", &["east", "west"]).await;
    let (hub, east) = (fleet.hub(), fleet.member("east").unwrap());
    without_agent(&fleet, "east").await;
    let api: Api<InferenceServer> = Api::namespaced(hub.client().await.unwrap(), "late");
    api.delete("hello", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    // The one that is there is done, the one that is away is waited for, and has all that it had.
    let waits = |server: &InferenceServer| {
        let clusters = server.status.iter().flat_map(|status| &status.clusters);
        let held: Vec<_> = clusters.map(|of| of.cluster_id.as_str()).collect();
        server.metadata.deletion_timestamp.is_some()
            && held == ["east"]
            && condition(server, "Cleanup").is_some_and(|one| one.message.contains("east"))
    };
    fleet.server_until("late", "hello", waits).await.unwrap();
    let west = fleet.member("west").unwrap();
    assert_eq!(in_member(west, "late").await, Vec::<String>::new());
    assert_eq!(in_member(east, "late").await.len(), 7);

    agents(&fleet, "east", 1).await;
    let gone = |server: Option<&InferenceServer>| server.is_none();
    e2e::wait::until(api, "hello", SOON, gone).await.unwrap();
    assert_eq!(in_member(east, "late").await, Vec::<String>::new());
    fleet.connected("east").await.unwrap();
}

#[tokio::test]
async fn a_member_whose_api_server_freezes_or_stops_holds_up_no_other() {
    let fleet = alone().await;
    serving(&fleet, "frozen", &["east", "west"]).await;
    let (hub, east) = (fleet.hub(), fleet.member("east").unwrap());
    let watch = SliceWatch::start(hub, "frozen").await;
    east.pause_api_server().await.unwrap();
    let mut changed = server("frozen", &["east", "west"]);
    changed.spec.replicas = 2;
    fleet.apply(&changed).await.unwrap();
    let west_done = |server: &InferenceServer| {
        let clusters = server.status.iter().flat_map(|status| &status.clusters);
        let done = clusters
            .into_iter()
            .filter(|cluster| cluster.replicas.ready == 2);
        done.map(|cluster| cluster.cluster_id.as_str()).eq(["west"])
    };
    fleet
        .server_until("frozen", "hello", west_done)
        .await
        .unwrap();
    // Nor does it hold up another server.
    let mut another = server("frozen", &["west"]);
    another.metadata.name = Some("another".to_owned());
    fleet.apply(&another).await.unwrap();
    fleet.ready("frozen", "another").await.unwrap();
    east.resume_api_server().await.unwrap();
    fleet.ready("frozen", "hello").await.unwrap();

    east.stop_api_server().await.unwrap();
    changed.spec.replicas = 1;
    fleet.apply(&changed).await.unwrap();
    let west_done = |server: &InferenceServer| {
        let clusters = server.status.iter().flat_map(|status| &status.clusters);
        let done = clusters
            .into_iter()
            .filter(|cluster| cluster.replicas.wanted == 1 && cluster.replicas.ready == 1);
        done.map(|cluster| cluster.cluster_id.as_str()).eq(["west"])
    };
    fleet
        .server_until("frozen", "hello", west_done)
        .await
        .unwrap();
    east.restart_api_server().await.unwrap();
    fleet.ready("frozen", "hello").await.unwrap();
    let seen = watch.seen();
    let of_hello: Vec<_> = seen
        .iter()
        .filter(|line| line.starts_with("hello-"))
        .collect();
    assert_eq!(of_hello, [""; 0], "east served all the while");
}

#[tokio::test]
async fn the_hubs_own_api_server_may_come_and_go() {
    let fleet = alone().await;
    serving(&fleet, "headless", &["east", "west"]).await;
    let (hub, east) = (fleet.hub(), fleet.member("east").unwrap());
    let api = slices(hub, "headless").await;
    let of_west = "hello-endpoints-west-ipv4-0";
    let west_before = api.get(of_west).await.unwrap();
    let started = restarts(hub, &HUB).await;
    hub.stop_api_server().await.unwrap();
    // Without it, what was routed is routed on, and what happens in a member is not lost.
    let answer = fleet.ask("/headless/hello/v1/models").await.unwrap();
    assert_eq!(answer.status(), 200);
    let address = east.other_gateway_address(52).unwrap().ip();
    east.set_gateway_address(address).await.unwrap();
    let gateways: Api<gateway_api::gateways::Gateway> =
        Api::namespaced(east.client().await.unwrap(), "infra");
    let wanted = address.to_string();
    let moved = |gateway: Option<&gateway_api::gateways::Gateway>| {
        let addresses = gateway.and_then(|gateway| gateway.status.as_ref()?.addresses.as_ref());
        addresses.is_some_and(|addresses| addresses.iter().any(|one| one.value == wanted))
    };
    e2e::wait::until(gateways, "public", SOON, moved)
        .await
        .unwrap();
    hub.restart_api_server().await.unwrap();

    let published = |slice: Option<&EndpointSlice>| {
        slice.is_some_and(|slice| endpoints(slice) == [(address, true)])
    };
    e2e::wait::until(api.clone(), "hello-endpoints-east-ipv4-0", SOON, published)
        .await
        .unwrap();
    let mut changed = server("headless", &["east", "west"]);
    changed.spec.replicas = 2;
    fleet.apply(&changed).await.unwrap();
    fleet.ready("headless", "hello").await.unwrap();
    // Nothing of that was west's, and the hub that came through it is the one of before.
    let west_now = api.get(of_west).await.unwrap();
    assert_eq!(
        west_now.metadata.resource_version,
        west_before.metadata.resource_version
    );
    assert_eq!(restarts(hub, &HUB).await, started);
    let first = east.gateway_address().ip();
    east.set_gateway_address(first).await.unwrap();
    let restored = |slice: Option<&EndpointSlice>| {
        slice.is_some_and(|slice| endpoints(slice) == [(first, true)])
    };
    e2e::wait::until(api, "hello-endpoints-east-ipv4-0", SOON, restored)
        .await
        .unwrap();
}

/// The name of the hub's Pod.
pub(crate) async fn hub_pod(fleet: &e2e::Installed) -> String {
    pod(fleet.hub(), &HUB).await.metadata.name.unwrap()
}

/// Deletes a MemberCluster that only a test has invited.
pub(crate) async fn forget_member(fleet: &e2e::Installed, name: &str) {
    let members: Api<MemberCluster> = Api::all(fleet.hub().client().await.unwrap());
    members
        .delete(name, &kube::api::DeleteParams::default())
        .await
        .unwrap();
}
