//! All that a plan is made from: objects from watch caches, and what the members last said. No choices here.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use crds::{
    ClusterName,
    condition::State,
    v1alpha1::{GatewayReference, InferenceServer, InferenceServerStatus, Replicas},
};
use gateway_api::httproutes::HttpRoute;
use ipnet::IpNet;
use k8s_openapi::{
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::Timestamp,
};

use crate::{memory::PublishedEndpoint, overrides::Profiles, probe::ProbeFacts};

/// The snapshot that one server is planned from.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The server.
    pub server: &'a InferenceServer,
    /// A later status than the server's, which waits for its turn to be written.
    pub waiting: Option<&'a InferenceServerStatus>,
    /// The profiles that it names, those that exist.
    pub profiles: &'a Profiles,
    /// Every target, and every other cluster that holds or may hold a placement of this server.
    pub clusters: BTreeMap<ClusterName, ClusterFacts>,
    /// The hub's Gateway for discovery routes.
    pub gateway: Option<&'a GatewayReference>,
    /// Does the hub's API server know HTTPRoutes?
    pub gateway_api: bool,
    /// The hub's own ranges: what is in them leads to no other cluster.
    pub refused_cidrs: &'a [IpNet],
    /// What its HTTPRoutes can say.
    pub route_schema: RouteSchema,
    /// Which of the Gateways exist that the server's routes attach to.
    pub gateways: BTreeSet<GatewayName>,
    /// Our objects, as they are.
    pub observed: Observed,
    /// What is published of each cluster, as the publisher gives it back.
    pub published: BTreeMap<ClusterName, PublishedEndpoint>,
    /// Who of the whole fleet can't be heard.
    pub fleet: Arc<Fleet>,
}

/// Namespace and name of a Gateway.
pub type GatewayName = (String, String);

/// What the installed HTTPRoutes can say, by their CustomResourceDefinition: a field that it lacks would be dropped
/// silently, and be missing for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteSchema {
    /// `spec.rules.timeouts`: in the standard channel since Gateway API 1.2.
    pub timeouts: bool,
}

/// The whole fleet, as far as one server's plan needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Clusters that have joined.
    pub joined: usize,
    /// Since when each of those that can't be heard is silent, sorted.
    pub silent_since: Vec<Timestamp>,
    /// The last silence of each of the others.
    pub silences: Vec<PastSilence>,
}

/// A silence that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastSilence {
    /// When it began: the end of a session, or the hub's start.
    pub began: Timestamp,
    /// Since when the cluster is heard again.
    pub ended: Timestamp,
}

/// Our objects of one server in the hub: each of them has the server as its controller, or none and is to have it again.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Discovery Services.
    pub services: Vec<Arc<Service>>,
    /// Their EndpointSlices.
    pub slices: Vec<Arc<EndpointSlice>>,
    /// Discovery HTTPRoutes.
    pub routes: Vec<Arc<HttpRoute>>,
}

/// What the hub knows of one cluster with regard to one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// How far it came on its way into the fleet.
    pub membership: Membership,
    /// Has its session brought every report since it began?
    pub reporting: bool,
    /// Since when there are no reports: the end of its last session, or the hub's start.
    pub silent_since: Option<Timestamp>,
    /// Since when its session lives.
    pub heard_since: Option<Timestamp>,
    /// Did the member confirm that nothing of this server is left there?
    pub gone: bool,
    /// Why the agent can't apply the value that is wanted now.
    pub refusal: Option<Refusal>,
    /// Why it takes no servers of this namespace.
    pub closed: Option<Refusal>,
    /// Why it can't be said which model it is to serve.
    pub model_refusal: Option<Refusal>,
    /// The last report of the placement.
    pub placement: Option<PlacementFacts>,
    /// The last report of the endpoint.
    pub endpoint: Option<EndpointFacts>,
    /// What the last probe of its endpoint brought.
    pub probe: Option<ProbeFacts>,
    /// The ranges that its addresses have to be in; none: they may be in any.
    pub allowed_cidrs: Vec<IpNet>,
}

impl ClusterFacts {
    /// A cluster that serves with two replicas at one address: what tests, contracts and benchmarks begin with.
    pub fn serving(address: &str) -> Self {
        let done = StepFacts::yes("Provisioned", "done");
        Self {
            membership: Membership::Joined,
            reporting: true,
            placement: Some(PlacementFacts {
                current: true,
                route_accepted: true,
                steps: Step::ALL.map(|step| (step, done.clone())).into(),
                replicas: Replicas {
                    wanted: 2,
                    ready: 2,
                },
            }),
            endpoint: Some(EndpointFacts {
                addresses: vec![address.to_owned()],
                port: 80,
                ..EndpointFacts::default()
            }),
            ..Self::default()
        }
    }
}

