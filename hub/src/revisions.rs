//! Records what profiles say, each time that changes, and deletes records that no server has. Decides nothing: `hub-plan` does.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use crds::{
    labels,
    v1alpha1::{AcceleratorProfileSpec, RuntimeProfileSpec},
};
use hub_plan::revisions::{Pins, Profile, ProfileKind, ProfileName, Revision, record, record_name};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{
    Client, ResourceExt,
    api::{ApiResource, PropagationPolicy},
};
use operator::{
    apply::{apply, delete},
    cache::ObjectKey,
    ownership::Desired,
    wake::Next,
};

use crate::{
    metrics::Metrics,
    observe::{Caches, Wakeups},
};

/// Keeps the records of profiles.
pub(crate) struct Keeper {
    pub(crate) client: Client,
    /// The hub's own: records are kept there.
    pub(crate) namespace: String,
    pub(crate) caches: Caches,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Keeper {
    /// Makes the records of one profile right.
    pub(crate) async fn reconcile(self: Arc<Self>, profile: ProfileName) -> Next {
        let kept = match profile.kind {
            ProfileKind::RuntimeProfile => self.keep::<RuntimeProfileSpec>(&profile.name).await,
            ProfileKind::AcceleratorProfile => {
                self.keep::<AcceleratorProfileSpec>(&profile.name).await
            }
        };
        let Err(why) = kept else {
            return Next::Rest;
        };
        tracing::warn!(?profile, error = why, "records not kept");
        Next::Retry
    }

    async fn keep<S: Profile>(&self, name: &str) -> Result<(), String> {
        let used = self.used::<S>(name);
        let upkeep = self.caches.shelved(|shelves| {
            let entry = S::shelf(shelves).entry(name);
            entry.map(|entry| entry.upkeep(&used))
        });
        let Some(upkeep) = upkeep else { return Ok(()) };
        for revision in upkeep.forget {
            self.caches
                .shelve(|shelves| S::shelf_mut(shelves).forget(name, revision));
        }
        for (revision, content) in upkeep.record {
            let written = self.record(name, revision, content.as_ref()).await;
            let failure = written.as_ref().err().cloned();
            let is_news = self
                .caches
                .shelve(|shelves| S::shelf_mut(shelves).fail(name, failure));
            if is_news || written.is_ok() {
                let profile = ProfileName {
                    kind: S::KIND,
                    name: name.to_owned(),
                };
                self.caches.wake_naming(&profile, &self.wakeups);
            }
            written?;
        }
        for revision in upkeep.prune {
            self.delete(&record_name(S::KIND, name, revision)).await?;
        }
        Ok(())
    }

    /// The revisions of a profile that servers are pinned to.
    fn used<S: Profile>(&self, name: &str) -> BTreeSet<Revision> {
        let servers = self.caches.servers.all();
        let used = servers
            .values()
            .filter_map(|server| S::pins(&Pins::of(server)).get(name).copied());
        used.collect()
    }

    async fn record<S: Profile>(
        &self,
        name: &str,
        revision: Revision,
        content: &S,
    ) -> Result<(), String> {
        let object = record(&self.namespace, name, revision, content);
        let desired = object.and_then(|object| Desired::new(&object));
        let desired = desired.map_err(|error| error.to_string())?;
        let written = apply(&self.client, labels::HUB, &desired, None).await;
        let written = written.map_err(|error| error.sentence())?;
        tracing::info!(object = %desired.key, "recorded");
        self.metrics.wrote();
        if let Ok(written) = written.try_parse::<ControllerRevision>() {
            self.caches.shelve(|shelves| shelves.take(&written, true));
            self.caches.records.note(written);
        }
        Ok(())
    }

    async fn delete(&self, name: &str) -> Result<(), String> {
        let key = ObjectKey::new(self.namespace.as_str(), name);
        let Some(object) = self.caches.records.get(&key) else {
            return Ok(());
        };
        let uid = object.uid().unwrap_or_default();
        let resource = ApiResource::erase::<ControllerRevision>(&());
        let propagation = PropagationPolicy::Background;
        let deleted = delete(&self.client, &resource, &key, &uid, propagation).await;
        deleted.map_err(|error| error.sentence())?;
        tracing::info!(object = %key, "deleted: no server has it");
        Ok(())
    }
}
