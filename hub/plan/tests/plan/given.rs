//! Facts for a test: a healthy server in two clusters, of which each test spoils what it is about.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crds::{
    ClusterName,
    condition::State,
    v1alpha1::{
        ClusterTarget, DeletionPolicy, EndpointPolicy, GatewayReference, InferenceServer,
        InferenceServerSpec, InferenceServerStatus, ModelSpec, Probe, ProbePolicy, Probes, Routing,
        Runtime, RuntimeImage, RuntimePort, RuntimeProfile, RuntimeProfileSpec, Spreading,
    },
};
use gateway_api::httproutes::HttpRoute;
use hub_plan::{
    Retired,
    clusters::{Cluster, judge},
    facts::{
        ClusterFacts, Facts, Fleet, GatewayName, Membership, Observed, PlacementFacts, Reference,
        RouteSchema, Step, StepFacts,
    },
    memory::{self, PublishedEndpoint},
    overrides::{Pinned, Profiles},
};
use ipnet::IpNet;
use k8s_openapi::{
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::{SignedDuration, Timestamp},
};
use serde_json::json;

#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) server: InferenceServer,
    pub(crate) waiting: Option<InferenceServerStatus>,
    pub(crate) profiles: Profiles,
    pub(crate) clusters: BTreeMap<ClusterName, ClusterFacts>,
    pub(crate) gateway: Option<GatewayReference>,
    pub(crate) gateway_api: bool,
    pub(crate) refused_cidrs: Vec<IpNet>,
    pub(crate) route_schema: RouteSchema,
    pub(crate) gateways: BTreeSet<GatewayName>,
    pub(crate) observed: Observed,
    pub(crate) fleet: Fleet,
    pub(crate) now: Timestamp,
}

/// A plan, with the status that it comes to when all of it is written.
#[derive(Debug, PartialEq)]
pub(crate) struct Planned {
    pub(crate) services: Vec<Service>,
    pub(crate) slices: Vec<EndpointSlice>,
    pub(crate) routes: Vec<HttpRoute>,
    /// Routes first.
    pub(crate) surplus: Vec<Reference>,
    pub(crate) retired: Retired,
    /// Every member is done with a server under deletion.
    pub(crate) release: bool,
    pub(crate) unconfirmed: Vec<ClusterName>,
    pub(crate) status: InferenceServerStatus,
    pub(crate) due: Option<Timestamp>,
    pub(crate) endpoints: BTreeMap<ClusterName, PublishedEndpoint>,
    pub(crate) probes: BTreeMap<ClusterName, hub_plan::probe::Probe>,
}

pub(crate) fn cluster(name: &str) -> ClusterName {
    name.parse().unwrap()
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_000).unwrap()
}

