//! The endpoint of every target is published.

use std::sync::Arc;

use crds::{
    condition::{ENDPOINT_PUBLISH, Verdict},
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

/// Publishes what was planned: whatever became of one cluster's endpoint, the others' are. What routes may still lead to
/// stays until they are as planned.
pub(super) struct EndpointPublish {
    pub(super) publisher: Arc<dyn Publisher>,
    pub(super) routing: Arc<dyn Routing>,
}

impl PlanPart for EndpointPublish {
    const KIND: &'static str = ENDPOINT_PUBLISH;

    fn found(&self, pass: &Pass) -> Verdict {
        let verdict = pass.judged(ENDPOINT_PUBLISH);
        let publication = pass.publication(self.routing.as_ref());
        if self.publisher.is_synced(&publication) {
            return verdict;
        }
        let message = "the discovery Service and its EndpointSlices are not as planned yet";
        pending(verdict, reason::PUBLISHING, message)
    }

    fn write<'a>(&'a self, pass: &'a Pass) -> BoxFuture<'a, Result<Option<Synced>, Failure>> {
        Box::pin(async move {
            let publication = pass.publication(self.routing.as_ref());
            if self.publisher.is_synced(&publication) {
                return Ok(None);
            }
            self.publisher.sync(&publication).await.map(Some)
        })
    }
}
