//! A part of the hub in place of its own, each tested by its contract. `docs/extending.md` explains them, and quotes them.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use crds::{
    ClusterName,
    condition::{State, Verdict},
    v1alpha1::{InferenceServer, InferenceServerStatus, Model, ModelSpec},
};
use futures::future::BoxFuture;
use gateway_api::httproutes::HttpRoute;
use hub::{
    Hub, contract,
    endpoints::{Provider, Publication, Publisher, ReportedEndpoints, Synced, Target},
    models::{ModelConfigProvider, SpecifiedModel},
    routing::{RouteIntent, Routing},
    server::{
        Pass,
        plugin::{OwnSteps, ServerPlugin, Steps},
    },
};
use hub_plan::{
    facts::{ClusterFacts, EndpointFacts, Observed, Refusal},
    memory::PublishedEndpoint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use operator::conditions::{ConditionActor, Engine, Failure, Pace, Plugin, Ran};

/// Namespace, name and UID: one server is never taken for another of its name.
fn key(server: &InferenceServer) -> String {
    let uid = server.uid().unwrap_or_default();
    format!(
        "{}/{}/{uid}",
        server.namespace().unwrap(),
        server.name_any()
    )
}

/// Publishes to a store elsewhere, by the key of each server, and takes away what it put there.
#[derive(Default)]
struct StorePublisher {
    store: Mutex<BTreeMap<String, BTreeMap<ClusterName, PublishedEndpoint>>>,
}

impl Publisher for StorePublisher {
    fn get(&self, server: &InferenceServer) -> BTreeMap<ClusterName, PublishedEndpoint> {
        let store = self.store.lock().unwrap();
        store.get(&key(server)).cloned().unwrap_or_default()
    }

    fn sync<'a>(
        &'a self,
        publication: &'a Publication<'a>,
    ) -> BoxFuture<'a, Result<Synced, Failure>> {
        Box::pin(async move {
            let endpoints = publication.plan.endpoints.clone();
            let wrote = self.get(publication.server) != endpoints;
            let mut store = self.store.lock().unwrap();
            store.insert(key(publication.server), endpoints);
            Ok(Synced { wrote, wait: None })
        })
    }

    fn delete<'a>(&'a self, server: &'a InferenceServer) -> BoxFuture<'a, Result<Synced, Failure>> {
        Box::pin(async move {
            let mut store = self.store.lock().unwrap();
            let wrote = store.remove(&key(server)).is_some();
            Ok(Synced { wrote, wait: None })
        })
    }

    fn is_deleted(&self, server: &InferenceServer) -> bool {
        !self.store.lock().unwrap().contains_key(&key(server))
    }
}

#[tokio::test]
async fn a_publisher_that_writes_to_a_store_elsewhere_cleans_up_after_itself() {
    let publisher = StorePublisher::default();
    let [a, b] = ["a", "b"].map(|name| contract::server("team", name));
    let nothing = |_: &InferenceServer| Observed::default();
    contract::publisher(&publisher, [&a, &b], nothing)
        .await
        .unwrap();
    let left: Vec<_> = publisher.store.lock().unwrap().keys().cloned().collect();
    assert_eq!(left, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_publisher_that_forgets_to_take_away_breaks_its_contract() {
    struct Leaky(StorePublisher);
    impl Publisher for Leaky {
        fn get(&self, server: &InferenceServer) -> BTreeMap<ClusterName, PublishedEndpoint> {
            self.0.get(server)
        }

        fn sync<'a>(
            &'a self,
            publication: &'a Publication<'a>,
        ) -> BoxFuture<'a, Result<Synced, Failure>> {
            self.0.sync(publication)
        }

        fn delete<'a>(&'a self, _: &'a InferenceServer) -> BoxFuture<'a, Result<Synced, Failure>> {
            Box::pin(std::future::ready(Ok(Synced::default())))
        }

        fn is_deleted(&self, server: &InferenceServer) -> bool {
            self.0.is_deleted(server)
        }
    }
    let [a, b] = ["a", "b"].map(|name| contract::server("team", name));
    let leaky = Leaky(StorePublisher::default());
    let breach = contract::publisher(&leaky, [&a, &b], |_| Observed::default()).await;
    let rule = "delete comes to an end that is_deleted tells";
    assert_eq!(breach.unwrap_err().rule, rule);
}

