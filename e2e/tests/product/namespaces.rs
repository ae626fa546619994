//! Which namespaces of the hub may target a cluster.

use crds::condition::{BACKEND_PROVISION, READY};
use crds::v1alpha1::{InferenceServer, MemberCluster};
use e2e::Installed;
use e2e::installed::condition;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{alone, namespace, server};

/// Sets which namespaces may target west.
async fn allow(fleet: &Installed, namespaces: Value) -> kube::Result<MemberCluster> {
    let members: Api<MemberCluster> = Api::all(fleet.hub().client().await.unwrap());
    let patch = Patch::Merge(json!({"spec": {"namespaces": namespaces}}));
    members.patch("west", &PatchParams::default(), &patch).await
}

/// Sets a label of a namespace of the hub.
async fn label(fleet: &Installed, namespace: &str, value: Value) {
    let namespaces: Api<Namespace> = Api::all(fleet.hub().client().await.unwrap());
    let patch = Patch::Merge(json!({"metadata": {"labels": {"tier": value}}}));
    namespaces
        .patch(namespace, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

fn reason<'a>(server: &'a InferenceServer, kind: &str) -> Option<&'a str> {
    condition(server, kind).map(|condition| condition.reason.as_str())
}

#[tokio::test]
async fn a_cluster_takes_servers_of_the_namespaces_that_it_says_and_drops_none_that_it_has() {
    let fleet = alone().await;
    let refused = allow(&fleet, json!({"from": "Selector"})).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("from: Selector needs one"), "{refused}");

    let gold = json!({"from": "Selector", "selector": {"matchLabels": {"tier": "gold"}}});
    allow(&fleet, gold).await.unwrap();
    namespace(&fleet, "tenant").await;
    let mut wanted = server("tenant", &["east", "west"]);
    fleet.apply(&wanted).await.unwrap();
    let closed = |server: &InferenceServer| {
        reason(server, BACKEND_PROVISION) == Some("NamespaceNotAllowed")
            && reason(server, "Available") == Some("Serving")
    };
    fleet.server_until("tenant", "hello", closed).await.unwrap();

    label(&fleet, "tenant", json!("gold")).await;
    fleet.ready("tenant", "hello").await.unwrap();

    // What it has stays, and a change does not get there.
    label(&fleet, "tenant", Value::Null).await;
    wanted.spec.replicas = 2;
    fleet.apply(&wanted).await.unwrap();
    let kept = |server: &InferenceServer| {
        let clusters = server.status.iter().flat_map(|status| &status.clusters);
        let ready = |name: &str| {
            let mut clusters = clusters.clone();
            clusters
                .find(|of| of.cluster_id == name)
                .map(|of| of.replicas.ready)
        };
        reason(server, READY) == Some("NamespaceNotAllowed")
            && (ready("east"), ready("west")) == (Some(2), Some(1))
    };
    fleet.server_until("tenant", "hello", kept).await.unwrap();

    allow(&fleet, Value::Null).await.unwrap();
    fleet.ready("tenant", "hello").await.unwrap();
}
