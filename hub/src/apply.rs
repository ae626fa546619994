//! The plan's objects, written where they differ from what is there. Decides nothing.

use std::{fmt::Debug, sync::Arc, time::Duration};

use crds::{labels, reason};
use futures::StreamExt;
use gateway_api::httproutes::HttpRoute;
use hub_plan::{
    Plan,
    facts::{Failure, Kind, Reference},
};
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
    ownership::Desired,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    clock::{Clock, Pace},
    metrics::Metrics,
    observe::Caches,
};

/// Objects of one server that are written at once.
const WRITES_AT_ONCE: usize = 16;

/// The kinds that a plan has.
trait DiscoveryObject:
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

/// A slice that has just been written waits this long for its next write: what changes meanwhile goes with it.
const COALESCE: Duration = Duration::from_secs(1);

/// Writes discovery objects.
pub struct Applier {
    client: Client,
    caches: Caches,
    metrics: Arc<Metrics>,
    /// Of the writes of each slice.
    pace: Pace<ObjectKey>,
}

/// What became of a plan.
#[derive(Debug, Default)]
pub struct Applied {
    /// What the API server did not take.
    pub failures: Vec<Failure>,
    /// The rest of the plan waits for that long.
    pub postponed: Option<Duration>,
}

impl Applier {
    /// Writes with `client`, compares with `caches`.
    pub fn new(client: Client, caches: Caches, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            caches,
            metrics,
            pace: Pace::new(clock, COALESCE),
        }
    }

    /// Writes what differs: Services, then slices, then the routes that name them; then deletes what is surplus, routes
    /// first. What a route names exists before it and goes after it: so no route is written over a Service that was refused,
    /// and nothing that a route may still name is deleted while one can't be changed.
    ///
    /// A slice's first change is written at once; what follows within a second is written then, and so is all that comes after
    /// slices.
    pub async fn apply(&self, key: &ObjectKey, plan: &Plan) -> Applied {
        let Plan {
            services,
            slices,
            routes,
            surplus,
            release: _,
            unconfirmed: _,
            status: _,
            due: _,
        } = plan;
        let (services, mut failures) = differing(&self.caches.services, services);
        failures.extend(self.put_all(&self.caches.services, services).await);
        let (mut slices, refused) = differing(&self.caches.slices, slices);
        failures.extend(refused);
        let mut postponed = None;
        slices.retain(|slice| {
            let wait = self.pace.wait(slice.key.clone());
            postponed = postponed.max(wait);
            wait.is_none()
        });
        failures.extend(self.put_all(&self.caches.slices, slices).await);
        if !failures.is_empty() || postponed.is_some() {
            return Applied {
                failures,
                postponed,
            };
        }
        let (routes, mut failures) = differing(&self.caches.routes, routes);
        failures.extend(self.put_all(&self.caches.routes, routes).await);
        for reference in surplus {
            if !failures.is_empty() {
                break;
            }
            failures.extend(self.delete(key, reference).await);
        }
        Applied {
            failures,
            postponed: None,
        }
    }

    /// Objects of one kind, some at once: one that is slow to be taken holds up none of the others.
    async fn put_all<K: DiscoveryObject>(
        &self,
        cache: &Cache<K>,
        objects: Vec<Desired>,
    ) -> Vec<Failure> {
        let written: Vec<_> = futures::stream::iter(objects)
            .map(|object| self.put(cache, object))
            .buffer_unordered(WRITES_AT_ONCE)
            .collect()
            .await;
        written.into_iter().flatten().collect()
    }

    async fn put<K: DiscoveryObject>(&self, cache: &Cache<K>, desired: Desired) -> Option<Failure> {
        let kind = K::kind(&());
        let live: Option<Arc<K>> = cache.get(&desired.key);
        match apply(
            &self.client,
            labels::HUB,
            &desired,
            live.as_deref().map(Resource::meta),
        )
        .await
        {
            Ok(written) => {
                tracing::info!(%kind, object = %desired.key, "applied");
                self.metrics.wrote();
                // What can't be read back comes with the watch.
                if let Ok(written) = written.try_parse::<K>() {
                    cache.note(written);
                }
                None
            }
            Err(error) => Some(failure(&kind, &error)),
        }
    }

    async fn delete(&self, server: &ObjectKey, reference: &Reference) -> Option<Failure> {
        let Reference { kind, name, uid } = reference;
        let resource = match kind {
            Kind::Route => ApiResource::erase::<HttpRoute>(&()),
            Kind::Slice => ApiResource::erase::<EndpointSlice>(&()),
            Kind::Service => ApiResource::erase::<Service>(&()),
        };
        let key = ObjectKey::new(&server.namespace, name);
        match delete(
            &self.client,
            &resource,
            &key,
            uid,
            PropagationPolicy::Background,
        )
        .await
        {
            Ok(()) => {
                tracing::info!(kind = resource.kind, object = %key, "deleted");
                None
            }
            Err(error) => Some(failure(&resource.kind, &error)),
        }
    }
}

/// The objects that are to be written, and those that can't be.
fn differing<K: DiscoveryObject>(cache: &Cache<K>, objects: &[K]) -> (Vec<Desired>, Vec<Failure>) {
    let (mut differing, mut failures) = (Vec::new(), Vec::new());
    for object in objects {
        match Desired::new(object) {
            Ok(desired) => {
                let live = cache.get(&desired.key);
                if live.is_none_or(|live| desired.differs_from(live.meta(), labels::HUB)) {
                    differing.push(desired);
                }
            }
            Err(error) => failures.push(Failure {
                kind: K::kind(&()).into_owned(),
                reason: reason::APPLY_REFUSED,
                message: format!("{} can't be encoded: {error}", K::kind(&())),
                passing: false,
            }),
        }
    }
    (differing, failures)
}

fn failure(kind: &str, error: &Error) -> Failure {
    let passing = error.retry() == Retry::Later;
    let reason = match error {
        Error::NameConflict { .. } => reason::NAME_CONFLICT,
        Error::Apply { .. } | Error::Delete { .. } if passing => reason::APPLY_FAILED,
        Error::Apply { .. } | Error::Delete { .. } => reason::APPLY_REFUSED,
    };
    tracing::warn!(error = error.sentence(), "not applied");
    Failure {
        kind: kind.to_owned(),
        reason,
        message: error.sentence(),
        passing,
    }
}
