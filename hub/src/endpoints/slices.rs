//! The default publisher: Services without a selector, and their EndpointSlices.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crds::{ClusterName, labels, v1alpha1::InferenceServer};
use futures::future::BoxFuture;
use hub_plan::{
    facts::Reference,
    memory::{PublishedEndpoint, published},
    routes,
};
use k8s_openapi::{
    api::discovery::v1::EndpointSlice, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt;
use operator::{cache::ObjectKey, conditions::Failure, ownership::Desired};

use super::{Publication, Publisher, Synced};
use crate::{
    apply::{Applier, Written, differing, stays},
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
    /// what follows within a second is written then. What is not taken holds up nothing that does not depend on it.
    async fn write(&self, publication: &Publication<'_>) -> Result<Synced, Failure> {
        let mut written = Written::default();
        let services = &publication.plan.services;
        let services = differing(&self.caches.services, services, &mut written);
        self.applier
            .put_all(&self.caches.services, services, &mut written)
            .await;
        let mut wait = None;
        let mut open = BTreeSet::new();
        let mut due: Vec<Desired> = Vec::new();
        for slice in self.slices(publication, &mut written) {
            match self.pace.wait(slice.key.clone()) {
                None => due.push(slice),
                more => {
                    wait = wait.max(more);
                    open.insert(slice.key);
                }
            }
        }
        self.applier
            .put_all(&self.caches.slices, due, &mut written)
            .await;
        // When it is tried again is the back-off's to say.
        for slice in &written.refused {
            self.pace.give_back(slice);
        }
        open.extend(written.refused.iter().cloned());
        let namespace = publication.server.namespace().unwrap_or_default();
        let surplus = self.surplus(publication, &open);
        self.applier
            .delete_all(&self.caches, &namespace, &surplus, &mut written)
            .await;
        written.synced(wait)
    }

    /// The slices that differ.
    fn slices(&self, publication: &Publication<'_>, written: &mut Written) -> Vec<Desired> {
        let plan = publication.plan;
        let mut slices = differing(&self.caches.slices, &plan.slices, written);
        let retired = differing(&self.caches.slices, &plan.retired.slices, written);
        let goes = |slice: &Desired| {
            let mut going = plan.retired.surplus.iter();
            publication.routed && going.any(|going| going.name == slice.key.name)
        };
        slices.extend(retired.into_iter().filter(|slice| !goes(slice)));
        slices
    }

    /// What may go. A cluster's addresses may be on their way from one of its slices to another: while one of them is `open`,
    /// which is not as planned, the others stay.
    fn surplus(&self, publication: &Publication<'_>, open: &BTreeSet<ObjectKey>) -> Vec<Reference> {
        let Publication {
            server,
            plan,
            routed,
        } = *publication;
        let cluster = |slice: &EndpointSlice| slice.labels().get(labels::CLUSTER).cloned();
        let is_open =
            |slice: &&EndpointSlice| !open.is_empty() && open.contains(&ObjectKey::of(*slice));
        let slices = plan.slices.iter().filter(is_open);
        let moving: BTreeSet<_> = slices.filter_map(cluster).collect();
        let namespace = server.namespace().unwrap_or_default();
        let stays = |reference: &&Reference| {
            let key = ObjectKey::new(&namespace, &reference.name);
            let slice = self.caches.slices.get(&key);
            let cluster = slice.and_then(|slice| cluster(&slice));
            cluster.is_some_and(|cluster| moving.contains(&cluster))
        };
        let surplus = plan.surplus.iter().filter(|of| !stays(of));
        let retired = plan.retired.surplus.iter().filter(|_| routed);
        surplus.chain(retired).cloned().collect()
    }

    /// What is there of a server and was not told to go: slices, then Services.
    fn there(&self, server: &InferenceServer) -> Vec<Reference> {
        let observed = self.caches.discovery(server);
        let slices = observed.slices.iter().map(|slice| &slice.metadata);
        let services = observed.services.iter().map(|service| &service.metadata);
        let slices = slices.filter(|meta| stays(meta)).map(Reference::slice);
        let services = services.filter(|meta| stays(meta));
        slices.chain(services.map(Reference::service)).collect()
    }

    async fn remove(&self, server: &InferenceServer) -> Result<Synced, Failure> {
        let there = self.there(server);
        self.applier.clear(&self.caches, server, &there).await
    }
}

impl Publisher for DiscoverySlices {
    fn get(&self, server: &InferenceServer) -> BTreeMap<ClusterName, PublishedEndpoint> {
        let slices = self.caches.discovery(server).slices;
        published(slices.iter().map(AsRef::as_ref), &server.name_any())
    }

    /// Service and slices are compared field by field, so that whatever another hand changes is put right.
    fn is_synced(&self, publication: &Publication<'_>) -> bool {
        let plan = publication.plan;
        let mut written = Written::default();
        let services = differing(&self.caches.services, &plan.services, &mut written);
        let slices = self.slices(publication, &mut written);
        services.is_empty()
            && slices.is_empty()
            && written.failures.is_empty()
            && self.surplus(publication, &BTreeSet::new()).is_empty()
    }

    /// Each Service that the routes name is there, and leads somewhere if it is to. While the routes are to leave a Service, each
    /// cluster has to be in those that they go on to. Where there are several, no share of the traffic goes to one before
    /// something is ready in it: a slice may have to wait for its turn.
    fn is_published(&self, publication: &Publication<'_>) -> bool {
        let plan = publication.plan;
        let observed = self.caches.discovery(publication.server);
        let services = observed.services.iter().map(|service| &service.metadata);
        let services = staying(services);
        let there = observed
            .slices
            .iter()
            .filter(|slice| stays(&slice.metadata));
        let there: BTreeMap<_, _> = there.map(|slice| (slice.name_any(), slice)).collect();
        let wanted = routes::services(&plan.routes);
        let named = routes::services(observed.routes.iter().map(AsRef::as_ref));
        let moving = !named.is_subset(&wanted) || !plan.retired.slices.is_empty();
        let weighed = match wanted.len() {
            0 | 1 => BTreeSet::new(),
            _ => routes::weighed(&plan.routes),
        };
        wanted.into_iter().all(|service| {
            let of_service = |slice: &&EndpointSlice| {
                let of = slice.labels().get(labels::SERVICE_NAME);
                of.is_some_and(|of| of == service)
            };
            let planned: Vec<_> = plan.slices.iter().filter(of_service).collect();
            let there: Vec<_> = planned
                .iter()
                .filter_map(|slice| there.get(&slice.name_any()))
                .collect();
            let enough = there.len() == planned.len() || (!there.is_empty() && !moving);
            let leads = !weighed.contains(service) || there.iter().any(|slice| is_ready(slice));
            services.contains(service) && enough && leads
        })
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
        self.there(server).is_empty()
    }
}

/// Does anything in it take traffic?
fn is_ready(slice: &EndpointSlice) -> bool {
    let mut conditions = slice
        .endpoints
        .iter()
        .filter_map(|one| one.conditions.as_ref());
    conditions.any(|conditions| conditions.ready == Some(true))
}

/// The names of the objects that are not on their way out.
fn staying<'a>(objects: impl Iterator<Item = &'a ObjectMeta>) -> BTreeSet<String> {
    let staying = objects.filter(|meta| stays(meta));
    staying.filter_map(|meta| meta.name.clone()).collect()
}
