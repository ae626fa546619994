//! The hub's own API server, as watch caches. A change wakes the servers and clusters that it concerns, and says no more.

mod profiles;
mod schema;
#[cfg(test)]
mod tests;
mod wakeups;

use std::{
    fmt::Debug,
    sync::{Arc, RwLock},
};

use crds::{
    labels,
    v1alpha1::{AcceleratorProfile, InferenceServer, MemberCluster, RuntimeProfile},
};
use futures::future::BoxFuture;
use gateway_api::{
    gateways::{Gateway, GatewaySpec},
    httproutes::HttpRoute,
};
use hub_plan::{facts::RouteSchema, revisions::Shelves};
use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    core::v1::{Namespace, Service},
    discovery::v1::EndpointSlice,
};
use kube::{Api, Client, Resource, ResourceExt, runtime::watcher};
use operator::{
    cache::{Cache, Change, ObjectKey},
    ownership::{belongs_to, strip_metadata, trim_metadata},
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

pub use self::wakeups::Wakeups;

/// Every cache of the hub.
#[derive(Clone, Debug)]
pub struct Caches {
    /// What users want.
    pub servers: Cache<InferenceServer>,
    /// Which clusters there are.
    pub members: Cache<MemberCluster>,
    /// Which runtimes there are.
    pub profiles: Cache<RuntimeProfile>,
    /// Which accelerators there are.
    pub accelerators: Cache<AcceleratorProfile>,
    /// What is recorded of both.
    pub records: Cache<ControllerRevision>,
    /// The same, read.
    shelves: Arc<RwLock<Shelves>>,
    /// The labels of namespaces: by them a MemberCluster says which may target it.
    pub namespaces: Cache<Namespace>,
    /// Our discovery Services.
    pub services: Cache<Service>,
    /// Our EndpointSlices.
    pub slices: Cache<EndpointSlice>,
    /// Our discovery HTTPRoutes.
    pub routes: Cache<HttpRoute>,
    /// The Gateways that they attach to: whether they exist.
    pub gateways: Cache<Gateway>,
    /// What the installed HTTPRoutes can say; `None` until the API server has told.
    pub route_schema: watch::Sender<Option<RouteSchema>>,
}

impl Default for Caches {
    fn default() -> Self {
        Self {
            servers: Cache::new(trim),
            members: Cache::new(trim),
            profiles: Cache::new(trim),
            accelerators: Cache::new(trim),
            records: Cache::new(trim),
            shelves: Arc::default(),
            namespaces: Cache::new(trim_to_labels),
            services: Cache::new(trim),
            slices: Cache::new(trim),
            routes: Cache::optional(trim),
            gateways: Cache::optional(trim_to_name),
            route_schema: watch::Sender::new(None),
        }
    }
}

fn trim<K: ResourceExt>(object: &mut K) {
    trim_metadata(object, labels::HUB);
}

/// Nothing but that it exists is read of it.
fn trim_to_name(gateway: &mut Gateway) {
    gateway.spec = GatewaySpec::default();
    gateway.status = None;
    strip_metadata(gateway);
}

fn trim_to_labels(namespace: &mut Namespace) {
    let labels = namespace.metadata.labels.take();
    namespace.spec = None;
    namespace.status = None;
    strip_metadata(namespace);
    namespace.metadata.labels = labels;
}

impl Caches {
    /// The discovery objects of one server.
    pub fn discovery(&self, server: &InferenceServer) -> hub_plan::facts::Observed {
        hub_plan::facts::Observed {
            services: owned(&self.services, server),
            slices: owned(&self.slices, server),
            routes: self.routes_of(server),
        }
    }

    /// The HTTPRoutes among them.
    pub fn routes_of(&self, server: &InferenceServer) -> Vec<Arc<HttpRoute>> {
        owned(&self.routes, server)
    }

    /// Has every cache held a complete list once?
    pub fn is_synced(&self) -> bool {
        let Self {
            servers,
            members,
            profiles,
            accelerators,
            records,
            shelves: _,
            namespaces,
            services,
            slices,
            routes,
            gateways,
            route_schema,
        } = self;
        servers.is_synced()
            && members.is_synced()
            && profiles.is_synced()
            && accelerators.is_synced()
            && records.is_synced()
            && namespaces.is_synced()
            && services.is_synced()
            && slices.is_synced()
            && routes.is_synced()
            && gateways.is_synced()
            && route_schema.borrow().is_some()
    }

    /// Returns once every cache has held a complete list.
    pub async fn synced(&self) {
        let Self {
            servers,
            members,
            profiles,
            accelerators,
            records,
            shelves: _,
            namespaces,
            services,
            slices,
            routes,
            gateways,
            route_schema,
        } = self;
        servers.synced().await;
        members.synced().await;
        profiles.synced().await;
        accelerators.synced().await;
        records.synced().await;
        namespaces.synced().await;
        services.synced().await;
        slices.synced().await;
        routes.synced().await;
        gateways.synced().await;
        // A route that is planned before would be written without what its definition can say. The sender lives in `self`.
        drop(route_schema.subscribe().wait_for(Option::is_some).await);
    }

    /// The watches: each future runs until it is dropped. `namespace` is the hub's own.
    pub fn watches(
        &self,
        client: &Client,
        namespace: &str,
        wakeups: &Arc<Wakeups>,
    ) -> Vec<BoxFuture<'static, ()>> {
        let all = watcher::Config::default;
        let wakes = || Arc::clone(wakeups);
        let (servers, members) = (wakes(), wakes());
        vec![
            Box::pin(
                self.servers
                    .clone()
                    .run(Api::all(client.clone()), all(), move |change| {
                        servers.server_changed(&change);
                    }),
            ),
            Box::pin(
                self.members
                    .clone()
                    .run(Api::all(client.clone()), all(), move |change| {
                        members.member_changed(&change);
                    }),
            ),
            self.watch_profiles(&self.profiles, client, wakes()),
            self.watch_profiles(&self.accelerators, client, wakes()),
            self.watch_records(client, namespace, wakes()),
            self.watch_namespaces(client, wakes()),
            watch_own(&self.services, client, wakes()),
            watch_own(&self.slices, client, wakes()),
            watch_own(&self.routes, client, wakes()),
            self.watch_gateways(client, wakes()),
            Box::pin(schema::follow(
                Api::all(client.clone()),
                self.clone(),
                Arc::clone(wakeups),
            )),
        ]
    }
}

