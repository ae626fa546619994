//! The profiles that servers name. A change of one wakes who names it.

use std::{fmt::Debug, sync::Arc};

use crds::v1alpha1::InferenceServer;
use futures::future::BoxFuture;
use hub_plan::overrides::{Profiles, accelerator_profiles};
use kube::{Api, Client, Resource, ResourceExt, runtime::watcher};
use operator::cache::{Cache, Change, ObjectKey};
use serde::de::DeserializeOwned;

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
        self.watch_named(&self.profiles, client, wakeups, |server, profile| {
            server.spec.runtime.profile == profile
        })
    }

    pub(super) fn watch_accelerators(
        &self,
        client: &Client,
        wakeups: Arc<Wakeups>,
    ) -> BoxFuture<'static, ()> {
        self.watch_named(&self.accelerators, client, wakeups, |server, profile| {
            accelerator_profiles(server).contains(profile)
        })
    }

    /// The watch of one kind of profile.
    fn watch_named<K>(
        &self,
        profiles: &Cache<K>,
        client: &Client,
        wakeups: Arc<Wakeups>,
        names: impl Fn(&InferenceServer, &str) -> bool + Send + 'static,
    ) -> BoxFuture<'static, ()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let servers = self.servers.clone();
        let changed = move |change: Change<'_, K>| {
            for profile in change.each().map(ResourceExt::name_any) {
                for server in servers.filter(|server| names(server, &profile)) {
                    wakeups.servers.wake(ObjectKey::of(server.as_ref()));
                }
            }
        };
        let (api, all) = (Api::all(client.clone()), watcher::Config::default());
        Box::pin(profiles.clone().run(api, all, changed))
    }
}
