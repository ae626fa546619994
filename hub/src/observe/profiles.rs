//! The profiles that servers name. A change of one wakes who names it.

use std::sync::Arc;

use crds::v1alpha1::{AcceleratorProfile, InferenceServer, RuntimeProfile};
use futures::future::BoxFuture;
use hub_plan::overrides::{Profiles, accelerator_profiles};
use kube::{Api, Client, ResourceExt, runtime::watcher};
use operator::cache::{Change, ObjectKey};

use super::{Caches, Wakeups};

impl Caches {
    /// Those that a server names, and that exist.
    pub fn profiles_of(&self, server: &InferenceServer) -> Profiles {
        let accelerators = accelerator_profiles(server).into_iter();
        let accelerators = accelerators.filter_map(|name| {
            let profile = self.accelerators.get(&ObjectKey::new("", name))?;
            Some((name.to_owned(), profile))
        });
        Profiles {
            runtime: self
                .profiles
                .get(&ObjectKey::new("", &server.spec.runtime.profile)),
            accelerators: accelerators.collect(),
        }
    }

    pub(super) fn watch_profiles(
        &self,
        client: &Client,
        wakeups: Arc<Wakeups>,
    ) -> BoxFuture<'static, ()> {
        let wake = self.whoever_names(wakeups, |server, name| server.spec.runtime.profile == name);
        let changed = move |change: Change<'_, RuntimeProfile>| {
            change.each().for_each(|profile| wake(&profile.name_any()));
        };
        let (api, all) = (Api::all(client.clone()), watcher::Config::default());
        Box::pin(self.profiles.clone().run(api, all, changed))
    }

    pub(super) fn watch_accelerators(
        &self,
        client: &Client,
        wakeups: Arc<Wakeups>,
    ) -> BoxFuture<'static, ()> {
        let wake = self.whoever_names(wakeups, |server, name| {
            accelerator_profiles(server).contains(name)
        });
        let changed = move |change: Change<'_, AcceleratorProfile>| {
            change.each().for_each(|profile| wake(&profile.name_any()));
        };
        let (api, all) = (Api::all(client.clone()), watcher::Config::default());
        Box::pin(self.accelerators.clone().run(api, all, changed))
    }

    /// Wakes the servers that name a profile.
    fn whoever_names(
        &self,
        wakeups: Arc<Wakeups>,
        names: impl Fn(&InferenceServer, &str) -> bool + Send + 'static,
    ) -> impl Fn(&str) + Send + 'static {
        let servers = self.servers.clone();
        move |profile| {
            for server in servers.filter(|server| names(server, profile)) {
                wakeups.servers.wake(ObjectKey::of(server.as_ref()));
            }
        }
    }
}
