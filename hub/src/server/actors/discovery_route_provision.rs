//! The hub's gateway leads to what is published.

use std::sync::Arc;

use crds::{
    condition::{DISCOVERY_ROUTE_PROVISION, Verdict},
    reason,
};
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use operator::conditions::{ConditionActor, Failure, Ran};

use super::{pending, ran};
use crate::{endpoints::Publisher, routing::Routing, server::Pass};

/// Writes the discovery routes once all that they name is published: what a route names exists before it.
pub(super) struct DiscoveryRouteProvision {
    pub(super) publisher: Arc<dyn Publisher>,
    pub(super) routing: Arc<dyn Routing>,
}

impl DiscoveryRouteProvision {
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
}

impl ConditionActor<Pass> for DiscoveryRouteProvision {
    fn condition_type(&self) -> &'static str {
        DISCOVERY_ROUTE_PROVISION
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
        retrieved: Verdict,
    ) -> BoxFuture<'a, Result<Ran, Failure>> {
        Box::pin(async move {
            let intent = pass.route_intent();
            let published = self.publisher.is_published(&pass.publication());
            if self.routing.is_synced(&intent) || !published {
                return Ok(Ran::waits(retrieved));
            }
            let synced = self.routing.sync(&intent).await?;
            Ok(ran(synced, self.found(pass)))
        })
    }
}
