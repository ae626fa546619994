//! Servers that leave their parts running, servers that are emptied, and clusters that leave.

use crds::v1alpha1::{
    DeletionPolicy, InferenceServer, MemberCluster, ServerPlacement, ServerState,
};
use e2e::{Cluster, Installed};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};

use super::endpoints::{agents, without_agent};
use super::lifecycle::{empty, in_member};
use super::main_path::pod_uids;
use super::{SOON, alone, namespace, server, serving, shared};

async fn servers(fleet: &Installed, namespace: &str) -> Api<InferenceServer> {
    Api::namespaced(fleet.hub().client().await.unwrap(), namespace)
}

async fn delete(fleet: &Installed, namespace: &str) {
    let api = servers(fleet, namespace).await;
    api.delete("hello", &DeleteParams::default()).await.unwrap();
    let gone = |server: Option<&InferenceServer>| server.is_none();
    e2e::wait::until(api, "hello", SOON, gone).await.unwrap();
}

/// The Deployment is there, serves with the same Pods, and is nobody's.
async fn is_let_go(cluster: &Cluster, namespace: &str, pods: &std::collections::BTreeSet<String>) {
    let client = cluster.client().await.unwrap();
    let placements: Api<ServerPlacement> = Api::namespaced(client.clone(), namespace);
    e2e::wait::until(
        placements,
        "hello",
        SOON,
        |placement: Option<&ServerPlacement>| placement.is_none(),
    )
    .await
    .unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let left = deployments.get("hello").await.unwrap();
    assert_eq!(left.owner_references(), []);
    assert_eq!(left.labels().get("app.kubernetes.io/managed-by"), None);
    assert_eq!(left.annotations().get("inferfleet.io/applied-hash"), None);
    assert_eq!(left.status.unwrap().ready_replicas, Some(1));
    let found: Api<Pod> = Api::namespaced(client, namespace);
    let found = found.list(&ListParams::default()).await.unwrap();
    let uids = found.items.iter().filter_map(ResourceExt::uid).collect();
    assert_eq!(pods, &uids);
}

async fn orphaned(fleet: &Installed, name: &str) {
    namespace(fleet, name).await;
    let mut wanted = server(name, &["east", "west"]);
    wanted.spec.deletion_policy = DeletionPolicy::Orphan;
    fleet.apply(&wanted).await.unwrap();
    fleet.ready(name, "hello").await.unwrap();
}

#[tokio::test]
async fn a_server_that_leaves_its_parts_leaves_them_running_without_a_mark() {
    let fleet = shared().await;
    orphaned(&fleet, "orphaned").await;
    let (east, west) = (fleet.member("east").unwrap(), fleet.member("west").unwrap());
    let pods = (
        pod_uids(east, "orphaned").await,
        pod_uids(west, "orphaned").await,
    );
    delete(&fleet, "orphaned").await;
    is_let_go(east, "orphaned", &pods.0).await;
    is_let_go(west, "orphaned", &pods.1).await;
}

#[tokio::test]
async fn a_member_that_is_away_is_told_to_let_go_when_it_comes_back() {
    let fleet = alone().await;
    orphaned(&fleet, "late-orphan").await;
    let west = fleet.member("west").unwrap();
    let pods = pod_uids(west, "late-orphan").await;
    without_agent(&fleet, "west").await;

    // It is not waited for, and remembered.
    delete(&fleet, "late-orphan").await;
    let records: Api<MemberCluster> = Api::all(fleet.hub().client().await.unwrap());
    let status = records.get("west").await.unwrap().status.unwrap();
    let released: Vec<_> = status
        .released
        .iter()
        .map(|part| part.name.as_str())
        .collect();
    assert_eq!(released, ["hello"]);

    agents(&fleet, "west", 1).await;
    is_let_go(west, "late-orphan", &pods).await;
    let told = |record: Option<&MemberCluster>| {
        let status = record.and_then(|record| record.status.as_ref());
        status.is_some_and(|status| status.released.is_empty())
    };
    e2e::wait::until(records, "west", SOON, told).await.unwrap();
    fleet.connected("west").await.unwrap();
}

#[tokio::test]
async fn a_decommissioned_server_empties_its_members_and_comes_back() {
    let fleet = shared().await;
    serving(&fleet, "emptied", &["east", "west"]).await;
    let mut wanted = server("emptied", &["east", "west"]);
    wanted.spec.decommission = true;
    fleet.apply(&wanted).await.unwrap();
    let done = |server: &InferenceServer| {
        let status = server.status.as_ref();
        status.is_some_and(|status| status.state == ServerState::Decommissioned)
    };
    fleet.server_until("emptied", "hello", done).await.unwrap();
    for name in ["east", "west"] {
        let left = in_member(fleet.member(name).unwrap(), "emptied").await;
        assert_eq!(left, Vec::<String>::new());
    }
    assert_eq!(
        fleet
            .ask("/emptied/hello/v1/models")
            .await
            .unwrap()
            .status(),
        404
    );
    wanted.spec.decommission = false;
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("emptied", "hello").await.unwrap();
}

#[tokio::test]
async fn a_cluster_that_leaves_is_emptied_first_and_can_join_again() {
    let fleet = alone().await;
    serving(&fleet, "left", &["east", "west"]).await;
    let west = fleet.member("west").unwrap();
    let output = fleet.inferfleet(&["leave", "west"]).await.unwrap();
    assert!(output.ends_with("west has left\n"), "{output}");
    let records: Api<MemberCluster> = Api::all(fleet.hub().client().await.unwrap());
    assert!(records.get_opt("west").await.unwrap().is_none());
    empty("west's objects", async || in_member(west, "left").await).await;
    let without = |server: &InferenceServer| {
        let status = server.status.as_ref();
        status.is_some_and(|status| {
            status.summary.reason == "ClusterNotFound (west)"
                && e2e::installed::is_true(&status.conditions, "Available")
        })
    };
    fleet.server_until("left", "hello", without).await.unwrap();
    assert_eq!(
        fleet.ask("/left/hello/v1/models").await.unwrap().status(),
        200
    );

    fleet.join("west", west).await.unwrap();
    fleet.ready("left", "hello").await.unwrap();
}

#[tokio::test]
async fn a_cluster_that_never_joined_leaves_at_once() {
    let fleet = shared().await;
    fleet.invite("never").await.unwrap();
    let output = fleet.inferfleet(&["leave", "never"]).await.unwrap();
    assert!(output.ends_with("never has left\n"), "{output}");
    let unknown = fleet.inferfleet(&["leave", "never"]).await.unwrap_err();
    assert!(
        format!("{unknown:#}").contains("there is no MemberCluster never"),
        "{unknown:#}"
    );
}
