//! The hub's gateway leads to what is published.

use std::sync::Arc;

use crds::{
    condition::{DISCOVERY_ROUTE_PROVISION, Verdict},
    reason,
};
use futures::future::BoxFuture;
use operator::conditions::Failure;

use super::writes::{PlanPart, pending};
use crate::{
    endpoints::{Publisher, Synced},
    routing::Routing,
    server::Pass,
};

/// Writes the discovery routes once all that they name is published: what a route names exists before it.
pub(super) struct DiscoveryRouteProvision {
    pub(super) publisher: Arc<dyn Publisher>,
    pub(super) routing: Arc<dyn Routing>,
}

impl PlanPart for DiscoveryRouteProvision {
    const KIND: &'static str = DISCOVERY_ROUTE_PROVISION;

    fn found(&self, pass: &Pass) -> Verdict {
        let intent = pass.route_intent();
        let verdict = pass.judged(DISCOVERY_ROUTE_PROVISION);
        let verdict = self.routing.verdict(&intent, verdict);
        if self.routing.is_synced(&intent) {
            return verdict;
        }
        let message = "the discovery HTTPRoutes are not as planned yet";
        pending(verdict, reason::ROUTE_PENDING, message)
    }

    fn write<'a>(&'a self, pass: &'a Pass) -> BoxFuture<'a, Result<Option<Synced>, Failure>> {
        Box::pin(async move {
            let publication = pass.publication(self.routing.as_ref());
            if publication.routed || !self.publisher.is_published(&publication) {
                return Ok(None);
            }
            self.routing.sync(&pass.route_intent()).await.map(Some)
        })
    }
}
