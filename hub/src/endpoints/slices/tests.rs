//! Services and slices in an API server that refuses what a test tells it to.

use axum::http::{Method, StatusCode};
use crds::condition::{ENDPOINT_PUBLISH, State};
use hub_plan::{Plan, facts::Observed};
use operator::conditions::{Again, Engine, Pace as Steps};
use serde_json::json;

use super::*;
use crate::{
    contract,
    fake::{FakeApi, ROUTES, SERVICES, SLICES},
    metrics::Metrics,
    routing::{GatewayRoutes, Routing},
    server::{
        Pass,
        plugin::{OwnSteps, ServerPlugin},
    },
};

struct World {
    api: FakeApi,
    caches: Caches,
    server: InferenceServer,
    applier: Arc<Applier>,
    publisher: DiscoverySlices,
}

impl World {
    /// With these slices of the server's in it, each under a Service, of a cluster.
    fn with(slices: &[(&str, &str, &str)]) -> Self {
        let api = FakeApi::default();
        let server = contract::server("team", "llama");
        for (name, service, cluster) in slices {
            put(&api, &server, name, service, cluster);
        }
        Self::of(api, server)
    }

    /// With what is in that API server.
    fn of(api: FakeApi, server: InferenceServer) -> Self {
        let (caches, clock) = (api.caches(), Clock::start());
        let metrics = Arc::new(Metrics::new(clock));
        let applier = Arc::new(Applier::new(api.client(), clock, metrics));
        let publisher = DiscoverySlices::new(caches.clone(), Arc::clone(&applier), clock);
        Self {
            api,
            caches,
            server,
            applier,
            publisher,
        }
    }

    fn plan(&self) -> Plan {
        contract::planned(&self.server, self.caches.discovery(&self.server))
    }

    async fn sync(&self, plan: &Plan, routed: bool) -> Result<Synced, Failure> {
        let server = &self.server;
        let publication = Publication {
            server,
            plan,
            routed,
        };
        self.publisher.sync(&publication).await
    }
}

fn put(api: &FakeApi, server: &InferenceServer, name: &str, service: &str, cluster: &str) {
    let labels = json!({"kubernetes.io/service-name": service, "inferfleet.io/cluster": cluster});
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "labels": labels}, "endpoints": [],
    });
    api.put_owned(server, SLICES, slice);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": service}});
    api.put_owned(server, SERVICES, service);
}

/// An HTTPRoute that leads to that Service.
fn route(service: &str) -> serde_json::Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "llama-discovery-0"},
        "spec": {"rules": [{"backendRefs": [{"name": service, "port": 80}]}]},
    })
}

const WEST: &str = "llama-endpoints-west-ipv4-0";

#[tokio::test]
async fn a_slice_that_is_refused_holds_up_nothing_of_another_cluster() {
    let world = World::with(&[
        ("llama-endpoints-east-ipv4-1", "llama-endpoints", "east"),
        ("llama-endpoints-west-ipv4-1", "llama-endpoints", "west"),
    ]);
    world.api.refuse(Method::PATCH, WEST, StatusCode::FORBIDDEN);
    let failure = world.sync(&world.plan(), true).await.unwrap_err();
    assert_eq!(failure.reason, "ApplyRefused");
    assert!(failure.message.contains(WEST), "{}", failure.message);
    assert_eq!(failure.again, Again::AtOnce, "the rest was written");
    let mut left = world.api.names();
    left.sort_unstable();
    assert_eq!(
        left,
        [
            "llama-endpoints",
            "llama-endpoints-east-ipv4-0",
            "llama-endpoints-west-ipv4-1",
        ],
        "what west's addresses may have to move from stays"
    );
}

#[tokio::test]
async fn a_slice_that_was_refused_waits_for_no_turn() {
    let world = World::with(&[]);
    world.api.refuse(Method::PATCH, WEST, StatusCode::FORBIDDEN);
    world.sync(&world.plan(), true).await.unwrap_err();
    let failure = world.sync(&world.plan(), true).await.unwrap_err();
    assert_eq!(failure.again, Again::OnEvent, "nothing else is left");
}

