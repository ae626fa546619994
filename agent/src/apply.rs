//! Writes what a plan says and nothing else: each object that differs, and each removal. Decides nothing.

use std::{fmt, sync::Arc};

use agent_plan::{Kind, Object, ObjectId, Outcome, Outcomes, PlacementPlan};
use crds::{labels, reason, v1alpha1::ServerPlacement};
use futures::future::join_all;
use kube::{
    Client, Resource, ResourceExt,
    api::{ApiResource, PropagationPolicy},
};
use operator::{
    apply::{self, Retry},
    cache::{Cache, ObjectKey},
    ownership::{Desired, belongs_to},
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

/// Which placement a plan is of.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    namespace: String,
    name: String,
    uid: String,
}

impl Owner {
    pub(crate) fn of(placement: &ServerPlacement) -> Self {
        Self {
            namespace: placement.namespace().unwrap_or_default(),
            name: placement.name_any(),
            uid: placement.uid().unwrap_or_default(),
        }
    }

    /// The object of that name, if the placement controls it, or nobody does any more and it is to have it back. A label or an
    /// owner reference may be anybody's writing: an object in another namespace is never the placement's, whatever it says.
    pub(crate) fn controlled<K>(&self, cache: &Cache<K>, name: &str) -> Option<Arc<K>>
    where
        K: Resource<DynamicType = ()>,
    {
        let live = cache.get(&self.key(name));
        live.filter(|live| self.controls(&**live))
    }

    /// The objects that the placement controls, of every kind that a plan can have. Their names begin with its own.
    pub(crate) fn owned(&self, caches: &Caches) -> Vec<ObjectId> {
        Kind::ALL
            .into_iter()
            .flat_map(|kind| match kind {
                Kind::ServiceAccount => self.ids(&caches.service_accounts, kind),
                Kind::ConfigMap => self.ids(&caches.config_maps, kind),
                Kind::Deployment => self.ids(&caches.deployments, kind),
                Kind::Service => self.ids(&caches.services, kind),
                Kind::PodDisruptionBudget => self.ids(&caches.budgets, kind),
                Kind::HttpRoute => self.ids(&caches.routes, kind),
            })
            .collect()
    }

    /// The objects of one kind that the placement controls.
    pub(crate) fn all<K>(&self, cache: &Cache<K>) -> Vec<Arc<K>>
    where
        K: Resource<DynamicType = ()>,
    {
        let mut near = cache.prefixed(&self.namespace, &self.name);
        near.retain(|object| self.controls(&**object));
        near
    }

    fn ids<K>(&self, cache: &Cache<K>, kind: Kind) -> Vec<ObjectId>
    where
        K: Resource<DynamicType = ()>,
    {
        let owned = self.all(cache);
        let names = owned.iter().map(|object| object.name_any());
        names.map(|name| ObjectId { kind, name }).collect()
    }

    /// Deletes the traffic routes. Returns whether any is still there: where the kind is gone, the cache keeps what it last saw,
    /// and no watch would ever say that it went.
    pub(crate) async fn remove_routes(
        &self,
        client: &Client,
        caches: &Caches,
    ) -> Result<bool, apply::Error> {
        let routes = self.ids(&caches.routes, Kind::HttpRoute);
        for route in &routes {
            remove(client, &caches.routes, self, &route.name).await?;
        }
        Ok(!routes.is_empty() && caches.routes.is_installed())
    }

    /// Takes every sign of ours from what the placement owns.
    pub(crate) async fn disown(
        &self,
        client: &Client,
        caches: &Caches,
    ) -> Result<(), apply::Error> {
        for id in self.owned(caches) {
            let name = id.name.as_str();
            match id.kind {
                Kind::ServiceAccount => self.let_go(client, &caches.service_accounts, name).await?,
                Kind::ConfigMap => self.let_go(client, &caches.config_maps, name).await?,
                Kind::Deployment => self.let_go(client, &caches.deployments, name).await?,
                Kind::Service => self.let_go(client, &caches.services, name).await?,
                Kind::PodDisruptionBudget => self.let_go(client, &caches.budgets, name).await?,
                Kind::HttpRoute => self.let_go(client, &caches.routes, name).await?,
            }
        }
        Ok(())
    }

    async fn let_go<K>(
        &self,
        client: &Client,
        cache: &Cache<K>,
        name: &str,
    ) -> Result<(), apply::Error>
    where
        K: Resource<DynamicType = ()>,
    {
        let Some(live) = self.controlled(cache, name) else {
            return Ok(());
        };
        let resource = ApiResource::erase::<K>(&());
        apply::disown(
            client,
            &resource,
            live.meta(),
            &self.uid,
            labels::MANAGED_BY,
        )
        .await
    }

