//! On the way out: what is published drains once no route leads there, and goes when no member holds a part any more.

use std::sync::Arc;

use crds::{
    condition::{CLEANUP, Verdict},
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

/// Takes what is published away, last of all. Members are told to let go once their endpoints have drained.
pub(super) struct Cleanup {
    pub(super) publisher: Arc<dyn Publisher>,
    pub(super) routing: Arc<dyn Routing>,
}

impl PlanPart for Cleanup {
    const KIND: &'static str = CLEANUP;

    fn found(&self, pass: &Pass) -> Verdict {
        let verdict = pass.judged(CLEANUP);
        if !pass.plan.emptied || self.publisher.is_deleted(&pass.server) {
            return verdict;
        }
        pending(
            verdict,
            reason::REMOVING,
            "what is published of it is not gone yet",
        )
    }

    fn write<'a>(&'a self, pass: &'a Pass) -> BoxFuture<'a, Result<Option<Synced>, Failure>> {
        Box::pin(async move {
            if pass.plan.emptied {
                return self.publisher.delete(&pass.server).await.map(Some);
            }
            let publication = pass.publication(self.routing.as_ref());
            if self.publisher.is_synced(&publication) {
                return Ok(None);
            }
            self.publisher.sync(&publication).await.map(Some)
        })
    }
}
