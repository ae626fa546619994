//! The steps of a server's life: those of its creation, and those of its way out.
//!
//! How a step is was judged by the plan; running it writes that step's part of the plan, and nothing else. What members do
//! was told to them before the snapshot was taken: those steps have nothing to run.

mod cleanup;
mod discovery_route_provision;
mod endpoint_publish;
mod judged;
mod route_cleanup;
mod writes;

use std::sync::Arc;

use crds::condition::{
    BACKEND_PROVISION, HEALTH_CHECK, MODEL_CONFIG_PROVISION, TRAFFIC_ROUTE_PROVISION, VALIDATION,
};
use operator::conditions::ConditionActor;

use self::{
    cleanup::Cleanup, discovery_route_provision::DiscoveryRouteProvision,
    endpoint_publish::EndpointPublish, judged::Judged, route_cleanup::RouteCleanup, writes::Writes,
};
use super::Pass;
use crate::{endpoints::Publisher, routing::Routing};

/// A step of a server.
pub type Actor = Arc<dyn ConditionActor<Pass>>;

/// What creates a server and keeps it right, in this order.
pub fn creation(publisher: &Arc<dyn Publisher>, routing: &Arc<dyn Routing>) -> Vec<Actor> {
    vec![
        Arc::new(Judged::gate(VALIDATION)),
        Arc::new(Judged::step(BACKEND_PROVISION)),
        Arc::new(Writes(EndpointPublish {
            publisher: Arc::clone(publisher),
            routing: Arc::clone(routing),
        })),
        Arc::new(Writes(DiscoveryRouteProvision {
            publisher: Arc::clone(publisher),
            routing: Arc::clone(routing),
        })),
        Arc::new(Judged::step(TRAFFIC_ROUTE_PROVISION)),
        Arc::new(Judged::step(MODEL_CONFIG_PROVISION)),
        Arc::new(Judged::step(HEALTH_CHECK)),
    ]
}

/// What takes a server away, in this order.
pub fn deletion(publisher: &Arc<dyn Publisher>, routing: &Arc<dyn Routing>) -> Vec<Actor> {
    vec![
        Arc::new(Writes(RouteCleanup {
            routing: Arc::clone(routing),
        })),
        Arc::new(Writes(Cleanup {
            publisher: Arc::clone(publisher),
            routing: Arc::clone(routing),
        })),
    ]
}