#[tokio::test]
async fn routes_are_written_though_a_slice_is_refused_and_the_condition_says_so() {
    let world = World::with(&[]);
    world.api.refuse(Method::PATCH, WEST, StatusCode::FORBIDDEN);
    let World {
        caches,
        server,
        applier,
        publisher,
        api,
    } = world;
    let publisher: Arc<dyn Publisher> = Arc::new(publisher);
    let routing: Arc<dyn Routing> = Arc::new(GatewayRoutes::new(caches.clone(), applier));
    let steps = OwnSteps::new(&publisher, &routing);
    let engine = Engine {
        pace: Steps::AllSteps,
        kill_reason: None,
    };
    let plan = contract::planned(&server, caches.discovery(&server));
    let mut pass = Pass::new(ObjectKey::of(&server), Arc::new(server), plan);
    engine.run(steps.creation(), &mut pass).await;
    assert!(api.get("llama-discovery-0").is_some());
    let mut said = pass.steps.iter();
    let said = said.find(|step| step.kind == ENDPOINT_PUBLISH).unwrap();
    assert_eq!(
        (said.state, said.reason.as_str()),
        (State::False, "ApplyRefused")
    );
}

#[tokio::test]
async fn the_first_change_of_a_slice_is_written_at_once_and_what_follows_goes_together() {
    let mut world = World::with(&[]);
    let hour = Duration::from_hours(1);
    world.publisher.pace = Pace::new(Clock::start(), hour);
    let mut plan = world.plan();
    let synced = world.sync(&plan, true).await.unwrap();
    assert_eq!((synced.wrote, synced.wait), (true, None));
    for address in ["203.0.113.8", "203.0.113.9"] {
        plan.slices[0].endpoints[0].addresses = vec![address.to_owned()];
        let synced = world.sync(&plan, true).await.unwrap();
        assert!(!synced.wrote);
        assert!(synced.wait.is_some_and(|wait| wait <= hour));
    }
    world.publisher.pace = Pace::new(Clock::start(), hour);
    assert!(world.sync(&plan, true).await.unwrap().wrote, "its turn");
    let name = plan.slices[0].metadata.name.clone().unwrap();
    let written = world.api.get(&name).unwrap();
    assert_eq!(written["endpoints"][0]["addresses"][0], "203.0.113.9");
}

#[tokio::test]
async fn what_lost_its_owner_is_still_known_and_is_written_again_with_the_one_that_it_is_to_have() {
    let world = World::with(&[]);
    world.sync(&world.plan(), true).await.unwrap();
    let api = world.api;
    // As `kubectl delete --cascade=orphan` leaves them.
    for (path, mut object) in api.objects() {
        object["metadata"]["ownerReferences"] = json!([]);
        api.put(&path, object);
    }
    let mut server = contract::server("team", "llama");
    server.metadata.uid = Some("made-anew".to_owned());
    let world = World::of(api, server);
    assert_eq!(world.publisher.get(&world.server).len(), 2);
    let others = contract::server("team", "llama-endpoints");
    assert!(world.caches.discovery(&others).slices.is_empty());
    world.sync(&world.plan(), true).await.unwrap();
    let objects = world.api.objects();
    let owners = objects.values().map(|object| {
        let owner = &object["metadata"]["ownerReferences"][0];
        owner["uid"].as_str()
    });
    let owners: Vec<_> = owners.collect();
    assert_eq!(owners, [Some("made-anew"); 3]);
}

#[tokio::test]
async fn a_slice_of_another_family_is_deleted_and_written_anew() {
    for changed_meanwhile in [false, true] {
        let world = World::with(&[(WEST, "llama-endpoints", "west")]);
        let path = format!("{SLICES}/{WEST}");
        let mut slice = world.api.get(WEST).unwrap();
        slice["addressType"] = "IPv6".into();
        slice["metadata"]["uid"] = "theirs".into();
        world.api.put(&path, slice.clone());
        let world = World::of(world.api, world.server);
        if changed_meanwhile {
            world.api.put(&path, slice);
        }
        let synced = world.sync(&world.plan(), true).await;
        let there = world.api.get(WEST).unwrap();
        assert_eq!(synced.is_err(), changed_meanwhile);
        assert_eq!(there["metadata"]["uid"] == "theirs", changed_meanwhile);
        let family = if changed_meanwhile { "IPv6" } else { "IPv4" };
        assert_eq!(there["addressType"], family);
    }
}

