//! What the hub's own publisher and routing wrote before a part of somebody's took their place. Such a part knows nothing of it,
//! so the hub takes it away: what is nobody's at once, the rest when its server goes.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use crds::{ClusterName, condition::Verdict, labels, v1alpha1::InferenceServer};
use futures::future::BoxFuture;
use hub_plan::{
    facts::{Observed, Reference},
    memory::PublishedEndpoint,
    routes,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use operator::{
    conditions::{Again, Failure},
    ownership::is_applied_by,
};

use crate::{
    apply::{Applier, stays},
    endpoints::{Publication, Publisher, Synced},
    observe::Caches,
    routing::{RouteIntent, Routing},
};

/// Finds them, and takes them away.
pub(crate) struct Leftovers {
    caches: Caches,
    applier: Arc<Applier>,
}

/// A part in place of the hub's own.
pub(crate) struct InPlace<T: ?Sized> {
    pub(crate) part: Arc<T>,
    pub(crate) leftovers: Arc<Leftovers>,
    /// Does the part hold the hub's own? Then what that writes is the part's, as long as the server is there.
    pub(crate) holds_own: bool,
}

impl Leftovers {
    /// Finds them in `caches`, deletes with `applier`.
    pub(crate) fn new(caches: Caches, applier: Arc<Applier>) -> Self {
        Self { caches, applier }
    }

    /// The HTTPRoutes of a server.
    fn routes(
        &self,
        server: &InferenceServer,
        is_leftover: impl Fn(&ObjectMeta) -> bool,
    ) -> Vec<Reference> {
        let routes = self.caches.routes_of(server);
        let routes = routes.iter().map(|route| &route.metadata);
        routes
            .filter(|meta| is_leftover(meta))
            .map(Reference::route)
            .collect()
    }

    /// The slices and Services of a server, but for those that HTTPRoutes lead to.
    fn published(
        &self,
        server: &InferenceServer,
        is_leftover: impl Fn(&ObjectMeta) -> bool,
    ) -> Vec<Reference> {
        let Observed {
            services,
            slices,
            routes,
        } = self.caches.discovery(server);
        let named = routes::services(routes.iter().map(AsRef::as_ref));
        let is_named = |service: Option<&String>| {
            service.is_some_and(|service| named.contains(service.as_str()))
        };
        let slices = slices.iter().filter(|slice| {
            is_leftover(&slice.metadata) && !is_named(slice.labels().get(labels::SERVICE_NAME))
        });
        let services = services.iter().filter(|service| {
            is_leftover(&service.metadata) && !is_named(service.metadata.name.as_ref())
        });
        slices
            .map(|slice| Reference::slice(&slice.metadata))
            .chain(services.map(|service| Reference::service(&service.metadata)))
            .collect()
    }

    async fn clear(
        &self,
        server: &InferenceServer,
        references: &[Reference],
    ) -> Result<Synced, Failure> {
        self.applier.clear(&self.caches, server, references).await
    }
}

/// What the hub has written: a part that writes objects of these kinds does so by another name.
fn is_own(meta: &ObjectMeta) -> bool {
    stays(meta) && is_applied_by(meta, labels::HUB)
}

/// What two writes came to, each of which was tried: a failure of one keeps the other from nothing.
fn both(one: Result<Synced, Failure>, other: Result<Synced, Failure>) -> Result<Synced, Failure> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(Synced {
            wrote: one.wrote || other.wrote,
            wait: one.wait.max(other.wait),
        }),
        (Err(failure), Ok(done)) | (Ok(done), Err(failure)) => {
            let again = failure.again.min(Again::beside(done.wrote, done.wait));
            Err(Failure { again, ..failure })
        }
        (Err(failure), Err(other)) => {
            let again = failure.again.min(other.again);
            Err(Failure { again, ..failure })
        }
    }
}

impl InPlace<dyn Publisher> {
    /// What leads to the server's clusters beside what the part publishes. What a route may lead to stays until the routes are as
    /// planned.
    fn found(&self, publication: &Publication<'_>) -> Vec<Reference> {
        if self.holds_own || !publication.routed {
            return Vec::new();
        }
        self.leftovers.published(publication.server, is_own)
    }
}

impl Publisher for InPlace<dyn Publisher> {
    fn loaded(&self) -> BoxFuture<'_, ()> {
        self.part.loaded()
    }

    fn get(&self, server: &InferenceServer) -> BTreeMap<ClusterName, PublishedEndpoint> {
        self.part.get(server)
    }

    fn is_synced(&self, publication: &Publication<'_>) -> bool {
        self.part.is_synced(publication) && self.found(publication).is_empty()
    }

    fn is_published(&self, publication: &Publication<'_>) -> bool {
        self.part.is_published(publication)
    }

    fn sync<'a>(
        &'a self,
        publication: &'a Publication<'a>,
    ) -> BoxFuture<'a, Result<Synced, Failure>> {
        Box::pin(async move {
            let synced = self.part.sync(publication).await;
            // Until all is published there, who was led somewhere by what the hub wrote still is.
            if !self.part.is_synced(publication) {
                return synced;
            }
            let found = self.found(publication);
            both(
                synced,
                self.leftovers.clear(publication.server, &found).await,
            )
        })
    }

    fn delete<'a>(&'a self, server: &'a InferenceServer) -> BoxFuture<'a, Result<Synced, Failure>> {
        Box::pin(async move {
            let deleted = self.part.delete(server).await;
            let found = self.leftovers.published(server, stays);
            both(deleted, self.leftovers.clear(server, &found).await)
        })
    }

    fn is_deleted(&self, server: &InferenceServer) -> bool {
        self.part.is_deleted(server) && self.leftovers.published(server, stays).is_empty()
    }
}

impl InPlace<dyn Routing> {
    /// What leads to the server beside what the part keeps.
    fn found(&self, intent: &RouteIntent<'_>) -> Vec<Reference> {
        match (intent.routes, self.holds_own) {
            ([], _) => self.leftovers.routes(intent.server, stays),
            (_, true) => Vec::new(),
            (_, false) => self.leftovers.routes(intent.server, is_own),
        }
    }
}

impl Routing for InPlace<dyn Routing> {
    fn is_synced(&self, intent: &RouteIntent<'_>) -> bool {
        self.part.is_synced(intent) && self.found(intent).is_empty()
    }

    fn sync<'a>(&'a self, intent: &'a RouteIntent<'a>) -> BoxFuture<'a, Result<Synced, Failure>> {
        Box::pin(async move {
            let synced = self.part.sync(intent).await;
            // Nobody is led anywhere by a route that is not there.
            if !self.part.is_synced(intent) {
                return synced;
            }
            let found = self.found(intent);
            both(synced, self.leftovers.clear(intent.server, &found).await)
        })
    }

    fn verdict(&self, intent: &RouteIntent<'_>, verdict: Verdict) -> Verdict {
        self.part.verdict(intent, verdict)
    }
}
