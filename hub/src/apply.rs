//! Objects of a plan, written where they differ from what is there. Decides nothing.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt::Debug, sync::Arc, time::Duration};

use crds::{labels, reason, v1alpha1::InferenceServer};
use futures::StreamExt;
use gateway_api::httproutes::HttpRoute;
use hub_plan::facts::{Kind, Reference};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Client, Resource, ResourceExt,
    api::{ApiResource, PropagationPolicy},
};
use operator::{
    apply::{Error, Retry, apply, delete, replace},
    cache::{Cache, ObjectKey},
    conditions::{Again, Failure},
    ownership::Desired,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{clock::Clock, endpoints::Synced, metrics::Metrics, observe::Caches};

/// Objects of one server that are written at once.
const WRITES_AT_ONCE: usize = 16;

/// Whatever is not told to go yet.
pub(crate) fn stays(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_none()
}

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
    /// Can it be changed to that? If not it is deleted, and written anew.
    fn can_become(&self, _desired: &Desired) -> bool {
        true
    }
}

impl DiscoveryObject for Service {}
impl DiscoveryObject for EndpointSlice {
    /// The family of a slice never changes.
    fn can_become(&self, desired: &Desired) -> bool {
        desired
            .field("addressType")
            .is_some_and(|family| *family == self.address_type)
    }
}
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
    /// The objects among that.
    pub refused: BTreeSet<ObjectKey>,
}

impl Written {
    fn take(&mut self, results: Vec<(ObjectKey, Result<(), Failure>)>) {
        for (key, result) in results {
            match result {
                Ok(()) => self.count += 1,
                Err(failure) => {
                    self.failures.push(failure);
                    self.refused.insert(key);
                }
            }
        }
    }

    /// What they came to together: of several failures one, and how many more. What was taken beside them is looked at
    /// at once, as ever, and what waits for its turn has it.
    ///
    /// # Errors
    /// When one was not taken.
    pub fn synced(self, wait: Option<Duration>) -> Result<Synced, Failure> {
        let wrote = self.count > 0;
        let more = match self.failures.len() {
            0 | 1 => String::new(),
            several => format!(" ({} more were not taken)", several - 1),
        };
        // What passes by itself is told after what does not; and the same one each time, or else the status never rests.
        let failures = self.failures.into_iter();
        let rank = |a: &Failure, b: &Failure| (a.passing, &a.message).cmp(&(b.passing, &b.message));
        match failures.min_by(rank) {
            None => Ok(Synced { wrote, wait }),
            Some(failure) => Err(Failure {
                message: format!("{}{more}", failure.message),
                again: Again::beside(wrote, wait),
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
            .map(|object| async move { (object.key.clone(), self.put(cache, object).await) })
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
        let applied = match live {
            Some(live) if !live.can_become(&desired) => {
                replace(&self.client, labels::HUB, &desired, live.meta()).await
            }
            live => {
                let live = live.as_deref().map(Resource::meta);
                apply(&self.client, labels::HUB, &desired, live).await
            }
        };
        let applied = applied.map_err(|error| failure(&error))?;
        tracing::info!(%kind, object = %desired.key, "applied");
        self.metrics.wrote();
        // What can't be read back comes with the watch.
        if let Ok(applied) = applied.try_parse::<K>() {
            cache.note(applied);
        }
        Ok(())
    }

    /// Deletes objects of a namespace: one kind after the other, those of one kind at once. One that is not taken holds up none
    /// of the others.
    pub async fn delete_all(
        &self,
        caches: &Caches,
        namespace: &str,
        references: &[Reference],
        written: &mut Written,
    ) {
        for of_kind in references.chunk_by(|a, b| a.kind == b.kind) {
            let of_kind = of_kind.to_vec();
            let deleted: Vec<_> = futures::stream::iter(of_kind)
                .map(|reference| self.delete(caches, namespace, reference))
                .buffer_unordered(WRITES_AT_ONCE)
                .collect()
                .await;
            written.take(deleted);
        }
    }

    /// Deletes objects of a server's namespace, as [`Self::delete_all`], and says what that came to.
    ///
    /// # Errors
    /// When one was not taken.
    pub async fn clear(
        &self,
        caches: &Caches,
        server: &InferenceServer,
        references: &[Reference],
    ) -> Result<Synced, Failure> {
        let namespace = server.namespace().unwrap_or_default();
        let mut written = Written::default();
        self.delete_all(caches, &namespace, references, &mut written)
            .await;
        written.synced(None)
    }

    async fn delete(
        &self,
        caches: &Caches,
        namespace: &str,
        Reference { kind, name, uid }: Reference,
    ) -> (ObjectKey, Result<(), Failure>) {
        let resource = match kind {
            Kind::Route => ApiResource::erase::<HttpRoute>(&()),
            Kind::Slice => ApiResource::erase::<EndpointSlice>(&()),
            Kind::Service => ApiResource::erase::<Service>(&()),
        };
        let key = ObjectKey::new(namespace, name);
        let propagation = PropagationPolicy::Background;
        if let Err(error) = delete(&self.client, &resource, &key, &uid, propagation).await {
            return (key, Err(failure(&error)));
        }
        tracing::info!(kind = resource.kind, object = %key, "deleted");
        let now = self.clock.now();
        match kind {
            Kind::Route => caches.routes.leave(&key, &uid, now),
            Kind::Slice => caches.slices.leave(&key, &uid, now),
            Kind::Service => caches.services.leave(&key, &uid, now),
        }
        (key, Ok(()))
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
                again: Again::OnEvent,
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
    tracing::warn!(object = %error.key(), error = error.sentence(), "not applied");
    Failure {
        reason: reason.to_owned(),
        message: error.sentence(),
        passing,
        again: Again::OnEvent,
    }
}
