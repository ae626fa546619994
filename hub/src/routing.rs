//! The discovery routes of servers: how clients at the hub's Gateway get to what is published. A build of the hub may replace it.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crds::{condition::Verdict, v1alpha1::InferenceServer};
use futures::future::BoxFuture;
use gateway_api::httproutes::HttpRoute;
use hub_plan::facts::Reference;
use kube::ResourceExt;
use operator::conditions::Failure;

use crate::{
    apply::{Applier, Written, differing},
    endpoints::Synced,
    observe::Caches,
};

/// Keeps the routes of servers. The intent is said in the words of the Gateway API, whatever it is turned into.
pub trait Routing: Send + Sync {
    /// Is what is there what is wanted? Then nothing is written, and what only other routes lead to may go. With no routes in the
    /// intent: is nothing of the server's left? What it is led to, and its finalizer, wait for that.
    fn is_synced(&self, intent: &RouteIntent<'_>) -> bool;

    /// Makes what is there what is wanted: with no routes in the intent, nothing of the server's is left. Idempotent.
    ///
    /// # Errors
    /// When some of it did not come about.
    fn sync<'a>(&'a self, intent: &'a RouteIntent<'a>) -> BoxFuture<'a, Result<Synced, Failure>>;

    /// What those say who carry traffic by the routes: True once they do. `verdict` is what the Gateways say of the HTTPRoutes
    /// in the hub's cluster.
    fn verdict(&self, intent: &RouteIntent<'_>, verdict: Verdict) -> Verdict {
        let _ = intent;
        verdict
    }
}

/// The routes that a server is to have.
#[derive(Clone, Copy, Debug)]
pub struct RouteIntent<'a> {
    /// The server.
    pub server: &'a InferenceServer,
    /// Its routes, with the Gateways that they attach to. They lead to the discovery Services of the plan.
    pub routes: &'a [HttpRoute],
    /// HTTPRoutes of ours in the hub's cluster that are not among them.
    pub surplus: &'a [Reference],
}

/// Keeps them as HTTPRoutes in the hub's cluster.
pub struct GatewayRoutes {
    caches: Caches,
    applier: Arc<Applier>,
}

impl GatewayRoutes {
    /// Compares with `caches`, writes with `applier`.
    pub fn new(caches: Caches, applier: Arc<Applier>) -> Self {
        Self { caches, applier }
    }

    async fn write(&self, intent: &RouteIntent<'_>) -> Result<Synced, Failure> {
        let mut written = Written::default();
        let routes = differing(&self.caches.routes, intent.routes, &mut written);
        self.applier
            .put_all(&self.caches.routes, routes, &mut written)
            .await;
        let namespace = intent.server.namespace().unwrap_or_default();
        self.applier
            .delete_all(&self.caches, &namespace, intent.surplus, &mut written)
            .await;
        written.synced(None)
    }
}

impl Routing for GatewayRoutes {
    fn is_synced(&self, intent: &RouteIntent<'_>) -> bool {
        let mut written = Written::default();
        differing(&self.caches.routes, intent.routes, &mut written).is_empty()
            && written.failures.is_empty()
            && intent.surplus.is_empty()
    }

    fn sync<'a>(&'a self, intent: &'a RouteIntent<'a>) -> BoxFuture<'a, Result<Synced, Failure>> {
        Box::pin(self.write(intent))
    }
}
