//! The watches. Owns a cache per kind, trimmed to what is read, and knows which placements a change concerns. Must not
//! write.

mod sources;

use std::{collections::BTreeSet, future::Future, pin::Pin, sync::Arc};

use agent_plan::effective_gateway;
use crds::{
    labels,
    v1alpha1::{GatewayReference, ServerPlacement},
};
use gateway_api::{gateways::Gateway, httproutes::HttpRoute};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Pod, Service, ServiceAccount},
    node::v1::RuntimeClass,
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, Client, Resource, ResourceExt, runtime::watcher};
use operator::{
    cache::{Cache, Change, ObjectKey},
    ownership::{strip_metadata, trim_metadata},
    wake::SharedWakes,
};
use proto::PlacementKey;

pub(crate) use self::sources::Sources;

/// A watch, to be spawned.
pub(crate) type Watch = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the agent knows of its cluster.
#[derive(Clone, Debug)]
pub(crate) struct Caches {
    pub(crate) placements: Cache<ServerPlacement>,
    pub(crate) service_accounts: Cache<ServiceAccount>,
    pub(crate) config_maps: Cache<ConfigMap>,
    pub(crate) deployments: Cache<Deployment>,
    pub(crate) services: Cache<Service>,
    pub(crate) budgets: Cache<PodDisruptionBudget>,
    pub(crate) routes: Cache<HttpRoute>,
    pub(crate) pods: Cache<Pod>,
    pub(crate) gateways: Cache<Gateway>,
    pub(crate) namespaces: Cache<Namespace>,
    pub(crate) runtime_classes: Cache<RuntimeClass>,
    /// Filled only while some placement asks for it, so not waited for.
    pub(crate) sources: Sources,
}

impl Default for Caches {
    fn default() -> Self {
        Self {
            placements: Cache::new(trim),
            service_accounts: Cache::new(trim),
            config_maps: Cache::new(|map: &mut ConfigMap| {
                trim(map);
                map.data = None;
            }),
            deployments: Cache::new(trim_deployment),
            services: Cache::new(|service: &mut Service| {
                trim(service);
                service.spec = None;
                service.status = None;
            }),
            budgets: Cache::new(|budget: &mut PodDisruptionBudget| {
                trim(budget);
                budget.spec = None;
                budget.status = None;
            }),
            routes: Cache::optional(trim),
            pods: Cache::new(|pod: &mut Pod| {
                trim(pod);
                pod.spec = None;
            }),
            gateways: Cache::optional(trim),
            namespaces: Cache::new(|namespace: &mut Namespace| {
                trim(namespace);
                namespace.spec = None;
                namespace.status = None;
            }),
            runtime_classes: Cache::new(|class: &mut RuntimeClass| {
                strip_metadata(class);
                (class.overhead, class.scheduling) = (None, None);
            }),
            sources: Sources::default(),
        }
    }
}

/// Of its specification nothing is read but the RuntimeClass of the Pods.
fn trim_deployment(deployment: &mut Deployment) {
    trim(deployment);
    let spec = deployment.spec.take();
    let class = spec
        .and_then(|spec| spec.template.spec)
        .and_then(|pod| pod.runtime_class_name);
    if class.is_some() {
        let kept = deployment.spec.get_or_insert_default();
        kept.template
            .spec
            .get_or_insert_default()
            .runtime_class_name = class;
    }
}

fn trim(object: &mut impl ResourceExt) {
    trim_metadata(object, labels::AGENT);
}

/// The placement that a ServerPlacement is; `None` for names that no hub gives.
pub(crate) fn key_of(placement: &ServerPlacement) -> Option<PlacementKey> {
    PlacementKey::new(placement.namespace()?, placement.name_any()).ok()
}

/// The placement that an object says it serves.
fn labelled_key(object: &impl ResourceExt) -> Option<PlacementKey> {
    let name = object.labels().get(labels::SERVER)?;
    PlacementKey::new(object.namespace()?, name).ok()
}

