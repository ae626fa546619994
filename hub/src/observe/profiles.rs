//! The profiles that servers name, and what is recorded of them. A change of either wakes who names it, and who keeps the
//! records.

use std::{
    fmt::Debug,
    sync::{Arc, PoisonError},
};

use crds::{
    labels,
    v1alpha1::{AcceleratorProfileSpec, InferenceServer, RuntimeProfileSpec},
};
use futures::future::BoxFuture;
use hub_plan::{
    overrides::{Profiles, accelerator_profiles},
    revisions::{self, Pins, Profile, ProfileKind, ProfileName, Shelves},
};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{Api, Client, Resource, ResourceExt, runtime::watcher};
use operator::cache::{Cache, Change, ObjectKey};
use serde::de::DeserializeOwned;

use super::{Caches, Wakeups};

/// An object that has a specification.
pub(super) trait Specified {
    type Spec: Profile + Clone;

    fn specification(&self) -> &Self::Spec;
}

impl Specified for crds::v1alpha1::RuntimeProfile {
    type Spec = RuntimeProfileSpec;

    fn specification(&self) -> &RuntimeProfileSpec {
        &self.spec
    }
}

impl Specified for crds::v1alpha1::AcceleratorProfile {
    type Spec = AcceleratorProfileSpec;

    fn specification(&self) -> &AcceleratorProfileSpec {
        &self.spec
    }
}

impl Caches {
    /// What those that a server names say to it.
    pub fn profiles_of(&self, server: &InferenceServer) -> Profiles {
        self.shelved(|shelves| revisions::profiles(server, shelves))
    }

    /// The revisions that a server is to be pinned to.
    pub fn pins_for(&self, server: &InferenceServer) -> Pins {
        self.shelved(|shelves| revisions::choose(server, shelves))
    }

    /// Looks at what is recorded.
    pub fn shelved<T>(&self, look: impl FnOnce(&Shelves) -> T) -> T {
        look(&self.shelves.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes what is known of the records.
    pub fn shelve<T>(&self, change: impl FnOnce(&mut Shelves) -> T) -> T {
        change(&mut self.shelves.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Wakes the servers that name a profile.
    pub fn wake_naming(&self, profile: &ProfileName, wakeups: &Wakeups) {
        let names = |server: &InferenceServer| match profile.kind {
            ProfileKind::RuntimeProfile => server.spec.runtime.profile == profile.name,
            ProfileKind::AcceleratorProfile => {
                accelerator_profiles(server).contains(profile.name.as_str())
            }
        };
        for server in self.servers.filter(names) {
            wakeups.servers.wake(ObjectKey::of(server.as_ref()));
        }
    }

    /// The watch of one kind of profile.
    pub(super) fn watch_profiles<K>(
        &self,
        profiles: &Cache<K>,
        client: &Client,
        wakeups: Arc<Wakeups>,
    ) -> BoxFuture<'static, ()>
    where
        K: Specified,
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let caches = self.clone();
        let changed = move |change: Change<'_, K>| caches.profile_changed(&change, &wakeups);
        let (api, all) = (Api::all(client.clone()), watcher::Config::default());
        Box::pin(profiles.clone().run(api, all, changed))
    }

    pub(super) fn profile_changed<K: Specified + ResourceExt>(
        &self,
        change: &Change<'_, K>,
        wakeups: &Wakeups,
    ) {
        let Some(name) = change.each().next().map(ResourceExt::name_any) else {
            return;
        };
        let says = change.after;
        let says = says.map(|after| revisions::as_recorded(after.specification()));
        self.shelve(|shelves| K::Spec::shelf_mut(shelves).say(&name, says));
        let kind = K::Spec::KIND;
        self.woken(&ProfileName { kind, name }, wakeups);
    }

    /// The watch of the records, which are in the hub's namespace.
    pub(super) fn watch_records(
        &self,
        client: &Client,
        namespace: &str,
        wakeups: Arc<Wakeups>,
    ) -> BoxFuture<'static, ()> {
        let ours = format!("{}={}", labels::MANAGED_BY, labels::HUB);
        let config = watcher::Config::default().labels(&ours);
        let caches = self.clone();
        let changed = move |change: Change<'_, ControllerRevision>| {
            caches.record_changed(&change, &wakeups);
        };
        let api = Api::namespaced(client.clone(), namespace);
        Box::pin(self.records.clone().run(api, config, changed))
    }

    pub(super) fn record_changed(
        &self,
        change: &Change<'_, ControllerRevision>,
        wakeups: &Wakeups,
    ) {
        let Some(object) = change.after.or(change.before) else {
            return;
        };
        let kept = change.after.is_some();
        if let Some(profile) = self.shelve(|shelves| shelves.take(object, kept)) {
            self.woken(&profile, wakeups);
        } else {
            tracing::warn!(object = object.name_any(), "is no record of a profile");
        }
    }

    fn woken(&self, profile: &ProfileName, wakeups: &Wakeups) {
        wakeups.profiles.wake(profile.clone());
        self.wake_naming(profile, wakeups);
    }
}
