//! The straight ways out, and one member's trouble that stays its own.

use crds::v1alpha1::{InferenceServer, MemberCluster, MemberClusterSpec, ServerPlacement};
use e2e::Cluster;
use gateway_api::httproutes::HttpRoute;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{SOON, namespace, server, serving, shared};

/// Names of the objects of a kind that Inferfleet has in a namespace.
async fn ours<K>(cluster: &Cluster, namespace: &str) -> Vec<String>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(cluster.client().await.unwrap(), namespace);
    let found = api
        .list(&ListParams::default().labels("inferfleet.io/server=hello"))
        .await
        .unwrap();
    found
        .items
        .iter()
        .map(|object| {
            format!(
                "{} {}",
                K::kind(&()),
                object.meta().name.as_deref().unwrap()
            )
        })
        .collect()
}

/// Everything of ours in a member's namespace.
pub(crate) async fn in_member(cluster: &Cluster, namespace: &str) -> Vec<String> {
    let mut all = ours::<Deployment>(cluster, namespace).await;
    all.extend(ours::<Pod>(cluster, namespace).await);
    all.extend(ours::<Service>(cluster, namespace).await);
    all.extend(ours::<ServiceAccount>(cluster, namespace).await);
    all.extend(ours::<ConfigMap>(cluster, namespace).await);
    all.extend(ours::<HttpRoute>(cluster, namespace).await);
    let placements: Api<ServerPlacement> =
        Api::namespaced(cluster.client().await.unwrap(), namespace);
    all.extend(
        placements
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .iter()
            .map(|_| "ServerPlacement".to_owned()),
    );
    all
}

/// Everything of ours in the hub's namespace.
pub(crate) async fn in_hub(hub: &Cluster, namespace: &str) -> Vec<String> {
    let mut all = ours::<Service>(hub, namespace).await;
    all.extend(ours::<EndpointSlice>(hub, namespace).await);
    all.extend(ours::<HttpRoute>(hub, namespace).await);
    all
}

pub(crate) async fn empty(what: &str, look: impl AsyncFn() -> Vec<String>) {
    let attempt = || async {
        let left = look().await;
        anyhow::ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    };
    e2e::wait::eventually(what, SOON, attempt).await.unwrap();
}

#[tokio::test]
async fn deleting_a_server_removes_everything_in_hub_and_members() {
    let fleet = shared().await;
    serving(&fleet, "deleted", &["east", "west"]).await;
    let (east, west) = (fleet.member("east").unwrap(), fleet.member("west").unwrap());
    // Deployment, Pod, Service, ServiceAccount, ConfigMap, HTTPRoute, ServerPlacement.
    assert_eq!(in_member(east, "deleted").await.len(), 7);
    assert_eq!(in_hub(fleet.hub(), "deleted").await.len(), 4);
    let api: Api<InferenceServer> = Api::namespaced(fleet.hub().client().await.unwrap(), "deleted");
    api.delete("hello", &DeleteParams::default()).await.unwrap();
    let gone = |server: Option<&InferenceServer>| server.is_none();
    e2e::wait::until(api, "hello", SOON, gone).await.unwrap();
    // The finalizer was held until both had confirmed.
    assert_eq!(in_member(east, "deleted").await, Vec::<String>::new());
    assert_eq!(in_member(west, "deleted").await, Vec::<String>::new());
    empty("the hub's objects", async || {
        in_hub(fleet.hub(), "deleted").await
    })
    .await;
}

#[tokio::test]
async fn removing_a_target_removes_that_clusters_part_and_no_more() {
    let fleet = shared().await;
    serving(&fleet, "narrowed", &["east", "west"]).await;
    let west_before = in_member(fleet.member("west").unwrap(), "narrowed").await;
    fleet.apply(&server("narrowed", &["west"])).await.unwrap();
    empty("east's objects", async || {
        in_member(fleet.member("east").unwrap(), "narrowed").await
    })
    .await;
    let one = |server: &InferenceServer| {
        let status = server.status.as_ref();
        status.is_some_and(|status| {
            status.summary.clusters.text == "1/1" && status.clusters.len() == 1
        })
    };
    fleet.server_until("narrowed", "hello", one).await.unwrap();
    assert_eq!(
        in_member(fleet.member("west").unwrap(), "narrowed").await,
        west_before
    );
    let names = ours::<EndpointSlice>(fleet.hub(), "narrowed").await;
    assert_eq!(names, ["EndpointSlice hello-endpoints-west-ipv4-0"]);
    // And back.
    fleet
        .apply(&server("narrowed", &["east", "west"]))
        .await
        .unwrap();
    fleet.ready("narrowed", "hello").await.unwrap();
}