pub(crate) fn step(state: State, reason: &str, message: &str) -> StepFacts {
    StepFacts {
        state,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// A cluster that serves at one address.
pub(crate) fn serving(address: &str) -> ClusterFacts {
    ClusterFacts::serving(address)
}

/// A cluster that joined and can't be heard.
pub(crate) fn silent() -> ClusterFacts {
    ClusterFacts {
        membership: Membership::Joined,
        ..ClusterFacts::default()
    }
}

/// A cluster that joined and can't be heard, since longer than the grace.
pub(crate) fn lost() -> ClusterFacts {
    ClusterFacts {
        silent_since: Some(Timestamp::UNIX_EPOCH),
        ..silent()
    }
}

/// How west is judged.
pub(crate) fn west(given: &Given) -> Cluster {
    let west = cluster("west");
    let mut clusters = judge(&given.facts(), given.now).into_iter();
    clusters.find(|cluster| cluster.name == west).unwrap()
}

/// Server `team/llama` in `east` and `west`, both well, planned once and applied.
pub(crate) fn healthy() -> Given {
    let mut given = Given {
        server: server(&[("east", 1), ("west", 1)]),
        waiting: None,
        profiles: profiles(),
        clusters: [
            (cluster("east"), serving("203.0.113.1")),
            (cluster("west"), serving("203.0.113.2")),
        ]
        .into(),
        gateway: Some(GatewayReference {
            namespace: "infra".to_owned(),
            name: "public".to_owned(),
            listener: None,
        }),
        gateway_api: true,
        refused_cidrs: Vec::new(),
        route_schema: RouteSchema { timeouts: true },
        gateways: [("infra".to_owned(), "public".to_owned())].into(),
        observed: Observed::default(),
        fleet: Fleet::default(),
        now: now(),
    };
    given.apply();
    given
}

/// A server with this many targets, all of them well.
pub(crate) fn many(count: usize) -> Given {
    let mut given = healthy();
    let names: Vec<_> = (0..count).map(|number| format!("c{number:03}")).collect();
    let targets: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
    given.server = server(&targets);
    given.clusters = names
        .iter()
        .map(|name| (cluster(name), serving("203.0.113.1")))
        .collect();
    given
}

pub(crate) fn server(targets: &[(&str, u32)]) -> InferenceServer {
    let target = |(name, weight): &(&str, u32)| ClusterTarget {
        weight: *weight,
        ..ClusterTarget::new(*name)
    };
    let mut server = InferenceServer::new(
        "llama",
        InferenceServerSpec {
            cluster_targets: targets.iter().map(target).collect(),
            min_ready_clusters: 1,
            runtime: Runtime::new("echo"),
            model: Some(ModelSpec {
                uri: "hf://org/llama".to_owned(),
                name: None,
            }),
            resources: None,
            accelerator: None,
            replicas: 2,
            spreading: Spreading::Preferred,
            disruption: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            image_pull_secrets: Vec::new(),
            // What goes is gone at once, but where a test is about draining.
            endpoints: EndpointPolicy {
                drain_seconds: 0,
                // Nobody is asked, but where a test is about that.
                probe: ProbePolicy::Off,
                ..EndpointPolicy::default()
            },
            routing: Routing::default(),
            deletion_policy: DeletionPolicy::Delete,
            decommission: false,
        },
    );
    server.metadata.namespace = Some("team".to_owned());
    server.metadata.uid = Some("uid-1".to_owned());
    server.metadata.generation = Some(3);
    server
}

/// The profile that servers name, and no accelerator.
pub(crate) fn profiles() -> Profiles {
    Profiles {
        runtime: Ok(Pinned {
            revision: 1,
            content: Arc::new(profile().spec),
        }),
        accelerators: BTreeMap::new(),
    }
}

pub(crate) fn profile() -> RuntimeProfile {
    RuntimeProfile::new(
        "echo",
        RuntimeProfileSpec {
            images: vec![RuntimeImage {
                vendor: "none".to_owned(),
                image: "inferfleet/echo:1".to_owned(),
            }],
            command: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            ports: vec![RuntimePort {
                name: "http".to_owned(),
                port: 8080,
            }],
            probes: Probes {
                startup: None,
                readiness: Probe {
                    path: "/ready".to_owned(),
                    failure_seconds: None,
                },
                liveness: None,
            },
            metrics: None,
            shared_memory: None,
            security_context: None,
            drain_seconds: 5,
        },
    )
}

/// What Contour says of a route that it likes, or doesn't.
pub(crate) fn judged(route: &HttpRoute, accepted: &str, resolved: &str) -> HttpRoute {
    let condition = |kind: &str, status: &str| Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: "Because".to_owned(),
        message: "of this".to_owned(),
        observed_generation: Some(1),
        last_transition_time: Time(now()),
    };
    let mut route = route.clone();
    route.metadata.generation = Some(1);
    route.status = serde_json::from_value(json!({"parents": [{
        "controllerName": "example.com/gateway",
        "parentRef": {"namespace": "infra", "name": "public"},
        "conditions": [condition("Accepted", accepted), condition("ResolvedRefs", resolved)],
    }]}))
    .unwrap();
    route
}

impl Given {
    pub(crate) fn plan(&self) -> Planned {
        self.plan_at(self.now)
    }

    pub(crate) fn plan_at(&self, now: Timestamp) -> Planned {
        let plan = hub_plan::plan(&self.facts(), now);
        let status = plan.status(&self.server, &plan.steps, now);
        let deleted = self.server.metadata.deletion_timestamp.is_some();
        let probes = plan.probes();
        let surplus = plan.surplus_routes.into_iter().chain(plan.surplus);
        Planned {
            services: plan.services,
            slices: plan.slices,
            routes: plan.routes,
            surplus: surplus.collect(),
            retired: plan.retired,
            release: plan.emptied && deleted,
            unconfirmed: plan.unconfirmed,
            status,
            due: plan.due,
            endpoints: plan.endpoints,
            probes,
        }
    }

    pub(crate) fn facts(&self) -> Facts<'_> {
        let name = self.server.metadata.name.as_deref().unwrap();
        let slices = self.observed.slices.iter().map(AsRef::as_ref);
        Facts {
            server: &self.server,
            waiting: self.waiting.as_ref(),
            profiles: &self.profiles,
            clusters: self.clusters.clone(),
            gateway: self.gateway.as_ref(),
            gateway_api: self.gateway_api,
            refused_cidrs: &self.refused_cidrs,
            route_schema: self.route_schema,
            gateways: self.gateways.clone(),
            observed: self.observed.clone(),
            published: memory::published(slices, name),
            fleet: Arc::new(self.fleet.clone()),
        }
    }

    /// The API server takes what is planned, its gateway likes it, and the status is written.
    pub(crate) fn apply(&mut self) {
        let Planned {
            services,
            slices,
            routes,
            ..
        } = self.plan();
        let routes = routes.iter().map(|route| judged(route, "True", "True"));
        self.observed = Observed {
            services: services.into_iter().map(Arc::new).collect(),
            slices: slices.into_iter().map(Arc::new).collect(),
            routes: routes.map(Arc::new).collect(),
        };
        self.server.status = Some(self.plan().status);
    }

    pub(crate) fn cluster(&mut self, name: &str) -> &mut ClusterFacts {
        self.clusters.get_mut(&cluster(name)).unwrap()
    }

    /// The cluster can't be heard, since longer than the grace.
    pub(crate) fn lose(&mut self, name: &str) {
        let silent_since = self.now.checked_sub(SignedDuration::from_secs(60)).unwrap();
        let cluster = self.cluster(name);
        cluster.reporting = false;
        (cluster.placement, cluster.endpoint) = (None, None);
        cluster.silent_since = Some(silent_since);
        self.fleet.silent_since.push(silent_since);
    }

    /// One more target, well, before all others: `south`, of that weight.
    pub(crate) fn add_south(&mut self, weight: u32) {
        self.clusters
            .insert(cluster("south"), serving("203.0.113.3"));
        let targets = &mut self.server.spec.cluster_targets;
        let target = ClusterTarget {
            cluster_id: "south".to_owned(),
            weight,
            ..targets[0].clone()
        };
        targets.insert(0, target);
    }

    pub(crate) fn placement(&mut self, name: &str) -> &mut PlacementFacts {
        self.cluster(name).placement.as_mut().unwrap()
    }

    pub(crate) fn fail(&mut self, name: &str, of: Step, reason: &str, message: &str) {
        self.placement(name)
            .steps
            .insert(of, step(State::False, reason, message));
    }
}

/// `type status reason` of one condition.
pub(crate) fn condition(status: &InferenceServerStatus, kind: &str) -> String {
    let found = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == kind);
    found.map_or_else(
        || format!("{kind} is missing"),
        |found| format!("{} {}", found.status, found.reason),
    )
}
