//! Servers that leave their parts running, servers that are emptied, and clusters that leave.

use crds::labels;
use crds::v1alpha1::{
    DeletionPolicy, InferenceServer, MemberCluster, ServerPlacement, ServerState,
};
use e2e::{Cluster, Installed};
use gateway_api::apis::standard::httproutes::HttpRoute;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::endpoints::{agents, without_agent};
use super::lifecycle::{empty, in_member};
use super::main_path::pod_uids;
use super::{SOON, alone, namespace, server, serving, shared};

/// Holds a record that was told to go.
const PIN: &str = "e2e.inferfleet.io/pin";

async fn servers(fleet: &Installed, namespace: &str) -> Api<InferenceServer> {
    Api::namespaced(fleet.hub().client().await.unwrap(), namespace)
}

async fn delete(fleet: &Installed, namespace: &str) {
    let api = servers(fleet, namespace).await;
    api.delete("hello", &DeleteParams::default()).await.unwrap();
    let gone = |server: Option<&InferenceServer>| server.is_none();
    e2e::wait::until(api, "hello", SOON, gone).await.unwrap();
}

/// An object is there, and is nobody's.
async fn has_no_mark<K>(client: &kube::Client, namespace: &str, name: &str) -> K
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let left = api.get(name).await.unwrap();
    let kind = K::kind(&());
    assert_eq!(left.owner_references(), [], "{kind}");
    assert_eq!(left.labels().get(labels::MANAGED_BY), None, "{kind}");
    let hash = left.annotations().get("inferfleet.io/applied-hash");
    assert_eq!(hash, None, "{kind}");
    left
}

/// Everything is there and is nobody's, and the Deployment serves with the same Pods.
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
    has_no_mark::<Service>(&client, namespace, "hello").await;
    has_no_mark::<ServiceAccount>(&client, namespace, "hello").await;
    has_no_mark::<ConfigMap>(&client, namespace, "hello-model-config").await;
    has_no_mark::<HttpRoute>(&client, namespace, "hello-traffic-0").await;
    let left = has_no_mark::<Deployment>(&client, namespace, "hello").await;
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

/// Returns once the hub has so many sessions, which only it can count.
async fn until_sessions(fleet: &Installed, count: u32) {
    let line = format!("inferfleet_hub_sessions {count}");
    let counted = || async {
        let metrics = super::main_path::metrics(fleet).await;
        anyhow::ensure!(metrics.lines().any(|one| one == line), "not {line}");
        Ok(())
    };
    e2e::wait::eventually("sessions", SOON, counted)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_cluster_that_leaves_its_parts_leaves_them_running_and_its_session_ends_with_its_record()
{
    let fleet = alone().await;
    serving(&fleet, "let-go", &["east", "west"]).await;
    let west = fleet.member("west").unwrap();
    let pods = pod_uids(west, "let-go").await;
    until_sessions(&fleet, 2).await;
    let records: Api<MemberCluster> = Api::all(fleet.hub().client().await.unwrap());
    let orphan = Patch::Merge(json!({
        "metadata": {"finalizers": [labels::LEAVE, PIN]},
        "spec": {"deletionPolicy": "Orphan"},
    }));
    records
        .patch("west", &PatchParams::default(), &orphan)
        .await
        .unwrap();
    records
        .delete("west", &DeleteParams::default())
        .await
        .unwrap();
    // As long as the record is there, for whatever reason, the session is.
    let released =
        |record: Option<&MemberCluster>| record.is_some_and(|record| record.finalizers() == [PIN]);
    e2e::wait::until(records.clone(), "west", SOON, released)
        .await
        .unwrap();
    is_let_go(west, "let-go", &pods).await;
    until_sessions(&fleet, 2).await;
    let unpinned = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    records
        .patch("west", &PatchParams::default(), &unpinned)
        .await
        .unwrap();
    until_sessions(&fleet, 1).await;
    assert_eq!(
        fleet.ask("/let-go/hello/v1/models").await.unwrap().status(),
        200
    );

    // For whoever comes next. What was let go is in nobody's way.
    fleet.apply(&server("let-go", &["east"])).await.unwrap();
    fleet.join("west", west).await.unwrap();
    fleet.ready("let-go", "hello").await.unwrap();
    is_let_go(west, "let-go", &pods).await;
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
