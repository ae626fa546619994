//! The parts of a plan that an agent may have others of. Each is pure: facts in, objects and verdicts out. The same facts
//! give the same answer, and nobody is asked: what is not in [`PlacementInput`] is not known.
//!
//! Another implementation may stand alone, or hold the one that is here and change what it gives. [`contract`] says
//! whether it keeps the rules.
//!
//! [`contract`]: crate::contract

use std::{fmt::Debug, sync::Arc};

use crds::{condition::Verdict, v1alpha1::Replicas};
use gateway_api::httproutes::HttpRoute;
use k8s_openapi::jiff::Timestamp;

use crate::{
    ConfiguredSource, DeploymentBackend, Endpoint, Object, PathRouting, PlacementInput, Refusal,
};

/// How model servers are provisioned: steps BackendProvision and HealthCheck.
pub trait Backend: Debug + Send + Sync {
    /// What is to exist, in the order to apply it. One of them is a Service of the placement's name that takes HTTP at
    /// [`SERVICE_PORT`](crate::SERVICE_PORT): traffic routes send there.
    ///
    /// # Errors
    ///
    /// Why the placement can't be rendered: step BackendProvision is False with that, and nothing that serves is removed.
    fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<Object>, Refusal>;

    /// How the live objects are. The health counts only while every Deployment that was rendered is live as it was
    /// rendered.
    fn observe(&self, input: &PlacementInput<'_>) -> Observed;
}

/// How the replicas of a placement are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Wanted, and ready now, whatever revision they are of.
    pub replicas: Replicas,
    /// Are all of them ready, and if not, why: of type [`HEALTH_CHECK`](crds::condition::HEALTH_CHECK).
    pub health: Verdict,
}

/// How traffic gets from the cluster's Gateway to the Service of a placement: step TrafficRouteProvision.
pub trait Routing: Debug + Send + Sync {
    /// The traffic routes, in the order to apply them.
    ///
    /// # Errors
    ///
    /// Why there can be no route: the step is False with that. Routes that are there stay, unless no Gateway is named at
    /// all.
    fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<HttpRoute>, Refusal>;

    /// Does the Gateway admit traffic by the routes that are live: of type
    /// [`TRAFFIC_ROUTE_PROVISION`](crds::condition::TRAFFIC_ROUTE_PROVISION). While it is not True, the cluster takes no
    /// traffic for this placement.
    fn observe(&self, input: &PlacementInput<'_>) -> Verdict;

    /// When what `observe` admits is to be doubted, should nothing change: its Gateway has not judged what is live. By default
    /// never.
    fn doubt(&self, input: &PlacementInput<'_>) -> Option<Doubt> {
        let _ = input;
        None
    }
}

/// A yes that has stood for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// From then on.
    pub from: Timestamp,
    /// What is said of the step in its place. The cluster takes traffic all the same: a slow Gateway is no outage.
    pub verdict: Verdict,
}

/// Where the cluster admits the traffic of a placement.
pub trait EndpointSource: Debug + Send + Sync {
    /// The addresses and their port. Services and nodes are known of placements only that ask for source Service or
    /// NodePort.
    ///
    /// # Errors
    ///
    /// Why there is none. While what it needs is not known yet, the reason is [`APPLYING`](crds::reason::APPLYING), and what
    /// was published stays. With any other reason it goes.
    fn resolve(&self, input: &PlacementInput<'_>) -> Result<Endpoint, Refusal>;
}

/// What a plan is made with.
#[derive(Clone, Debug)]
pub struct Drivers {
    /// How model servers are provisioned.
    pub backend: Arc<dyn Backend>,
    /// How traffic gets to them.
    pub routing: Arc<dyn Routing>,
    /// Where the cluster admits it.
    pub endpoint_source: Arc<dyn EndpointSource>,
}

impl Default for Drivers {
    /// A Deployment, one route by path, and the source that the placement asks for.
    fn default() -> Self {
        Self {
            backend: Arc::new(DeploymentBackend),
            routing: Arc::new(PathRouting),
            endpoint_source: Arc::new(ConfiguredSource),
        }
    }
}