impl Caches {
    /// Its labels say which clusters the servers of a namespace may target.
    fn watch_namespaces(&self, client: &Client, wakeups: Arc<Wakeups>) -> BoxFuture<'static, ()> {
        let servers = self.servers.clone();
        let changed = move |change: Change<'_, Namespace>| {
            let labels = |namespace: Option<&Arc<Namespace>>| {
                namespace.map(|namespace| namespace.labels().clone())
            };
            let Some(name) = change.each().next().map(ResourceExt::name_any) else {
                return;
            };
            if labels(change.before) != labels(change.after) {
                for server in servers.prefixed(&name, "") {
                    wakeups.servers.wake(ObjectKey::of(server.as_ref()));
                }
            }
        };
        let namespaces = self.namespaces.clone();
        Box::pin(namespaces.run(
            Api::all(client.clone()),
            watcher::Config::default(),
            changed,
        ))
    }

    /// A Gateway that comes or goes is a fact of the servers whose routes attach to it: of all, since most have the hub's.
    fn watch_gateways(&self, client: &Client, wakeups: Arc<Wakeups>) -> BoxFuture<'static, ()> {
        let servers = self.servers.clone();
        let changed = move |change: Change<'_, Gateway>| {
            if change.before.is_some() != change.after.is_some() {
                wakeups.wake_all(&servers);
            }
        };
        let gateways = self.gateways.clone();
        Box::pin(gateways.run(
            Api::all(client.clone()),
            watcher::Config::default(),
            changed,
        ))
    }
}

/// The watch of one kind of discovery object: ours alone, each of which wakes its server.
fn watch_own<K>(cache: &Cache<K>, client: &Client, wakeups: Arc<Wakeups>) -> BoxFuture<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let ours = format!("{}={}", labels::MANAGED_BY, labels::HUB);
    let config = watcher::Config::default().labels(&ours);
    let changed = move |change: Change<'_, K>| wakeups.object_changed(&change);
    Box::pin(cache.clone().run(Api::all(client.clone()), config, changed))
}

/// The objects named after a server that it controls, or that the hub wrote for it and nobody controls any more: it is to have
/// them back. Every name begins with the server's and a hyphen.
fn owned<K: Resource>(cache: &Cache<K>, server: &InferenceServer) -> Vec<Arc<K>> {
    let (namespace, name) = (server.namespace().unwrap_or_default(), server.name_any());
    let uid = server.metadata.uid.as_deref().unwrap_or_default();
    let mut objects = cache.prefixed(&namespace, &format!("{name}-"));
    objects.retain(|object| belongs_to(object.meta(), &name, uid, labels::HUB));
    objects
}