/// A cluster behind a load balancer that no agent knows of; the others are as they report.
struct BehindBalancer {
    inner: Arc<dyn Provider>,
    cluster: ClusterName,
    address: IpAddr,
}

impl Provider for BehindBalancer {
    fn resolve(&self, target: &Target<'_>) -> Option<EndpointFacts> {
        if *target.cluster != self.cluster {
            return self.inner.resolve(target);
        }
        Some(EndpointFacts {
            addresses: vec![self.address.to_string()],
            port: 80,
            ..EndpointFacts::default()
        })
    }
}

#[test]
fn a_provider_may_know_one_cluster_better_than_its_agent() {
    let provider = BehindBalancer {
        inner: Arc::new(ReportedEndpoints),
        cluster: "east".parse().unwrap(),
        address: "192.0.2.7".parse().unwrap(),
    };
    let server = contract::server("team", "llama");
    contract::provider(&provider, &server).unwrap();
    let facts = ClusterFacts::default();
    let resolve = |cluster: &str| {
        let cluster = &cluster.parse().unwrap();
        let (server, facts) = (&server, &facts);
        let endpoint = provider.resolve(&Target {
            server,
            cluster,
            facts,
        });
        endpoint.map(|endpoint| endpoint.addresses)
    };
    assert_eq!(resolve("east"), Some(vec!["192.0.2.7".to_owned()]));
    assert_eq!(resolve("west"), None);
}

/// Keeps its routes in a list that something else reads, and believes them carried.
#[derive(Default)]
struct ListedRoutes {
    routes: Mutex<BTreeMap<String, Vec<HttpRoute>>>,
}

impl Routing for ListedRoutes {
    fn is_synced(&self, intent: &RouteIntent<'_>) -> bool {
        let routes = self.routes.lock().unwrap();
        let there = routes.get(&key(intent.server));
        there.map_or(&[][..], Vec::as_slice) == intent.routes
    }

    fn sync<'a>(&'a self, intent: &'a RouteIntent<'a>) -> BoxFuture<'a, Result<Synced, Failure>> {
        Box::pin(async move {
            let wrote = !self.is_synced(intent);
            let mut routes = self.routes.lock().unwrap();
            match intent.routes {
                [] => routes.remove(&key(intent.server)),
                wanted => routes.insert(key(intent.server), wanted.to_vec()),
            };
            Ok(Synced { wrote, wait: None })
        })
    }

    fn verdict(&self, intent: &RouteIntent<'_>, verdict: Verdict) -> Verdict {
        if self.is_synced(intent) {
            Verdict::yes(verdict.kind, "Listed", "the routes are in the list")
        } else {
            Verdict::unknown(
                verdict.kind,
                "Listing",
                "the routes are not in the list yet",
            )
        }
    }
}

#[tokio::test]
async fn a_routing_may_keep_its_routes_where_it_likes() {
    let routing = ListedRoutes::default();
    let [a, b] = ["a", "b"].map(|name| contract::server("team", name));
    contract::routing(&routing, [&a, &b], |_| Observed::default())
        .await
        .unwrap();
    assert!(routing.routes.lock().unwrap().is_empty());
}

/// Takes `registry://NAME` from a list.
struct Registry {
    inner: SpecifiedModel,
    models: BTreeMap<String, String>,
}

impl ModelConfigProvider for Registry {
    fn model(
        &self,
        server: &InferenceServer,
        cluster: &ClusterName,
    ) -> Result<Option<Model>, Refusal> {
        let Some(model) = self.inner.model(server, cluster)? else {
            return Ok(None);
        };
        let Some(name) = model.uri.strip_prefix("registry://") else {
            return Ok(Some(model));
        };
        let uri = self.models.get(name).cloned().ok_or_else(|| Refusal {
            reason: "ModelUnknown".to_owned(),
            message: format!("the registry has no model {name}: publish it, or name another"),
        })?;
        Ok(Some(Model { uri, ..model }))
    }
}

#[test]
fn a_model_may_be_looked_up_in_a_registry() {
    let registry = Registry {
        inner: SpecifiedModel,
        models: [("llama".to_owned(), "s3://models/llama-3".to_owned())].into(),
    };
    let east = "east".parse().unwrap();
    let model = |uri: &str| {
        let mut server = contract::server("team", "llama");
        server.spec.model = Some(ModelSpec {
            uri: uri.to_owned(),
            name: None,
        });
        contract::model_config_provider(&registry, &server).unwrap();
        registry
            .model(&server, &east)
            .map(|model| model.unwrap().uri)
    };
    assert_eq!(model("registry://llama").unwrap(), "s3://models/llama-3");
    assert_eq!(model("hf://org/llama").unwrap(), "hf://org/llama");
    assert_eq!(model("registry://gone").unwrap_err().reason, "ModelUnknown");
}

