//! What becomes of endpoints when a cluster falls silent, stands by, or goes.

use crds::v1alpha1::{ClusterState, InferenceServer, ProbePolicy, WhenSilent};
use e2e::Installed;
use e2e::installed::{NAMESPACE, is_true};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::main_path::pod_uids;
use super::{SOON, alone, namespace, server, shared, slices, stands};

/// Sets how many agents a member has: none, or one.
pub(crate) async fn agents(fleet: &Installed, member: &str, replicas: u32) {
    let client = fleet.member(member).unwrap().client().await.unwrap();
    let api: Api<Deployment> = Api::namespaced(client, NAMESPACE);
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    api.patch("inferfleet-agent", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Takes a member's agent away, and returns once the hub has noticed.
pub(crate) async fn without_agent(fleet: &Installed, member: &str) {
    agents(fleet, member, 0).await;
    fleet.connected_within(member, false, SOON).await.unwrap();
}

/// Returns once the endpoints of a cluster stand so; `None`: it has no slice.
pub(crate) async fn until_stands(
    fleet: &Installed,
    namespace: &str,
    cluster: &str,
    how: Option<&str>,
) {
    let api = slices(fleet.hub(), namespace).await;
    let name = format!("hello-endpoints-{cluster}-ipv4-0");
    let holds = |slice: Option<&EndpointSlice>| {
        let stands: Option<Vec<_>> =
            slice.map(|slice| slice.endpoints.iter().map(stands).collect());
        stands == how.map(|how| vec![how])
    };
    e2e::wait::until(api, &name, SOON, holds).await.unwrap();
}

pub(crate) fn state_of(server: &InferenceServer, cluster: &str) -> Option<ClusterState> {
    let status = server.status.as_ref()?;
    let mut clusters = status.clusters.iter();
    Some(clusters.find(|of| of.cluster_id == cluster)?.state)
}

/// Asks the hub's gateway until the answer comes from a Pod of that member.
async fn answered_by(fleet: &Installed, namespace: &str, member: &str) {
    let path = format!("/{namespace}/hello/v1/models");
    let uids = pod_uids(fleet.member(member).unwrap(), namespace).await;
    let ask = || async {
        let answer = fleet.ask(&path).await?;
        anyhow::ensure!(answer.status().is_success(), "{}", answer.status());
        let uid = answer.headers()["x-echo-pod-uid"].to_str()?;
        anyhow::ensure!(uids.contains(uid), "Pod {uid} is not in {member}");
        Ok(())
    };
    e2e::wait::eventually("an answer", SOON, ask).await.unwrap();
}

/// No Pod of that namespace can be made any more, and the ones that are there go.
async fn allow_no_pods(cluster: &e2e::Cluster, namespace: &str) {
    let client = cluster.client().await.unwrap();
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), namespace);
    let quota = serde_json::from_value(json!({
        "metadata": {"name": "none"},
        "spec": {"hard": {"pods": "0"}},
    }));
    quotas
        .create(&PostParams::default(), &quota.unwrap())
        .await
        .unwrap();
    let enforced = |quota: Option<&ResourceQuota>| {
        let status = quota.and_then(|quota| quota.status.as_ref());
        status.is_some_and(|status| status.hard.is_some())
    };
    e2e::wait::until(quotas, "none", SOON, enforced)
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    pods.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_silent_cluster_leaves_the_traffic_after_its_grace_and_settles_when_it_is_back() {
    let fleet = alone().await;
    namespace(&fleet, "silent").await;
    let mut wanted = server("silent", &["east", "west"]);
    wanted.spec.endpoints.grace_seconds = 2;
    wanted.spec.endpoints.when_silent = WhenSilent::Unready;
    // It would answer, and be kept.
    wanted.spec.endpoints.probe = ProbePolicy::Off;
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("silent", "hello").await.unwrap();

    agents(&fleet, "west", 0).await;
    until_stands(&fleet, "silent", "west", Some("down")).await;
    until_stands(&fleet, "silent", "east", Some("ready")).await;
    let silent = |server: &InferenceServer| state_of(server, "west") == Some(ClusterState::Silent);
    let seen = fleet.server_until("silent", "hello", silent).await.unwrap();
    assert!(is_true(&seen.status.unwrap().conditions, "Available"));
    answered_by(&fleet, "silent", "east").await;

    // The last that serves stays, however long it is silent.
    agents(&fleet, "east", 0).await;
    let silent = |server: &InferenceServer| state_of(server, "east") == Some(ClusterState::Silent);
    let seen = fleet.server_until("silent", "hello", silent).await.unwrap();
    assert!(is_true(&seen.status.unwrap().conditions, "Available"));
    until_stands(&fleet, "silent", "east", Some("ready")).await;

    agents(&fleet, "east", 1).await;
    fleet.connected("east").await.unwrap();
    agents(&fleet, "west", 1).await;
    fleet.connected("west").await.unwrap();
    until_stands(&fleet, "silent", "west", Some("ready")).await;
    fleet.ready("silent", "hello").await.unwrap();
}

#[tokio::test]
async fn a_higher_tier_takes_over_and_gives_back() {
    let fleet = shared().await;
    namespace(&fleet, "tiers").await;
    let mut wanted = server("tiers", &["east", "west"]);
    wanted.spec.cluster_targets[1].tier = 1;
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("tiers", "hello").await.unwrap();
    until_stands(&fleet, "tiers", "west", Some("serving")).await;
    answered_by(&fleet, "tiers", "east").await;

    let east = fleet.member("east").unwrap();
    allow_no_pods(east, "tiers").await;
    until_stands(&fleet, "tiers", "east", Some("down")).await;
    until_stands(&fleet, "tiers", "west", Some("ready")).await;
    answered_by(&fleet, "tiers", "west").await;

    let quotas: Api<ResourceQuota> = Api::namespaced(east.client().await.unwrap(), "tiers");
    quotas
        .delete("none", &DeleteParams::default())
        .await
        .unwrap();
    // The controller manager tries again to make Pods by a back-off of its own: a change of the Deployment is quicker.
    wanted.spec.replicas = 2;
    fleet.apply(&wanted).await.unwrap();
    until_stands(&fleet, "tiers", "east", Some("ready")).await;
    until_stands(&fleet, "tiers", "west", Some("serving")).await;
    answered_by(&fleet, "tiers", "east").await;
}

#[tokio::test]
async fn a_removed_target_drains_before_its_part_goes() {
    let fleet = shared().await;
    namespace(&fleet, "drained").await;
    let mut wanted = server("drained", &["east", "west"]);
    wanted.spec.endpoints.drain_seconds = 3;
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("drained", "hello").await.unwrap();

    wanted.spec.cluster_targets.pop();
    fleet.apply(&wanted).await.unwrap();
    until_stands(&fleet, "drained", "west", Some("draining")).await;
    let west = fleet.member("west").unwrap();
    let placements: Api<crds::v1alpha1::ServerPlacement> =
        Api::namespaced(west.client().await.unwrap(), "drained");
    placements
        .get("hello")
        .await
        .expect("it serves what it has until it has drained");
    until_stands(&fleet, "drained", "west", None).await;
    e2e::wait::until(
        placements,
        "hello",
        SOON,
        |placement: Option<&crds::v1alpha1::ServerPlacement>| placement.is_none(),
    )
    .await
    .unwrap();
    until_stands(&fleet, "drained", "east", Some("ready")).await;
}
