//! The endpoint of every target is published.

use std::sync::Arc;

use crds::{
    condition::{ENDPOINT_PUBLISH, Verdict},
    reason,
};
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use operator::conditions::{ConditionActor, Failure, Ran};

use super::{pending, ran};
use crate::{endpoints::Publisher, server::Pass};

/// Publishes what was planned: whatever became of one cluster's endpoint, the others' are.
pub(super) struct EndpointPublish {
    pub(super) publisher: Arc<dyn Publisher>,
}

impl EndpointPublish {
    fn found(&self, pass: &Pass) -> Verdict {
        let verdict = pass.judged(ENDPOINT_PUBLISH);
        if self.publisher.is_synced(&pass.publication()) {
            return verdict;
        }
        let message = "the discovery Service and its EndpointSlices are not as planned yet";
        pending(verdict, reason::PUBLISHING, message)
    }
}

impl ConditionActor<Pass> for EndpointPublish {
    fn condition_type(&self) -> &'static str {
        ENDPOINT_PUBLISH
    }

    fn retrieve<'a>(
        &'a self,
        pass: &'a Pass,
        _previous: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        Box::pin(async move { Ok(self.found(pass)) })
    }

    fn run<'a>(
        &'a self,
        pass: &'a Pass,
        _retrieved: Verdict,
    ) -> BoxFuture<'a, Result<Ran, Failure>> {
        Box::pin(async move {
            let publication = pass.publication();
            if self.publisher.is_synced(&publication) {
                return Ok(Ran::waits(pass.judged(ENDPOINT_PUBLISH)));
            }
            let synced = self.publisher.sync(&publication).await?;
            Ok(ran(synced, self.found(pass)))
        })
    }
}
