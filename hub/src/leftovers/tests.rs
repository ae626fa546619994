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

/// Publishes and routes elsewhere. It may hold what it has taken the place of, and does not use it.
struct Elsewhere<T: ?Sized> {
    #[expect(dead_code, reason = "to hold it is all that is done with it")]
    own: Option<Arc<T>>,
    is_down: bool,
}

impl<T: ?Sized> Elsewhere<T> {
    fn holding(own: Option<Arc<T>>) -> Self {
        let is_down = false;
        Self { own, is_down }
    }
}

impl<T: ?Sized + Send + Sync> Publisher for Elsewhere<T> {
    fn get(&self, _: &InferenceServer) -> BTreeMap<ClusterName, PublishedEndpoint> {
        BTreeMap::new()
    }

    fn is_synced(&self, _: &Publication<'_>) -> bool {
        !self.is_down
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

/// What an earlier start has published of a server.
fn published(server: &InferenceServer) -> FakeApi {
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
    api.put_owned(server, SLICES, slice);
    api.put_owned(server, SERVICES, service);
    api
}

/// The same, and a route to it.
fn written(server: &InferenceServer) -> FakeApi {
    let api = published(server);
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "llama-discovery-0"},
        "spec": {"rules": [{"backendRefs": [{"name": "llama-endpoints", "port": 80}]}]},
    });
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
        .publisher(move |own| Arc::new(Elsewhere::holding(holds_own.then_some(own.default))))
        .routing(move |own| Arc::new(Elsewhere::holding(holds_own.then_some(own.default))))
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

#[tokio::test]
async fn what_leads_somewhere_stays_until_all_is_published_elsewhere() {
    let server = contract::server("team", "llama");
    let api = published(&server);
    let caches = api.caches();
    let clock = Clock::start();
    let metrics = Arc::new(Metrics::new(clock));
    let applier = Arc::new(Applier::new(api.client(), clock, metrics));
    let in_place = InPlace::<dyn Publisher> {
        part: Arc::new(Elsewhere::<dyn Publisher> {
            own: None,
            is_down: true,
        }),
        leftovers: Arc::new(Leftovers::new(caches.clone(), applier)),
        holds_own: false,
    };
    let plan = contract::planned(&server, caches.discovery(&server));
    let publication = Publication {
        server: &server,
        plan: &plan,
        routed: true,
    };
    in_place.sync(&publication).await.unwrap();
    assert_eq!(api.names(), PUBLISHED);
}

#[test]
fn what_is_refused_beside_it_keeps_a_write_from_nothing() {
    let failed = |again| Failure {
        reason: String::new(),
        message: String::new(),
        passing: true,
        again,
    };
    let wait = std::time::Duration::from_secs(1);
    let waits = Synced {
        wrote: false,
        wait: Some(wait),
    };
    let again = |one, other| both(one, other).unwrap_err().again;
    let refused = || Err(failed(Again::OnEvent));
    assert_eq!(again(Ok(waits), refused()), Again::After(wait));
    assert_eq!(again(refused(), Ok(waits)), Again::After(wait));
    assert_eq!(again(refused(), Ok(Synced::default())), Again::OnEvent);
    assert_eq!(again(refused(), Err(failed(Again::AtOnce))), Again::AtOnce);
}
