//! On the way out: the routes go first, so that nobody is led to what is about to go.

use std::sync::Arc;

use crds::{
    condition::{ROUTE_CLEANUP, Verdict},
    reason,
};
use futures::future::BoxFuture;
use operator::conditions::Failure;

use super::writes::{PlanPart, pending};
use crate::{endpoints::Synced, routing::Routing, server::Pass};

/// Takes the discovery routes away. Members take theirs away when they are told to let go of the server.
pub(super) struct RouteCleanup {
    pub(super) routing: Arc<dyn Routing>,
}

impl PlanPart for RouteCleanup {
    const KIND: &'static str = ROUTE_CLEANUP;

    fn found(&self, pass: &Pass) -> Verdict {
        let verdict = pass.judged(ROUTE_CLEANUP);
        if self.routing.is_synced(&pass.route_intent()) {
            return verdict;
        }
        pending(
            verdict,
            reason::REMOVING,
            "the discovery routes are not gone yet",
        )
    }

    fn write<'a>(&'a self, pass: &'a Pass) -> BoxFuture<'a, Result<Option<Synced>, Failure>> {
        Box::pin(async move {
            let intent = pass.route_intent();
            if self.routing.is_synced(&intent) {
                return Ok(None);
            }
            self.routing.sync(&intent).await.map(Some)
        })
    }

    /// What a route leads to stays as long as the route. What is published is kept right meanwhile.
    fn gates(&self, pass: &Pass) -> bool {
        pass.plan.emptied
    }
}