#[tokio::test]
async fn a_server_recreated_under_its_name_is_another() {
    let fleet = shared().await;
    let first = serving(&fleet, "recreated", &["east"]).await;
    let api: Api<InferenceServer> =
        Api::namespaced(fleet.hub().client().await.unwrap(), "recreated");
    api.delete("hello", &DeleteParams::default()).await.unwrap();
    e2e::wait::until(api, "hello", SOON, |server: Option<&InferenceServer>| {
        server.is_none()
    })
    .await
    .unwrap();
    fleet.apply(&server("recreated", &["east"])).await.unwrap();
    let second = fleet.ready("recreated", "hello").await.unwrap();
    assert_ne!(first.metadata.uid, second.metadata.uid);
    let placements: Api<ServerPlacement> = Api::namespaced(
        fleet.member("east").unwrap().client().await.unwrap(),
        "recreated",
    );
    let placement = placements.get("hello").await.unwrap();
    let uid = &placement.metadata.annotations.unwrap()[crds::labels::SERVER_UID];
    assert_eq!(Some(uid), second.metadata.uid.as_ref());
}

/// Does a condition of the server give this reason?
fn says(kind: &'static str, reason: &'static str) -> impl Fn(&InferenceServer) -> bool {
    move |server| {
        let conditions = server.status.iter().flat_map(|status| &status.conditions);
        conditions
            .into_iter()
            .any(|condition| condition.type_ == kind && condition.reason == reason)
    }
}

#[tokio::test]
async fn objects_may_come_in_any_order() {
    let fleet = shared().await;
    namespace(&fleet, "ordered").await;
    let mut early = server("ordered", &["east", "nowhere"]);
    early.spec.runtime.profile = "late".to_owned();
    fleet.apply(&early).await.unwrap();
    fleet
        .server_until(
            "ordered",
            "hello",
            says("Validation", "RuntimeProfileNotFound"),
        )
        .await
        .unwrap();
    fleet
        .server_until(
            "ordered",
            "hello",
            says("BackendProvision", "ClusterNotFound"),
        )
        .await
        .unwrap();
    // The profile comes, and the cluster that there is serves, whatever the other does.
    let client = fleet.hub().client().await.unwrap();
    let profiles: Api<crds::v1alpha1::RuntimeProfile> = Api::all(client.clone());
    let mut profile = profiles.get("echo").await.unwrap();
    profile.metadata = kube::api::ObjectMeta {
        name: Some("late".to_owned()),
        ..Default::default()
    };
    profiles
        .create(&PostParams::default(), &profile)
        .await
        .unwrap();
    let available = fleet
        .server_until("ordered", "hello", says("Available", "Serving"))
        .await
        .unwrap();
    assert_eq!(available.status.unwrap().summary.clusters.text, "1/2");
    // So does the cluster: invited, and not joined yet.
    let members: Api<MemberCluster> = Api::all(client);
    let member = MemberCluster::new("nowhere", MemberClusterSpec::default());
    members
        .create(&PostParams::default(), &member)
        .await
        .unwrap();
    fleet
        .server_until(
            "ordered",
            "hello",
            says("BackendProvision", "ClusterNotJoined"),
        )
        .await
        .unwrap();
    members
        .delete("nowhere", &DeleteParams::default())
        .await
        .unwrap();
    fleet
        .server_until(
            "ordered",
            "hello",
            says("BackendProvision", "ClusterNotFound"),
        )
        .await
        .unwrap();
}

#[tokio::test]
async fn a_namespace_that_a_member_lacks_is_a_reason_and_disturbs_no_other_member() {
    let fleet = shared().await;
    for cluster in [fleet.hub(), fleet.member("west").unwrap()] {
        let namespaces: Api<Namespace> = Api::all(cluster.client().await.unwrap());
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": "lacking"}})).unwrap();
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
    }
    fleet
        .apply(&server("lacking", &["east", "west"]))
        .await
        .unwrap();
    let stuck = |server: &InferenceServer| {
        let status = server.status.as_ref();
        status.is_some_and(|status| {
            status.summary.reason == "NamespaceMissing (east)"
                && status.summary.clusters.text == "1/2"
        })
    };
    fleet.server_until("lacking", "hello", stuck).await.unwrap();
    // It comes, and nothing else has to be done.
    let namespaces: Api<Namespace> =
        Api::all(fleet.member("east").unwrap().client().await.unwrap());
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "lacking"}})).unwrap();
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    fleet.ready("lacking", "hello").await.unwrap();
}