    fn controls(&self, object: &impl ResourceExt) -> bool {
        belongs_to(object.meta(), &self.name, &self.uid, labels::AGENT)
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.namespace.as_str(), name)
    }
}

/// Applies the plan of a placement: what others name, then those, each at once. One object's failure keeps no other from
/// being written.
pub(crate) async fn apply(
    client: &Client,
    caches: &Caches,
    owner: &Owner,
    plan: &PlacementPlan,
) -> Applied {
    let mut applied = Applied {
        outcomes: Outcomes::new(),
        failed: false,
    };
    for names_others in [false, true] {
        let stage = plan.objects.iter().map(Object::id).zip(&plan.objects);
        let stage = stage.filter(|(id, _)| id.kind.names_others() == names_others);
        let writes = stage.map(async |(id, object)| (id, put(client, caches, object).await));
        applied.outcomes.extend(join_all(writes).await);
    }
    let mut outcomes = applied.outcomes.values();
    applied.failed = outcomes.any(|outcome| *outcome != Outcome::Current);
    for id in &plan.removals {
        let name = id.name.as_str();
        let removed = match id.kind {
            Kind::ServiceAccount => remove(client, &caches.service_accounts, owner, name).await,
            Kind::ConfigMap => remove(client, &caches.config_maps, owner, name).await,
            Kind::Deployment => remove(client, &caches.deployments, owner, name).await,
            Kind::Service => remove(client, &caches.services, owner, name).await,
            Kind::PodDisruptionBudget => remove(client, &caches.budgets, owner, name).await,
            Kind::HttpRoute => remove(client, &caches.routes, owner, name).await,
        };
        if let Err(error) = removed {
            tracing::warn!(object = %error.key(), error = error.sentence(), "removal failed");
            applied.failed = true;
        }
    }
    applied
}

async fn put(client: &Client, caches: &Caches, object: &Object) -> Outcome {
    match object {
        Object::ServiceAccount(object) => write(client, &caches.service_accounts, object).await,
        Object::ConfigMap(object) => write(client, &caches.config_maps, object).await,
        Object::Deployment(object) => write(client, &caches.deployments, &**object).await,
        Object::Service(object) => write(client, &caches.services, &**object).await,
        Object::PodDisruptionBudget(object) => write(client, &caches.budgets, &**object).await,
        Object::HttpRoute(object) => write(client, &caches.routes, &**object).await,
    }
}

/// Which objects of a plan are as planned already, as far as the caches know. The others are still to be applied.
pub(crate) fn found(caches: &Caches, plan: &PlacementPlan) -> Outcomes {
    let is_found = |object: &&Object| match object {
        Object::ServiceAccount(object) => is_current(&caches.service_accounts, object),
        Object::ConfigMap(object) => is_current(&caches.config_maps, object),
        Object::Deployment(object) => is_current(&caches.deployments, &**object),
        Object::Service(object) => is_current(&caches.services, &**object),
        Object::PodDisruptionBudget(object) => is_current(&caches.budgets, &**object),
        Object::HttpRoute(object) => is_current(&caches.routes, &**object),
    };
    let found = plan.objects.iter().filter(is_found);
    found
        .map(|object| (object.id(), Outcome::Current))
        .collect()
}

fn is_current<K>(cache: &Cache<K>, object: &K) -> bool
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let Ok(desired) = Desired::new(object) else {
        return false;
    };
    let live = cache.get(&desired.key);
    live.is_some_and(|live| !desired.differs_from(live.meta(), labels::AGENT))
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
            tracing::warn!(object = %desired.key, error = message, "apply failed");
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

/// Deletes the object of that name, if the owner controls it: whatever a plan says, nobody else's is touched.
async fn remove<K>(
    client: &Client,
    cache: &Cache<K>,
    owner: &Owner,
    name: &str,
) -> Result<(), apply::Error>
where
    K: Resource<DynamicType = ()>,
{
    // One that is going already needs no second word.
    let Some(live) = owner
        .controlled(cache, name)
        .filter(|live| live.meta().deletion_timestamp.is_none())
    else {
        return Ok(());
    };
    let key = &owner.key(name);
    let uid = live.uid().unwrap_or_default();
    let resource = ApiResource::erase::<K>(&());
    tracing::info!(kind = %resource.kind, object = %key, "removing");
    apply::delete(client, &resource, key, &uid, PropagationPolicy::Background).await
}
