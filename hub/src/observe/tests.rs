//! Whom a change concerns, and what passes wait for.

use axum::{Json, Router, extract::Request};
use crds::v1alpha1::{ClusterState, ClusterStatus, InferenceServerStatus};
use futures::future::{FutureExt, join_all};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::*;

/// The server `team/llama` with targets `east` and `west`, whose status names these clusters.
fn server(named: &[&str]) -> Arc<InferenceServer> {
    let mut server = crate::contract::server("team", "llama");
    let named = named.iter().map(|name| ClusterStatus {
        cluster_id: (*name).to_owned(),
        state: ClusterState::Removing,
        reason: String::new(),
        message: String::new(),
        replicas: crds::v1alpha1::Replicas::default(),
        endpoint: None,
        since: Time(Timestamp::UNIX_EPOCH),
    });
    server.status = Some(InferenceServerStatus {
        clusters: named.collect(),
        ..InferenceServerStatus::default()
    });
    Arc::new(server)
}

#[test]
fn a_cluster_concerns_the_servers_that_target_it_and_those_that_have_something_left_there() {
    let wakeups = Wakeups::default();
    let (removing, done) = (server(&["north", "east"]), server(&["east"]));
    let steps = [
        (None, Some(&removing)),
        (Some(&removing), Some(&done)),
        (Some(&done), None),
    ];
    let mut seen = Vec::new();
    for (before, after) in steps {
        wakeups.server_changed(&Change { before, after });
        let count = |name| (wakeups.targeting(name).len(), wakeups.concerned(name).len());
        seen.push(["east", "west", "north"].map(count));
    }
    let expected = [
        [(1, 1), (1, 1), (0, 1)],
        [(1, 1), (1, 1), (0, 0)],
        [(0, 0), (0, 0), (0, 0)],
    ];
    assert_eq!(seen, expected);
}

/// An API server with these definitions and nothing else, which lists the definitions once it is told to.
fn with_definitions(definitions: Value, told: &Arc<Notify>) -> Client {
    let told = Arc::clone(told);
    let serve = move |request: Request| {
        let (told, definitions) = (Arc::clone(&told), definitions.clone());
        async move {
            let query = request.uri().query().unwrap_or_default();
            if query.contains("watch=true") {
                std::future::pending::<()>().await;
            }
            let items = if request.uri().path().ends_with("/customresourcedefinitions") {
                told.notified().await;
                definitions
            } else {
                json!([])
            };
            Json(json!({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}))
        }
    };
    Client::new(Router::new().fallback(serve), "default")
}

#[tokio::test]
async fn passes_wait_until_it_is_known_what_routes_can_say() {
    let rule = json!({"type": "object", "properties": {"timeouts": {"type": "object"}}});
    let rules = json!({"type": "array", "items": rule});
    let spec = json!({"type": "object", "properties": {"rules": rules}});
    let root = json!({"type": "object", "properties": {"spec": spec}});
    let definition = json!({
        "metadata": {"name": "httproutes.gateway.networking.k8s.io", "uid": "d", "resourceVersion": "1"},
        "spec": {
            "group": "gateway.networking.k8s.io",
            "names": {"kind": "HTTPRoute", "plural": "httproutes"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": root}}],
        },
    });
    for (definitions, timeouts) in [(json!([definition]), true), (json!([]), false)] {
        let (caches, told) = (Caches::default(), Arc::new(Notify::new()));
        let client = with_definitions(definitions, &told);
        let watches = join_all(caches.watches(&client, "inferfleet", &Arc::default()));
        let filled = async {
            caches.servers.synced().await;
            caches.members.synced().await;
            caches.profiles.synced().await;
            caches.accelerators.synced().await;
            caches.records.synced().await;
            caches.namespaces.synced().await;
            caches.services.synced().await;
            caches.slices.synced().await;
            caches.routes.synced().await;
            caches.gateways.synced().await;
            assert!(!caches.is_synced());
            assert!(caches.synced().now_or_never().is_none());
            told.notify_one();
            caches.synced().await;
            assert!(caches.is_synced());
        };
        tokio::select! {
            _ = watches => panic!("the watches have ended"),
            () = filled => {}
        }
        assert_eq!(
            *caches.route_schema.borrow(),
            Some(RouteSchema { timeouts })
        );
    }
}