/// How far a cluster came on its way into the fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Membership {
    /// There is no MemberCluster of that name.
    #[default]
    Absent,
    /// There is one, and no agent has enrolled.
    Invited,
    /// An agent has enrolled.
    Joined,
    /// Its MemberCluster is being deleted.
    Leaving,
}

/// Why an agent can't apply a value, or none can be given to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// CamelCase.
    pub reason: String,
    /// A sentence for a person.
    pub message: String,
}

/// What an agent said of a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementFacts {
    /// Does it speak of the value that is wanted now?
    pub current: bool,
    /// Does the member's gateway accept the traffic route that is live, whatever became of the newest one?
    pub route_accepted: bool,
    /// What it said of each step.
    pub steps: BTreeMap<Step, StepFacts>,
    /// Replicas there.
    pub replicas: Replicas,
}

/// A step that a member takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Deployment, Service, ServiceAccount.
    Backend,
    /// The traffic HTTPRoute.
    TrafficRoute,
    /// The model list.
    ModelConfig,
    /// Replicas are ready.
    Health,
}

impl Step {
    /// All steps, in their order.
    pub const ALL: [Self; 4] = [
        Self::Backend,
        Self::ModelConfig,
        Self::TrafficRoute,
        Self::Health,
    ];
}

/// What a member said of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFacts {
    /// Done, failed, or on its way.
    pub state: State,
    /// CamelCase.
    pub reason: String,
    /// A sentence for a person.
    pub message: String,
}

/// Where a cluster admits traffic, or why nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointFacts {
    /// IP addresses, as text.
    pub addresses: Vec<String>,
    /// DNS names that lead to more of them, and what the hub knows of each.
    pub hostnames: BTreeMap<String, Resolution>,
    /// Their port.
    pub port: u16,
    /// Why there is none; empty when there is one.
    pub reason: String,
    /// A sentence for a person.
    pub message: String,
}

/// What the hub knows of a DNS name: nothing at all while its first lookup is on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    /// Its addresses, by the last lookup that brought some.
    pub addresses: BTreeSet<IpAddr>,
    /// Why the last lookup brought none.
    pub failure: Option<String>,
    /// Where that is so of one family alone: which. Of the other the last lookup brought addresses.
    pub failed: Option<Family>,
}

impl Resolution {
    /// May the name lead to such an address, as far as the hub knows? Of that family it knows nothing.
    pub fn may_have(&self, address: IpAddr) -> bool {
        let is_known = |family: Family| self.addresses.iter().any(|known| family.has(*known));
        self.addresses.is_empty()
            || self
                .failed
                .is_some_and(|family| family.has(address) && !is_known(family))
    }
}

/// Of addresses: names are looked up of each apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A records.
    Ipv4,
    /// AAAA records.
    Ipv6,
}

impl Family {
    /// Is the address of this family?
    pub const fn has(self, address: IpAddr) -> bool {
        match self {
            Self::Ipv4 => address.is_ipv4(),
            Self::Ipv6 => address.is_ipv6(),
        }
    }
}

/// An object by kind, name and UID, to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// What it is.
    pub kind: Kind,
    /// Its name, in the server's namespace.
    pub name: String,
    /// The precondition of its deletion.
    pub uid: String,
}

/// The kinds that the hub deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// gateway.networking.k8s.io HTTPRoute.
    Route,
    /// discovery.k8s.io EndpointSlice.
    Slice,
    /// core Service.
    Service,
}

impl Reference {
    /// Of an HTTPRoute.
    pub fn route(meta: &ObjectMeta) -> Self {
        Self::of(Kind::Route, meta)
    }

    /// Of an EndpointSlice.
    pub fn slice(meta: &ObjectMeta) -> Self {
        Self::of(Kind::Slice, meta)
    }

    /// Of a Service.
    pub fn service(meta: &ObjectMeta) -> Self {
        Self::of(Kind::Service, meta)
    }

    fn of(kind: Kind, meta: &ObjectMeta) -> Self {
        Self {
            kind,
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }
}

impl StepFacts {
    pub(crate) fn yes(reason: &str, message: impl Into<String>) -> Self {
        Self::of(State::True, reason, message)
    }

    pub(crate) fn no(reason: &str, message: impl Into<String>) -> Self {
        Self::of(State::False, reason, message)
    }

    pub(crate) fn unknown(reason: &str, message: impl Into<String>) -> Self {
        Self::of(State::Unknown, reason, message)
    }

    pub(crate) fn of(state: State, reason: &str, message: impl Into<String>) -> Self {
        Self {
            state,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

impl Facts<'_> {
    /// What was last planned to be said of the server.
    pub(crate) fn last_status(&self) -> Option<&InferenceServerStatus> {
        self.waiting.or(self.server.status.as_ref())
    }

    /// Is the server being deleted?
    pub(crate) fn is_deleted(&self) -> bool {
        self.server.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn name(&self) -> &str {
        self.server.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.server
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default()
    }
}
