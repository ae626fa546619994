//! Writes what a plan says and nothing else: each object that differs, and each removal. Decides nothing.

use std::{fmt, sync::Arc};

use agent_plan::{Kind, Object, ObjectId, Outcome, Outcomes, PlacementPlan};
use crds::{labels, reason};
use kube::{
    Client, Resource, ResourceExt,
    api::{ApiResource, PropagationPolicy},
};
use operator::{
    apply::{self, Retry},
    cache::{Cache, ObjectKey},
    ownership::{Desired, controller},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::observe::Caches;

/// What became of a plan.
#[derive(Debug)]
pub(crate) struct Applied {
    /// Of each object.
    pub(crate) outcomes: Outcomes,
    /// Some write failed: worth another try later.
    pub(crate) failed: bool,
}

/// The objects that the placement of this UID controls, of every kind that a plan can have.
pub(crate) fn owned(caches: &Caches, uid: &str) -> Vec<ObjectId> {
    fn of<K>(cache: &Cache<K>, kind: Kind, uid: &str) -> Vec<ObjectId>
    where
        K: Resource<DynamicType = ()>,
    {
        let owned = cache.filter(|object| is_controlled_by(object, uid));
        let names = owned.iter().map(|object| object.name_any());
        names.map(|name| ObjectId { kind, name }).collect()
    }
    Kind::ALL
        .into_iter()
        .flat_map(|kind| match kind {
            Kind::ServiceAccount => of(&caches.service_accounts, kind, uid),
            Kind::ConfigMap => of(&caches.config_maps, kind, uid),
            Kind::Deployment => of(&caches.deployments, kind, uid),
            Kind::Service => of(&caches.services, kind, uid),
            Kind::HttpRoute => of(&caches.routes, kind, uid),
        })
        .collect()
}

/// Is the object's controller of this UID?
pub(crate) fn is_controlled_by(object: &impl ResourceExt, uid: &str) -> bool {
    controller(object.meta()).is_some_and(|owner| owner.uid == uid)
}

/// Applies the plan of the placement in `namespace`. One object's failure keeps no other from being written.
pub(crate) async fn apply(
    client: &Client,
    caches: &Caches,
    namespace: &str,
    plan: &PlacementPlan,
) -> Applied {
    let mut applied = Applied {
        outcomes: Outcomes::new(),
        failed: false,
    };
    for object in &plan.objects {
        let outcome = match object {
            Object::ServiceAccount(object) => write(client, &caches.service_accounts, object).await,
            Object::ConfigMap(object) => write(client, &caches.config_maps, object).await,
            Object::Deployment(object) => write(client, &caches.deployments, &**object).await,
            Object::Service(object) => write(client, &caches.services, &**object).await,
            Object::HttpRoute(object) => write(client, &caches.routes, &**object).await,
        };
        applied.failed |= outcome != Outcome::Current;
        applied.outcomes.insert(object.id(), outcome);
    }
    for id in &plan.removals {
        let key = ObjectKey::new(namespace, id.name.as_str());
        let removed = match id.kind {
            Kind::ServiceAccount => remove(client, &caches.service_accounts, &key).await,
            Kind::ConfigMap => remove(client, &caches.config_maps, &key).await,
            Kind::Deployment => remove(client, &caches.deployments, &key).await,
            Kind::Service => remove(client, &caches.services, &key).await,
            Kind::HttpRoute => remove(client, &caches.routes, &key).await,
        };
        if let Err(error) = removed {
            tracing::warn!(error = error.sentence(), "removal failed");
            applied.failed = true;
        }
    }
    applied
}

async fn write<K>(client: &Client, cache: &Cache<K>, object: &K) -> Outcome
where
    K: Resource<DynamicType = ()>
        + Serialize
        + DeserializeOwned
        + Clone
        + fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let desired = match Desired::new(object) {
        Ok(desired) => desired,
        Err(error) => return refused(reason::APPLY_REFUSED, error.to_string()),
    };
    let live = cache.get(&desired.key);
    let live = live.as_deref().map(Resource::meta);
    if live.is_some_and(|live| !desired.differs_from(live, labels::AGENT)) {
        return Outcome::Current;
    }
    match apply::apply(client, labels::AGENT, &desired, live).await {
        Ok(written) => {
            tracing::info!(kind = desired.resource.kind, object = %desired.key, "applied");
            match written.try_parse::<K>() {
                Ok(written) => {
                    cache.note(written);
                    Outcome::Current
                }
                // The API server holds it; the watch will bring it.
                Err(error) => Outcome::Failed(format!("reading back {}: {error}", desired.key)),
            }
        }
        Err(error) => {
            let message = error.sentence();
            tracing::warn!(error = message, "apply failed");
            match (&error, error.retry()) {
                (apply::Error::NameConflict { .. }, _) => refused(reason::NAME_CONFLICT, message),
                (_, Retry::OnChange) => refused(reason::APPLY_REFUSED, message),
                (_, Retry::Later) => Outcome::Failed(message),
            }
        }
    }
}

const fn refused(reason: &'static str, message: String) -> Outcome {
    Outcome::Refused { reason, message }
}

async fn remove<K>(client: &Client, cache: &Cache<K>, key: &ObjectKey) -> Result<(), apply::Error>
where
    K: Resource<DynamicType = ()>,
{
    // One that is going already needs no second word.
    let Some(live) = cache
        .get(key)
        .filter(|live| live.meta().deletion_timestamp.is_none())
    else {
        return Ok(());
    };
    let live: Arc<K> = live;
    let uid = live.uid().unwrap_or_default();
    let resource = ApiResource::erase::<K>(&());
    tracing::info!(kind = %resource.kind, object = %key, "removing");
    apply::delete(client, &resource, key, &uid, PropagationPolicy::Background).await
}