/// Holds a server back until somebody has approved it.
struct Approval;

impl ConditionActor<Pass> for Approval {
    fn condition_type(&self) -> &'static str {
        "Approval"
    }

    fn retrieve<'a>(
        &'a self,
        pass: &'a Pass,
        _previous: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        let approved = pass
            .server
            .annotations()
            .contains_key("example.com/approved");
        let verdict = if approved {
            Verdict::yes("Approval", "Approved", "somebody has approved it")
        } else {
            let message = "nobody has approved it: annotate it with example.com/approved";
            Verdict::unknown("Approval", "NotApproved", message)
        };
        Box::pin(std::future::ready(Ok(verdict)))
    }

    fn run<'a>(&'a self, _: &'a Pass, found: Verdict) -> BoxFuture<'a, Result<Ran, Failure>> {
        Box::pin(std::future::ready(Ok(Ran::waits(found))))
    }

    fn gates(&self, _: &Pass) -> bool {
        true
    }
}

/// The hub's own steps, after an approval.
struct WithApproval {
    inner: Arc<dyn ServerPlugin>,
    creation: Steps,
}

impl WithApproval {
    fn around(inner: Arc<dyn ServerPlugin>) -> Self {
        let mut actors: Vec<Arc<dyn ConditionActor<Pass>>> = vec![Arc::new(Approval)];
        actors.extend(inner.creation().actors().iter().cloned());
        let creation = Steps::new(actors).expect("no step of the hub's is called Approval");
        Self { inner, creation }
    }
}

impl ServerPlugin for WithApproval {
    fn creation(&self) -> &Steps {
        &self.creation
    }

    fn deletion(&self) -> &Steps {
        self.inner.deletion()
    }

    fn finish(&self, pass: &Pass, status: &mut InferenceServerStatus) {
        self.inner.finish(pass, status);
    }
}

const ENGINE: Engine = Engine {
    pace: Pace::AllSteps,
    kill_reason: None,
};

#[tokio::test]
async fn a_plugin_may_hold_a_server_back_until_it_is_approved() {
    let publisher: Arc<dyn Publisher> = Arc::new(StorePublisher::default());
    let routing: Arc<dyn Routing> = Arc::new(ListedRoutes::default());
    let plugin = WithApproval::around(Arc::new(OwnSteps::new(&publisher, &routing)));
    let mut server = contract::server("team", "llama");
    let world = || publisher.get(&server);
    contract::server_plugin(&plugin, &server, world)
        .await
        .unwrap();
    publisher.delete(&server).await.unwrap();

    let mut pass = contract::pass(&server);
    let outcome = ENGINE.run(plugin.creation(), &mut pass).await;
    assert!(!outcome.terminal);
    assert_eq!(pass.steps[0].reason, "NotApproved");
    assert!(publisher.get(&server).is_empty());

    server
        .annotations_mut()
        .insert("example.com/approved".to_owned(), String::new());
    let mut pass = contract::pass(&server);
    ENGINE.run(plugin.creation(), &mut pass).await;
    assert_eq!(pass.steps[0].state, State::True);
    assert_eq!(publisher.get(&server).len(), 2);
}

/// A hub with all of it.
fn hub() -> Hub {
    let hub = Hub::builder()
        .publisher(|_own| Arc::new(StorePublisher::default()))
        .provider(|own| {
            Arc::new(BehindBalancer {
                inner: own.default,
                cluster: "east".parse().expect("a DNS label"),
                address: IpAddr::from([192, 0, 2, 7]),
            })
        })
        .routing(|_own| Arc::new(ListedRoutes::default()))
        .model_config_provider(|_own| {
            Arc::new(Registry {
                inner: SpecifiedModel,
                models: BTreeMap::new(),
            })
        })
        .server_plugin(|own| Arc::new(WithApproval::around(own.default)));
    hub.build().expect("each part is set once")
}

#[test]
fn a_hub_is_built_with_every_part_set_at_once() {
    drop(hub());
}