impl Caches {
    /// All watches. Each wakes the placements that a change concerns.
    pub(crate) fn watches(
        &self,
        client: &Client,
        default_gateway: Option<&GatewayReference>,
        wakes: &SharedWakes<PlacementKey>,
        namespace_changed: impl Fn(&str) + Send + Sync + 'static,
    ) -> Vec<Watch> {
        let ours = format!("{}={}", labels::MANAGED_BY, labels::AGENT);
        let by_placement = |wakes: &SharedWakes<PlacementKey>| {
            let (wakes, sources) = (Arc::clone(wakes), self.sources.clone());
            move |change: Change<'_, ServerPlacement>| {
                sources.placement_changed(change.after);
                change
                    .each()
                    .filter_map(key_of)
                    .for_each(|key| wakes.wake(key));
            }
        };
        let all = watcher::Config::default;
        let [services, nodes] = self.sources.watches(client, &self.placements, wakes);
        vec![
            services,
            nodes,
            watch(&self.placements, client, all(), by_placement(wakes)),
            watch(
                &self.service_accounts,
                client,
                all().labels(&ours),
                by_label(wakes),
            ),
            watch(
                &self.config_maps,
                client,
                all().labels(&ours),
                by_label(wakes),
            ),
            watch(
                &self.deployments,
                client,
                all().labels(&ours),
                by_label(wakes),
            ),
            watch(&self.services, client, all().labels(&ours), by_label(wakes)),
            watch(&self.budgets, client, all().labels(&ours), by_label(wakes)),
            watch(&self.routes, client, all().labels(&ours), by_label(wakes)),
            watch(
                &self.runtime_classes,
                client,
                all(),
                self.by_runtime_class(wakes),
            ),
            watch(
                &self.pods,
                client,
                all().labels(labels::SERVER),
                by_label(wakes),
            ),
            watch(
                &self.gateways,
                client,
                all(),
                self.by_gateway(default_gateway, wakes),
            ),
            watch(
                &self.namespaces,
                client,
                all(),
                move |change: Change<'_, Namespace>| {
                    change
                        .each()
                        .for_each(|one| namespace_changed(&one.name_any()));
                },
            ),
        ]
    }

    /// Wakes whoever uses the Gateway. A change of what nobody reads wakes too: it plans the same again.
    fn by_gateway(
        &self,
        default_gateway: Option<&GatewayReference>,
        wakes: &SharedWakes<PlacementKey>,
    ) -> impl Fn(Change<'_, Gateway>) + Send + use<> {
        let (placements, wakes) = (self.placements.clone(), Arc::clone(wakes));
        let default_gateway = default_gateway.cloned();
        move |change| {
            let Some(gateway) = change.each().next().map(ObjectKey::of) else {
                return;
            };
            let users = placements.filter(|placement| {
                let used = effective_gateway(placement, default_gateway.as_ref());
                used.is_some_and(|used| {
                    used.namespace == gateway.namespace && used.name == gateway.name
                })
            });
            users
                .iter()
                .filter_map(|placement| key_of(placement))
                .for_each(|key| wakes.wake(key));
        }
    }

    /// Wakes whoever has an accelerator: which RuntimeClass its Pods have may depend on which there are.
    fn by_runtime_class(
        &self,
        wakes: &SharedWakes<PlacementKey>,
    ) -> impl Fn(Change<'_, RuntimeClass>) + Send + use<> {
        let (placements, wakes) = (self.placements.clone(), Arc::clone(wakes));
        move |change| {
            if change.before.is_some() == change.after.is_some() {
                return;
            }
            let users = placements.filter(|placement| placement.spec.accelerator.is_some());
            users
                .iter()
                .filter_map(|placement| key_of(placement))
                .for_each(|key| wakes.wake(key));
        }
    }

    /// The RuntimeClasses that there are, for a placement with an accelerator.
    pub(crate) fn runtime_classes(&self, placement: &ServerPlacement) -> BTreeSet<String> {
        if placement.spec.accelerator.is_none() {
            return BTreeSet::new();
        }
        let all = self.runtime_classes.all().into_keys();
        all.map(|key| key.name).collect()
    }

    /// Returns once every cache has held a complete list.
    pub(crate) async fn synced(&self) {
        self.placements.synced().await;
        self.service_accounts.synced().await;
        self.config_maps.synced().await;
        self.deployments.synced().await;
        self.services.synced().await;
        self.budgets.synced().await;
        self.routes.synced().await;
        self.pods.synced().await;
        self.gateways.synced().await;
        self.namespaces.synced().await;
        self.runtime_classes.synced().await;
    }

    /// Has every cache held a complete list?
    pub(crate) fn is_synced(&self) -> bool {
        self.placements.is_synced()
            && self.service_accounts.is_synced()
            && self.config_maps.is_synced()
            && self.deployments.is_synced()
            && self.services.is_synced()
            && self.budgets.is_synced()
            && self.routes.is_synced()
            && self.pods.is_synced()
            && self.gateways.is_synced()
            && self.namespaces.is_synced()
            && self.runtime_classes.is_synced()
    }

    /// Is the Gateway API there?
    pub(crate) fn has_gateway_api(&self) -> bool {
        self.gateways.is_installed() && self.routes.is_installed()
    }
}

/// Wakes every placement when the Gateway API appears or goes: no object changes by that.
pub(crate) fn follow_gateway_api(caches: &Caches, wakes: &SharedWakes<PlacementKey>) -> Watch {
    let (placements, wakes) = (caches.placements.clone(), Arc::clone(wakes));
    let (mut gateways, mut routes) = (caches.gateways.installed(), caches.routes.installed());
    Box::pin(async move {
        // The caches are alive as long as their watches are.
        while tokio::select! {
            changed = gateways.changed() => changed.is_ok(),
            changed = routes.changed() => changed.is_ok(),
        } {
            placements
                .all()
                .values()
                .filter_map(|placement| key_of(placement))
                .for_each(|key| wakes.wake(key));
        }
    })
}

/// Wakes the placement that an object's label names.
fn by_label<K: ResourceExt>(
    wakes: &SharedWakes<PlacementKey>,
) -> impl Fn(Change<'_, K>) + Send + use<K> {
    let wakes = Arc::clone(wakes);
    move |change| {
        change
            .each()
            .filter_map(labelled_key)
            .for_each(|key| wakes.wake(key));
    }
}

fn watch<K>(
    cache: &Cache<K>,
    client: &Client,
    config: watcher::Config,
    changed: impl Fn(Change<'_, K>) + Send + 'static,
) -> Watch
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    Box::pin(cache.clone().run(Api::all(client.clone()), config, changed))
}
