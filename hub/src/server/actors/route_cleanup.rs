//! On the way out: the routes go first, so that nobody is led to what is about to go.

use std::sync::Arc;

use crds::condition::{ROUTE_CLEANUP, Verdict};
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use operator::conditions::{ConditionActor, Failure, Ran};

use super::ran;
use crate::{routing::Routing, server::Pass};

/// Takes the discovery routes away. Members take theirs away when they are told to let go of the server.
pub(super) struct RouteCleanup {
    pub(super) routing: Arc<dyn Routing>,
}

impl ConditionActor<Pass> for RouteCleanup {
    fn condition_type(&self) -> &'static str {
        ROUTE_CLEANUP
    }

    fn retrieve<'a>(
        &'a self,
        pass: &'a Pass,
        _previous: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        Box::pin(async move { Ok(pass.judged(ROUTE_CLEANUP)) })
    }

    fn run<'a>(
        &'a self,
        pass: &'a Pass,
        retrieved: Verdict,
    ) -> BoxFuture<'a, Result<Ran, Failure>> {
        Box::pin(async move {
            let intent = pass.route_intent();
            if self.routing.is_synced(&intent) {
                return Ok(Ran::waits(retrieved));
            }
            let synced = self.routing.sync(&intent).await?;
            Ok(ran(synced, retrieved))
        })
    }
}
