//! On the way out: what is published drains, and goes when no member holds a part any more.

use std::sync::Arc;

use crds::condition::{CLEANUP, Verdict};
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use operator::conditions::{ConditionActor, Failure, Ran};

use super::ran;
use crate::{endpoints::Publisher, server::Pass};

/// Takes what is published away, last of all. Members are told to let go once their endpoints have drained.
pub(super) struct Cleanup {
    pub(super) publisher: Arc<dyn Publisher>,
}

impl ConditionActor<Pass> for Cleanup {
    fn condition_type(&self) -> &'static str {
        CLEANUP
    }

    fn retrieve<'a>(
        &'a self,
        pass: &'a Pass,
        _previous: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        Box::pin(async move { Ok(pass.judged(CLEANUP)) })
    }

    fn run<'a>(
        &'a self,
        pass: &'a Pass,
        retrieved: Verdict,
    ) -> BoxFuture<'a, Result<Ran, Failure>> {
        Box::pin(async move {
            let publication = pass.publication();
            let synced = if pass.plan.emptied {
                self.publisher.delete(&pass.server).await?
            } else if self.publisher.is_synced(&publication) {
                return Ok(Ran::waits(retrieved));
            } else {
                self.publisher.sync(&publication).await?
            };
            Ok(ran(synced, retrieved))
        })
    }
}
