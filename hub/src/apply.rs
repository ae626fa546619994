//! Objects of a plan, written where they differ from what is there. Decides nothing.

use std::{fmt::Debug, sync::Arc, time::Duration};

use crds::{labels, reason};
use futures::StreamExt;
use gateway_api::httproutes::HttpRoute;
use hub_plan::facts::{Kind, Reference};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{core::v1::Service, discovery::v1::EndpointSlice},
};
use kube::{
    Client, Resource,
    api::{ApiResource, PropagationPolicy},
};
use operator::{
    apply::{Error, Retry, apply, delete},
    cache::{Cache, ObjectKey},
    conditions::Failure,
    ownership::Desired,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{clock::Clock, endpoints::Synced, metrics::Metrics, observe::Caches};

/// Objects of one server that are written at once.
const WRITES_AT_ONCE: usize = 16;

/// The kinds that a plan has.
pub trait DiscoveryObject:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Serialize
    + DeserializeOwned
    + Clone
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl DiscoveryObject for Service {}
impl DiscoveryObject for EndpointSlice {}
impl DiscoveryObject for HttpRoute {}

/// Writes discovery objects.
pub struct Applier {
    client: Client,
    clock: Clock,
    metrics: Arc<Metrics>,
}

/// What became of some writes.
#[derive(Debug, Default)]
pub struct Written {
    /// How many were taken.
    pub count: usize,
    /// What was not taken.
    pub failures: Vec<Failure>,
}

impl Written {
    fn take(&mut self, results: Vec<Result<(), Failure>>) {
        for result in results {
            match result {
                Ok(()) => self.count += 1,
                Err(failure) => self.failures.push(failure),
            }
        }
    }

    /// What they came to together: of several failures the first, and how many more.
    ///
    /// # Errors
    /// When one was not taken.
    pub fn synced(self, wait: Option<Duration>) -> Result<Synced, Failure> {
        let Self { count, failures } = self;
        let more = failures.len().saturating_sub(1);
        // What passes by itself is told after what does not.
        match failures.into_iter().min_by_key(|failure| failure.passing) {
            None => Ok(Synced {
                wrote: count > 0,
                wait,
            }),
            Some(failure) if more == 0 => Err(failure),
            Some(failure) => Err(Failure {
                message: format!("{} ({more} more were not taken)", failure.message),
                ..failure
            }),
        }
    }
}

impl Applier {
    /// Writes with `client`.
    pub fn new(client: Client, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            clock,
            metrics,
        }
    }

    /// Objects of one kind, some at once: one that is slow to be taken holds up none of the others.
    pub async fn put_all<K: DiscoveryObject>(
        &self,
        cache: &Cache<K>,
        objects: Vec<Desired>,
        written: &mut Written,
    ) {
        let put: Vec<_> = futures::stream::iter(objects)
            .map(|object| self.put(cache, object))
            .buffer_unordered(WRITES_AT_ONCE)
            .collect()
            .await;
        written.take(put);
    }

    async fn put<K: DiscoveryObject>(
        &self,
        cache: &Cache<K>,
        desired: Desired,
    ) -> Result<(), Failure> {
        let kind = K::kind(&());
        let live: Option<Arc<K>> = cache.get(&desired.key);
        let live = live.as_deref().map(Resource::meta);
        let applied = apply(&self.client, labels::HUB, &desired, live).await;
        let applied = applied.map_err(|error| failure(&error))?;
        tracing::info!(%kind, object = %desired.key, "applied");
        self.metrics.wrote();
        // What can't be read back comes with the watch.
        if let Ok(applied) = applied.try_parse::<K>() {
            cache.note(applied);
        }
        Ok(())
    }

    /// Deletes objects of a namespace, those of one kind at once, and none of a later kind after one that was not taken.
    pub async fn delete_all(
        &self,
        caches: &Caches,
        namespace: &str,
        references: &[Reference],
        written: &mut Written,
    ) {
        for of_kind in references.chunk_by(|a, b| a.kind == b.kind) {
            if !written.failures.is_empty() {
                return;
            }
            let of_kind = of_kind.to_vec();
            let deleted: Vec<_> = futures::stream::iter(of_kind)
                .map(|reference| self.delete(caches, namespace, reference))
                .buffer_unordered(WRITES_AT_ONCE)
                .collect()
                .await;
            written.take(deleted);
        }
    }

    async fn delete(
        &self,
        caches: &Caches,
        namespace: &str,
        Reference { kind, name, uid }: Reference,
    ) -> Result<(), Failure> {
        let resource = match kind {
            Kind::Route => ApiResource::erase::<HttpRoute>(&()),
            Kind::Slice => ApiResource::erase::<EndpointSlice>(&()),
            Kind::Service => ApiResource::erase::<Service>(&()),
        };
        let key = ObjectKey::new(namespace, name);
        let propagation = PropagationPolicy::Background;
        delete(&self.client, &resource, &key, &uid, propagation)
            .await
            .map_err(|error| failure(&error))?;
        tracing::info!(kind = resource.kind, object = %key, "deleted");
        let now = self.clock.now();
        match kind {
            Kind::Route => caches.routes.leave(&key, &uid, now),
            Kind::Slice => caches.slices.leave(&key, &uid, now),
            Kind::Service => caches.services.leave(&key, &uid, now),
        }
        Ok(())
    }
}

/// The objects that are to be written. Those that can't be are failures.
pub fn differing<K: DiscoveryObject>(
    cache: &Cache<K>,
    objects: &[K],
    written: &mut Written,
) -> Vec<Desired> {
    let mut differing = Vec::new();
    for object in objects {
        match Desired::new(object) {
            Ok(desired) => {
                let live = cache.get(&desired.key);
                if live.is_none_or(|live| desired.differs_from(live.meta(), labels::HUB)) {
                    differing.push(desired);
                }
            }
            Err(error) => written.failures.push(Failure {
                reason: reason::APPLY_REFUSED.to_owned(),
                message: format!("{} can't be encoded: {error}", K::kind(&())),
                passing: false,
            }),
        }
    }
    differing
}

fn failure(error: &Error) -> Failure {
    let passing = error.retry() == Retry::Later;
    let reason = match error {
        Error::NameConflict { .. } => reason::NAME_CONFLICT,
        Error::Apply { .. } | Error::Delete { .. } if passing => reason::APPLY_FAILED,
        Error::Apply { .. } | Error::Delete { .. } => reason::APPLY_REFUSED,
    };
    tracing::warn!(error = error.sentence(), "not applied");
    Failure {
        reason: reason.to_owned(),
        message: error.sentence(),
        passing,
    }
}
