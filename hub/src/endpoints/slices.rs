//! The default publisher: Services without a selector, and their EndpointSlices.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crds::{ClusterName, v1alpha1::InferenceServer};
use futures::future::BoxFuture;
use hub_plan::{
    facts::Reference,
    memory::{PublishedEndpoint, published},
};
use kube::ResourceExt;
use operator::{cache::ObjectKey, conditions::Failure, ownership::Desired};

use super::{Publication, Publisher, Synced};
use crate::{
    apply::{Applier, Written, differing},
    clock::{Clock, Pace},
    observe::Caches,
};

/// A slice that has just been written waits this long for its next write: what changes meanwhile goes with it.
const COALESCE: Duration = Duration::from_secs(1);

/// Keeps `<server>-endpoints`, the Services of its weight classes, and their EndpointSlices.
pub struct DiscoverySlices {
    caches: Caches,
    applier: Arc<Applier>,
    /// Of the writes of each slice.
    pace: Pace<ObjectKey>,
}

impl DiscoverySlices {
    /// Compares with `caches`, writes with `applier`.
    pub fn new(caches: Caches, applier: Arc<Applier>, clock: Clock) -> Self {
        Self {
            caches,
            applier,
            pace: Pace::new(clock, COALESCE),
        }
    }

    /// Writes what differs: Services, then slices; then deletes what is surplus. A slice's first change is written at once;
    /// what follows within a second is written then, and what is surplus goes after that.
    async fn write(&self, publication: &Publication<'_>) -> Result<Synced, Failure> {
        let plan = publication.plan;
        let mut written = Written::default();
        let services = differing(&self.caches.services, &plan.services, &mut written);
        self.applier
            .put_all(&self.caches.services, services, &mut written)
            .await;
        let slices = self.slices(publication, &mut written);
        let mut wait = None;
        let mut due: Vec<Desired> = Vec::new();
        for slice in slices {
            match self.pace.wait(slice.key.clone()) {
                None => due.push(slice),
                more => wait = wait.max(more),
            }
        }
        self.applier
            .put_all(&self.caches.slices, due, &mut written)
            .await;
        if wait.is_none() && written.failures.is_empty() {
            let namespace = publication.server.namespace().unwrap_or_default();
            let surplus = surplus(publication);
            self.applier
                .delete_all(&self.caches, &namespace, &surplus, &mut written)
                .await;
        }
        written.synced(wait)
    }

    /// The slices that differ.
    fn slices(&self, publication: &Publication<'_>, written: &mut Written) -> Vec<Desired> {
        let plan = publication.plan;
        let mut slices = differing(&self.caches.slices, &plan.slices, written);
        if !publication.routed {
            slices.extend(differing(
                &self.caches.slices,
                &plan.retired.slices,
                written,
            ));
        }
        slices
    }

    async fn remove(&self, server: &InferenceServer) -> Result<Synced, Failure> {
        let observed = self.caches.discovery(server);
        let slices = observed.slices.iter().map(|slice| &slice.metadata);
        let services = observed.services.iter().map(|service| &service.metadata);
        let slices = slices.filter(|meta| meta.deletion_timestamp.is_none());
        let services = services.filter(|meta| meta.deletion_timestamp.is_none());
        let references: Vec<_> = slices
            .map(Reference::slice)
            .chain(services.map(Reference::service))
            .collect();
        let namespace = server.namespace().unwrap_or_default();
        let mut written = Written::default();
        self.applier
            .delete_all(&self.caches, &namespace, &references, &mut written)
            .await;
        written.synced(None)
    }
}

impl Publisher for DiscoverySlices {
    fn get(&self, server: &InferenceServer) -> BTreeMap<ClusterName, PublishedEndpoint> {
        let slices = self.caches.discovery(server).slices;
        published(slices.iter().map(AsRef::as_ref), &server.name_any())
    }

    fn is_synced(&self, publication: &Publication<'_>) -> bool {
        surplus(publication).is_empty() && self.is_published(publication)
    }

    /// Service and slices are compared field by field, so that whatever another hand changes is put right.
    fn is_published(&self, publication: &Publication<'_>) -> bool {
        let plan = publication.plan;
        let mut written = Written::default();
        let services = differing(&self.caches.services, &plan.services, &mut written);
        let slices = self.slices(publication, &mut written);
        services.is_empty() && slices.is_empty() && written.failures.is_empty()
    }

    fn sync<'a>(
        &'a self,
        publication: &'a Publication<'a>,
    ) -> BoxFuture<'a, Result<Synced, Failure>> {
        Box::pin(self.write(publication))
    }

    fn delete<'a>(&'a self, server: &'a InferenceServer) -> BoxFuture<'a, Result<Synced, Failure>> {
        Box::pin(self.remove(server))
    }

    /// What was told to go is not there any more. That it is gone, the plan waits for.
    fn is_deleted(&self, server: &InferenceServer) -> bool {
        let observed = self.caches.discovery(server);
        let slices = observed.slices.iter().map(|slice| &slice.metadata);
        let services = observed.services.iter().map(|service| &service.metadata);
        let mut there = slices.chain(services);
        there.all(|meta| meta.deletion_timestamp.is_some())
    }
}

/// What may go.
fn surplus(publication: &Publication<'_>) -> Vec<Reference> {
    let plan = publication.plan;
    let retired = plan.retired.surplus.iter().filter(|_| publication.routed);
    plan.surplus.iter().chain(retired).cloned().collect()
}
