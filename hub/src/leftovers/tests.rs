//! A hub whose parts were replaced after its own had written, each look of it as after a restart.

use operator::{
    cache::ObjectKey,
    conditions::{Engine, Outcome, Pace},
};
use serde_json::json;

use super::*;
use crate::{
    Hub,
    builder::Wake,
    clock::Clock,
    contract,
    fake::{FakeApi, ROUTES, SERVICES, SLICES},
    metrics::Metrics,
    run::own_parts,
    server::Pass,
};

/// Publishes and routes elsewhere, where all is well. It may hold what it has taken the place of, and does not use it.
struct Elsewhere<T: ?Sized>(Option<Arc<T>>);

impl<T: ?Sized + Send + Sync> Publisher for Elsewhere<T> {
    fn get(&self, _: &InferenceServer) -> BTreeMap<ClusterName, PublishedEndpoint> {
        BTreeMap::new()
    }

    fn is_synced(&self, _: &Publication<'_>) -> bool {
        true
    }

    fn sync<'a>(&'a self, _: &'a Publication<'a>) -> BoxFuture<'a, Result<Synced, Failure>> {
        Box::pin(std::future::ready(Ok(Synced::default())))
    }

    fn delete<'a>(&'a self, _: &'a InferenceServer) -> BoxFuture<'a, Result<Synced, Failure>> {
        Box::pin(std::future::ready(Ok(Synced::default())))
    }

    fn is_deleted(&self, _: &InferenceServer) -> bool {
        true
    }
}

impl<T: ?Sized + Send + Sync> Routing for Elsewhere<T> {
    fn is_synced(&self, _: &RouteIntent<'_>) -> bool {
        true
    }

    fn sync<'a>(&'a self, _: &'a RouteIntent<'a>) -> BoxFuture<'a, Result<Synced, Failure>> {
        Box::pin(std::future::ready(Ok(Synced::default())))
    }
}

/// What an earlier start has written of a server.
fn written(server: &InferenceServer) -> FakeApi {
    let api = FakeApi::default();
    let labels = json!({
        "kubernetes.io/service-name": "llama-endpoints", "inferfleet.io/cluster": "east",
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "llama-endpoints-east-ipv4-0", "labels": labels}, "endpoints": [],
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "llama-endpoints"},
    });
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "llama-discovery-0"},
        "spec": {"rules": [{"backendRefs": [{"name": "llama-endpoints", "port": 80}]}]},
    });
    api.put_owned(server, SLICES, slice);
    api.put_owned(server, SERVICES, service);
    api.put_owned(server, ROUTES, route);
    api
}

/// One look at the server by a hub with other parts, which hold its own, or leave them.
async fn look(api: &FakeApi, server: &InferenceServer, holds_own: bool) -> Outcome {
    let caches = api.caches();
    let clock = Clock::start();
    let metrics = Arc::new(Metrics::new(clock));
    let own = own_parts(&api.client(), &caches, clock, &metrics);
    let hub = Hub::builder()
        .publisher(move |own| Arc::new(Elsewhere(holds_own.then_some(own.default))))
        .routing(move |own| Arc::new(Elsewhere(holds_own.then_some(own.default))))
        .build()
        .unwrap();
    let chosen = hub.parts.choose(own, &Wake::new(Arc::default()));
    let plan = contract::planned(server, caches.discovery(server));
    let mut pass = Pass::new(ObjectKey::of(server), Arc::new(server.clone()), plan);
    let engine = Engine {
        pace: Pace::AllSteps,
        kill_reason: None,
    };
    let steps = if server.spec.decommission {
        chosen.plugin.deletion()
    } else {
        chosen.plugin.creation()
    };
    engine.run(steps, &mut pass).await
}

const PUBLISHED: [&str; 2] = ["llama-endpoints", "llama-endpoints-east-ipv4-0"];
const ALL: [&str; 3] = [PUBLISHED[0], PUBLISHED[1], "llama-discovery-0"];

#[tokio::test]
async fn what_nobody_holds_any_more_goes_at_once_and_routes_go_first() {
    let server = contract::server("team", "llama");
    let api = written(&server);
    look(&api, &server, false).await;
    assert_eq!(api.names(), PUBLISHED);
    look(&api, &server, false).await;
    assert_eq!(api.names(), [""; 0]);
}

#[tokio::test]
async fn what_a_part_holds_is_left_to_it_and_goes_with_the_server() {
    let mut server = contract::server("team", "llama");
    let api = written(&server);
    look(&api, &server, true).await;
    assert_eq!(api.names(), ALL);
    server.spec.decommission = true;
    look(&api, &server, true).await;
    assert_eq!(api.names(), PUBLISHED);
    assert!(!look(&api, &server, true).await.satisfied);
    assert_eq!(api.names(), [""; 0]);
    assert!(look(&api, &server, true).await.satisfied);
}

#[tokio::test]
async fn what_another_hand_has_written_is_not_taken_for_a_leftover() {
    let server = contract::server("team", "llama");
    let api = written(&server);
    api.disown("llama-discovery-0");
    look(&api, &server, false).await;
    assert_eq!(api.names(), ALL);
}
