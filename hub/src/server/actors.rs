//! The steps of a server's life: those of its creation, and those of its way out.
//!
//! How a step is was judged by the plan; running it writes that step's part of the plan, and nothing else. What members do
//! was told to them before the snapshot was taken: those steps have nothing to run.

mod cleanup;
mod discovery_route_provision;
mod endpoint_publish;
mod judged;
mod route_cleanup;

use std::sync::Arc;

use crds::condition::{
    BACKEND_PROVISION, HEALTH_CHECK, MODEL_CONFIG_PROVISION, State, TRAFFIC_ROUTE_PROVISION,
    VALIDATION, Verdict,
};
use operator::conditions::{ConditionActor, Ran};

use self::{
    cleanup::Cleanup, discovery_route_provision::DiscoveryRouteProvision,
    endpoint_publish::EndpointPublish, judged::Judged, route_cleanup::RouteCleanup,
};
use super::Pass;
use crate::{
    endpoints::{Publisher, Synced},
    routing::Routing,
};

/// A step of a server.
pub type Actor = Arc<dyn ConditionActor<Pass>>;

/// What creates a server and keeps it right, in this order.
pub fn creation(publisher: &Arc<dyn Publisher>, routing: &Arc<dyn Routing>) -> Vec<Actor> {
    vec![
        Arc::new(Judged::gate(VALIDATION)),
        Arc::new(Judged::step(BACKEND_PROVISION)),
        Arc::new(EndpointPublish {
            publisher: Arc::clone(publisher),
        }),
        Arc::new(DiscoveryRouteProvision {
            publisher: Arc::clone(publisher),
            routing: Arc::clone(routing),
        }),
        Arc::new(Judged::step(TRAFFIC_ROUTE_PROVISION)),
        Arc::new(Judged::step(MODEL_CONFIG_PROVISION)),
        Arc::new(Judged::step(HEALTH_CHECK)),
    ]
}

/// What takes a server away, in this order.
pub fn deletion(publisher: &Arc<dyn Publisher>, routing: &Arc<dyn Routing>) -> Vec<Actor> {
    vec![
        Arc::new(RouteCleanup {
            routing: Arc::clone(routing),
        }),
        Arc::new(Cleanup {
            publisher: Arc::clone(publisher),
        }),
    ]
}

/// A step that has written something is looked at again at once: so its condition speaks of the world after the write.
fn ran(synced: Synced, verdict: Verdict) -> Ran {
    match synced.wait {
        Some(wait) => Ran::after(verdict, wait),
        None if synced.wrote => Ran::acted(verdict),
        None => Ran::waits(verdict),
    }
}

/// The verdict, but for a step that can't be done since something is still to be written.
fn pending(verdict: Verdict, reason: &str, message: &str) -> Verdict {
    match verdict.state {
        State::True => Verdict::unknown(verdict.kind, reason, message),
        State::False | State::Unknown => verdict,
    }
}