#[tokio::test]
async fn no_route_is_written_to_a_service_that_leads_nowhere_yet() {
    let world = World::with(&[]);
    for slice in ["-east-ipv4-0", "-west-ipv4-0"] {
        world
            .api
            .refuse(Method::PATCH, slice, StatusCode::FORBIDDEN);
    }
    let plan = world.plan();
    world.sync(&plan, true).await.unwrap_err();
    let server = &world.server;
    let publication = Publication {
        server,
        plan: &plan,
        routed: false,
    };
    assert!(!world.publisher.is_published(&publication));
}

#[tokio::test]
async fn what_routes_may_still_lead_to_is_kept_right_until_they_are_as_planned() {
    let class = "llama-endpoints-w3";
    let slice = "llama-endpoints-w3.east-ipv4-0";
    let world = World::with(&[(slice, class, "east")]);
    world.sync(&world.plan(), false).await.unwrap();
    let written = world.api.get(slice).unwrap();
    assert_eq!(written["endpoints"][0]["addresses"][0], "203.0.113.1");
    assert!(world.api.get(class).is_some());
    // An HTTPRoute that is on its way out names it still.
    let mut plan = world.plan();
    plan.retired.surplus.clear();
    world.sync(&plan, true).await.unwrap();
    assert!(world.api.get(slice).is_some() && world.api.get(class).is_some());
    world.sync(&world.plan(), true).await.unwrap();
    assert_eq!((world.api.get(slice), world.api.get(class)), (None, None));
}

#[tokio::test]
async fn the_hubs_own_publisher_keeps_its_contract() {
    let World {
        caches, publisher, ..
    } = World::with(&[]);
    let [a, b] = ["a", "b"].map(|name| contract::server("team", name));
    let observed = |server: &InferenceServer| caches.discovery(server);
    contract::publisher(&publisher, [&a, &b], observed)
        .await
        .unwrap();
}

#[tokio::test]
async fn no_route_leaves_a_service_before_each_cluster_is_where_it_goes_on_to() {
    for (led_to, goes_on) in [("llama-endpoints", true), ("llama-endpoints-w3", false)] {
        let server = contract::server("team", "llama");
        let api = FakeApi::default();
        api.put_owned(&server, ROUTES, route(led_to));
        api.refuse(Method::PATCH, WEST, StatusCode::FORBIDDEN);
        let world = World::of(api, server);
        let plan = world.plan();
        world.sync(&plan, true).await.unwrap_err();
        let publication = Publication {
            server: &world.server,
            plan: &plan,
            routed: false,
        };
        let is_published = world.publisher.is_published(&publication);
        assert_eq!(is_published, goes_on, "{led_to}");
    }
}

#[tokio::test]
async fn no_share_of_the_traffic_goes_to_a_service_before_something_is_ready_in_it() {
    for (ready, expected) in [(true, true), (false, false)] {
        let mut server = contract::server("team", "llama");
        for (target, weight) in server.spec.cluster_targets.iter_mut().zip([1, 3]) {
            target.weight = weight;
        }
        let plan = contract::planned(&server, Observed::default());
        let api = FakeApi::default();
        for service in &plan.services {
            api.put_owned(&server, SERVICES, json!(service));
        }
        // That of west waits for its turn to be as planned.
        for slice in &plan.slices {
            let mut slice = json!(slice);
            if slice["metadata"]["labels"]["inferfleet.io/cluster"] == "west" {
                slice["endpoints"][0]["conditions"]["ready"] = json!(ready);
            }
            api.put_owned(&server, SLICES, slice);
        }
        let world = World::of(api, server);
        let publication = Publication {
            server: &world.server,
            plan: &plan,
            routed: false,
        };
        let is_published = world.publisher.is_published(&publication);
        assert_eq!(is_published, expected, "ready: {ready}");
    }
}
