//! The hub's own API server, as watch caches. A change wakes the servers and clusters that it concerns, and says no more.

mod profiles;
mod schema;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
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
use hub_plan::facts::RouteSchema;
use k8s_openapi::api::{
    core::v1::{Namespace, Service},
    discovery::v1::EndpointSlice,
};
use kube::{Api, Client, Resource, ResourceExt, runtime::watcher};
use operator::{
    cache::{Cache, Change, ObjectKey},
    ownership::{belongs_to, strip_metadata, trim_metadata},
    wake::SharedWakes,
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

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

/// Whom changes wake, and which servers target which cluster.
#[derive(Debug, Default)]
pub struct Wakeups {
    /// Servers to look at.
    pub servers: SharedWakes<ObjectKey>,
    /// Member clusters whose status may have changed.
    pub members: SharedWakes<String>,
    targets: Index,
    /// The servers that concern each cluster: those too whose status names it, as it does until a former target is done.
    concerned: Index,
}

/// Servers by cluster.
#[derive(Debug, Default)]
struct Index(Mutex<BTreeMap<String, BTreeSet<ObjectKey>>>);

impl Index {
    fn of(&self, cluster: &str) -> BTreeSet<ObjectKey> {
        let by_cluster = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        by_cluster.get(cluster).cloned().unwrap_or_default()
    }

    fn update(&self, server: &ObjectKey, before: &BTreeSet<String>, after: &BTreeSet<String>) {
        let mut by_cluster = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for cluster in before.difference(after) {
            if let Some(servers) = by_cluster.get_mut(cluster) {
                servers.remove(server);
            }
        }
        for cluster in after {
            let servers = by_cluster.entry(cluster.clone()).or_default();
            servers.insert(server.clone());
        }
    }
}

impl Wakeups {
    /// The servers that target a cluster.
    pub fn targeting(&self, cluster: &str) -> BTreeSet<ObjectKey> {
        self.targets.of(cluster)
    }

    /// The servers that target a cluster, or once did and have something left there.
    pub fn concerned(&self, cluster: &str) -> BTreeSet<ObjectKey> {
        self.concerned.of(cluster)
    }

    /// Wakes every server that the cluster concerns.
    pub fn wake_concerned(&self, cluster: &str) {
        for server in self.concerned(cluster) {
            self.servers.wake(server);
        }
    }

    /// Wakes every server.
    pub fn wake_all(&self, servers: &Cache<InferenceServer>) {
        for key in servers.all().into_keys() {
            self.servers.wake(key);
        }
    }

    fn server_changed(&self, change: &Change<'_, InferenceServer>) {
        let targets = |server: Option<&Arc<InferenceServer>>| -> BTreeSet<String> {
            let targets = server
                .iter()
                .flat_map(|server| &server.spec.cluster_targets);
            targets.map(|target| target.cluster_id.clone()).collect()
        };
        let named = |server: Option<&Arc<InferenceServer>>| {
            let status = server.and_then(|server| server.status.as_ref());
            let clusters = status.into_iter().flat_map(|status| &status.clusters);
            clusters
                .map(|cluster| cluster.cluster_id.clone())
                .chain(targets(server))
                .collect()
        };
        let Some(key) = change.each().next().map(ObjectKey::of) else {
            return;
        };
        self.concerned
            .update(&key, &named(change.before), &named(change.after));
        let (before, after) = (targets(change.before), targets(change.after));
        self.targets.update(&key, &before, &after);
        for cluster in before.symmetric_difference(&after) {
            self.members.wake(cluster.clone());
        }
        self.servers.wake(key);
    }

    /// A status that only counts or tells is nothing that a server is planned from.
    fn member_changed(&self, change: &Change<'_, MemberCluster>) {
        let planned_from = |record: &Arc<MemberCluster>| {
            let joined = record
                .status
                .as_ref()
                .is_some_and(|status| status.enrollment.is_some());
            let leaving = record.metadata.deletion_timestamp.is_some();
            (record.uid(), record.spec.clone(), joined, leaving)
        };
        let Some(name) = change.each().next().map(ResourceExt::name_any) else {
            return;
        };
        if change.before.map(planned_from) != change.after.map(planned_from) {
            self.wake_concerned(&name);
        }
        self.members.wake(name);
    }

    /// Wakes the server that a discovery object belongs to, by its label.
    fn object_changed<K: ResourceExt>(&self, change: &Change<'_, K>) {
        for object in change.each() {
            if let Some(server) = object.labels().get(labels::SERVER) {
                self.servers.wake(ObjectKey::new(
                    object.namespace().unwrap_or_default(),
                    server,
                ));
            }
        }
    }
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
        namespaces.synced().await;
        services.synced().await;
        slices.synced().await;
        routes.synced().await;
        gateways.synced().await;
        // A route that is planned before would be written without what its definition can say. The sender lives in `self`.
        drop(route_schema.subscribe().wait_for(Option::is_some).await);
    }

    /// The watches: each future runs until it is dropped.
    pub fn watches(&self, client: &Client, wakeups: &Arc<Wakeups>) -> Vec<BoxFuture<'static, ()>> {
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
            self.watch_profiles(client, wakes()),
            self.watch_accelerators(client, wakes()),
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
