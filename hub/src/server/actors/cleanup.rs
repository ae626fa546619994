//! On the way out: what is published drains, and goes when no member holds a part any more.

use std::sync::Arc;

use crds::condition::CLEANUP;
use futures::future::BoxFuture;
use operator::conditions::Failure;

use super::writes::PlanPart;
use crate::{
    endpoints::{Publisher, Synced},
    server::Pass,
};

/// Takes what is published away, last of all. Members are told to let go once their endpoints have drained.
pub(super) struct Cleanup {
    pub(super) publisher: Arc<dyn Publisher>,
}

impl PlanPart for Cleanup {
    const KIND: &'static str = CLEANUP;

    fn write<'a>(&'a self, pass: &'a Pass) -> BoxFuture<'a, Result<Option<Synced>, Failure>> {
        Box::pin(async move {
            if pass.plan.emptied {
                return self.publisher.delete(&pass.server).await.map(Some);
            }
            let publication = pass.publication();
            if self.publisher.is_synced(&publication) {
                return Ok(None);
            }
            self.publisher.sync(&publication).await.map(Some)
        })
    }
}
