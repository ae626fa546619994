//! A Gateway API that is not there when Inferfleet comes.

use crds::reason::GATEWAY_API_MISSING;
use crds::v1alpha1::InferenceServer;
use e2e::Cluster;
use e2e::installed::NAMESPACE;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};

use super::record::Record;
use super::{
    HUB, LATER, MEMBERS, SOON, alone, answer, connected, namespace, serve, server, status_of,
    until_server,
};

const ROUTES: &str = "httproutes.gateway.networking.k8s.io";

async fn definitions(cluster: &Cluster) -> Api<CustomResourceDefinition> {
    Api::all(cluster.client().await.unwrap())
}

/// Takes HTTPRoutes away from a cluster, with all that there are, and returns what brings the kind back.
async fn take_routes(cluster: &Cluster) -> CustomResourceDefinition {
    let api = definitions(cluster).await;
    let there = api.get(ROUTES).await.unwrap();
    api.delete(ROUTES, &DeleteParams::default()).await.unwrap();
    let gone = |definition: Option<&CustomResourceDefinition>| definition.is_none();
    e2e::wait::until(api, ROUTES, SOON, gone).await.unwrap();
    CustomResourceDefinition {
        metadata: ObjectMeta {
            name: there.metadata.name,
            // Who approved a kind of this group.
            annotations: there.metadata.annotations,
            ..ObjectMeta::default()
        },
        spec: there.spec,
        status: None,
    }
}

async fn bring(cluster: &Cluster, routes: &CustomResourceDefinition) {
    let api = definitions(cluster).await;
    api.create(&PostParams::default(), routes).await.unwrap();
}

/// Requests arrive again: the gateway's own watch of the kind comes back at a pace of its own.
async fn until_answered(fleet: &e2e::Installed, namespace: &str) {
    e2e::wait::eventually("an answer", LATER, || answer(fleet, namespace))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_member_that_lacks_the_gateway_api_at_its_joining_says_so_and_picks_it_up() {
    let fleet = alone().await;
    let west = fleet.member("west").unwrap();
    fleet.inferfleet(&["leave", "west"]).await.unwrap();
    let uninstall = ["uninstall", "inferfleet-agent", "-n", NAMESPACE];
    west.helm(&uninstall).await.unwrap();
    let routes = take_routes(west).await;
    fleet.join("west", west).await.unwrap();
    namespace(&fleet, "late-member").await;
    fleet.apply(&server("late-member", &MEMBERS)).await.unwrap();
    let says = |server: &InferenceServer| {
        serve(server, &["east", "north"], 1)
            && status_of(server, "west").is_some_and(|status| status.reason == GATEWAY_API_MISSING)
    };
    let seen = until_server(&fleet, "late-member", says).await;
    assert_eq!(seen.status.unwrap().summary.clusters.text, "2/3");

    bring(west, &routes).await;
    let all = |server: &InferenceServer| {
        let status = server.status.as_ref();
        status.is_some_and(|status| status.summary.clusters.text == "3/3")
    };
    until_server(&fleet, "late-member", all).await;
    until_answered(&fleet, "late-member").await;
}

#[tokio::test]
async fn a_hub_that_lacks_the_gateway_api_at_its_start_says_so_and_picks_it_up() {
    let fleet = alone().await;
    let hub = fleet.hub();
    namespace(&fleet, "late-hub").await;
    fleet.apply(&server("late-hub", &MEMBERS)).await.unwrap();
    fleet.ready("late-hub", "hello").await.unwrap();
    let record = Record::start(hub, "late-hub").await;
    let routes = take_routes(hub).await;
    let killed = hub.kill_pod_process(NAMESPACE, &HUB).await.unwrap();
    assert_eq!(killed, 1);
    let says = |server: &InferenceServer| {
        let conditions = server.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|condition| {
            condition.type_ == "DiscoveryRouteProvision" && condition.reason == GATEWAY_API_MISSING
        })
    };
    until_server(&fleet, "late-hub", says).await;
    for name in MEMBERS {
        connected(&fleet, name, true).await;
    }

    bring(hub, &routes).await;
    let is_ready = |server: &InferenceServer| {
        let status = server.status.as_ref();
        status.is_some_and(|status| e2e::installed::is_true(&status.conditions, "Ready"))
    };
    until_server(&fleet, "late-hub", is_ready).await;
    until_answered(&fleet, "late-hub").await;
    assert_eq!(record.changes(), [], "a route is no endpoint");
}
