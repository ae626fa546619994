//! The plan's objects, written where they differ from what is there. Decides nothing.

use std::{fmt::Debug, sync::Arc};

use crds::{labels, reason};
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

use crate::observe::Caches;

/// Writes discovery objects.
pub struct Applier {
    client: Client,
    caches: Caches,
}

/// What became of a plan.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What the API server did not take.
    pub failures: Vec<Failure>,
    /// Some of it may be taken later.
    pub retry: bool,
}

impl Outcome {
    fn add(&mut self, kind: &str, error: &Error) {
        let later = error.retry() == Retry::Later;
        let reason = match error {
            Error::NameConflict { .. } => reason::NAME_CONFLICT,
            Error::Apply { .. } | Error::Delete { .. } if later => reason::APPLY_FAILED,
            Error::Apply { .. } | Error::Delete { .. } => reason::APPLY_REFUSED,
        };
        tracing::warn!(error = error.sentence(), "not applied");
        self.retry |= later;
        self.failures.push(Failure {
            kind: kind.to_owned(),
            reason,
            message: error.sentence(),
            passing: later,
        });
    }
}

impl Applier {
    /// Writes with `client`, compares with `caches`.
    pub fn new(client: Client, caches: Caches) -> Self {
        Self { client, caches }
    }

    /// Writes what differs: Services, then slices, then routes; then deletes what is surplus, routes first. One failure
    /// stops nothing else.
    pub async fn apply(&self, key: &ObjectKey, plan: &Plan) -> Outcome {
        let Plan {
            services,
            slices,
            routes,
            surplus,
            release: _,
            status: _,
        } = plan;
        let mut outcome = Outcome::default();
        for service in services {
            self.put(&self.caches.services, service, &mut outcome).await;
        }
        // Slices of many clusters go at once: one that is slow to be taken holds none of the others.
        let slices = slices.iter().map(async |slice| {
            let mut outcome = Outcome::default();
            self.put(&self.caches.slices, slice, &mut outcome).await;
            outcome
        });
        for Outcome { failures, retry } in futures::future::join_all(slices).await {
            outcome.failures.extend(failures);
            outcome.retry |= retry;
        }
        for route in routes {
            self.put(&self.caches.routes, route, &mut outcome).await;
        }
        for reference in surplus {
            self.delete(key, reference, &mut outcome).await;
        }
        outcome
    }

    async fn put<K>(&self, cache: &Cache<K>, object: &K, outcome: &mut Outcome)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Serialize
            + DeserializeOwned
            + Clone
            + Debug
            + Send
            + Sync
            + 'static,
    {
        let kind = K::kind(&());
        let desired = match Desired::new(object) {
            Ok(desired) => desired,
            Err(error) => {
                tracing::error!(%kind, %error, "an object can't be encoded");
                return;
            }
        };
        let live: Option<Arc<K>> = cache.get(&desired.key);
        if live
            .as_ref()
            .is_some_and(|live| !desired.differs_from(live.meta(), labels::HUB))
        {
            return;
        }
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
                // What can't be read back comes with the watch.
                if let Ok(written) = written.try_parse::<K>() {
                    cache.note(written);
                }
            }
            Err(error) => outcome.add(&kind, &error),
        }
    }

    async fn delete(&self, server: &ObjectKey, reference: &Reference, outcome: &mut Outcome) {
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
            Ok(()) => tracing::info!(kind = resource.kind, object = %key, "deleted"),
            Err(error) => outcome.add(&resource.kind, &error),
        }
    }
}
