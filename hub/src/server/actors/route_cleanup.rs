//! On the way out: the routes go first, so that nobody is led to what is about to go.

use std::sync::Arc;

use crds::condition::ROUTE_CLEANUP;
use futures::future::BoxFuture;
use operator::conditions::Failure;

use super::writes::PlanPart;
use crate::{endpoints::Synced, routing::Routing, server::Pass};

/// Takes the discovery routes away. Members take theirs away when they are told to let go of the server.
pub(super) struct RouteCleanup {
    pub(super) routing: Arc<dyn Routing>,
}

impl PlanPart for RouteCleanup {
    const KIND: &'static str = ROUTE_CLEANUP;

    fn write<'a>(&'a self, pass: &'a Pass) -> BoxFuture<'a, Result<Option<Synced>, Failure>> {
        Box::pin(async move {
            let intent = pass.route_intent();
            if self.routing.is_synced(&intent) {
                return Ok(None);
            }
            self.routing.sync(&intent).await.map(Some)
        })
    }
}
