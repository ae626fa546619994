//! The watches that sources of endpoints need beside the Gateway: Services of anybody, and nodes. Each starts when the first
//! placement asks for it, so that a cluster without such sources pays nothing, and goes on until the agent ends. Until
//! its first list it counts as unknown, not as empty.

use std::{fmt::Debug, sync::Arc};

use agent_plan::ServiceFact;
use crds::v1alpha1::{ServerPlacement, ServiceReference, Source};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{Api, Client, Resource, runtime::watcher};
use operator::{
    cache::{Cache, Change, ObjectKey},
    ownership::strip_metadata,
    wake::SharedWakes,
};
use proto::PlacementKey;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::{Watch, key_of};

/// What the placements ask for. It only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Needs {
    services: bool,
    nodes: bool,
}

impl Needs {
    fn of(placement: &ServerPlacement) -> Self {
        match source(placement) {
            Source::Gateway | Source::Static => Self::default(),
            Source::Service => Self {
                services: true,
                nodes: false,
            },
            Source::NodePort => Self {
                services: true,
                nodes: true,
            },
        }
    }
}

/// What sources are resolved from.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    pub(crate) services: Cache<Service>,
    pub(crate) nodes: Cache<Node>,
    needs: watch::Sender<Needs>,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            services: Cache::new(trim_service),
            nodes: Cache::new(trim_node),
            needs: watch::Sender::default(),
        }
    }
}

fn source(placement: &ServerPlacement) -> Source {
    let source = placement.spec.endpoint.as_ref();
    source.map(|source| source.source).unwrap_or_default()
}

fn service(placement: &ServerPlacement) -> Option<&ServiceReference> {
    let source = placement.spec.endpoint.as_ref()?;
    matches!(source.source, Source::Service | Source::NodePort)
        .then_some(source.service.as_ref())
        .flatten()
}

/// What a source reads: the type, the ports and the load balancer.
fn trim_service(service: &mut Service) {
    strip_metadata(service);
    if let Some(spec) = service.spec.take() {
        let kept = service.spec.get_or_insert_default();
        (kept.type_, kept.ports) = (spec.type_, spec.ports);
    }
    if let Some(status) = &mut service.status {
        status.conditions = None;
    }
}

/// What a source reads: the addresses, whether it is Ready, and whether it is cordoned.
fn trim_node(node: &mut Node) {
    strip_metadata(node);
    if let Some(spec) = node.spec.take() {
        node.spec.get_or_insert_default().unschedulable = spec.unschedulable;
    }
    if let Some(status) = node.status.take() {
        let kept = node.status.get_or_insert_default();
        kept.addresses = status.addresses;
        let mut conditions = status.conditions.unwrap_or_default();
        conditions.retain(|condition| condition.type_ == "Ready");
        for condition in &mut conditions {
            // A heartbeat is no change.
            (
                condition.last_heartbeat_time,
                condition.last_transition_time,
            ) = (None, None);
            (condition.reason, condition.message) = (None, None);
        }
        kept.conditions = Some(conditions);
    }
}

/// The placements, to be woken.
#[derive(Clone)]
struct Users {
    placements: Cache<ServerPlacement>,
    wakes: SharedWakes<PlacementKey>,
}

impl Users {
    /// Wakes those that `uses` picks.
    fn wake(&self, uses: impl Fn(&ServerPlacement) -> bool) {
        let users = self.placements.filter(uses);
        users
            .iter()
            .filter_map(|placement| key_of(placement))
            .for_each(|key| self.wakes.wake(key));
    }
}

impl Sources {
    /// A placement is there: what its source needs is watched from now on.
    pub(super) fn placement_changed(&self, placement: Option<&Arc<ServerPlacement>>) {
        let Some(placement) = placement else { return };
        let more = Needs::of(placement);
        self.needs.send_if_modified(|needs| {
            let before = *needs;
            needs.services |= more.services;
            needs.nodes |= more.nodes;
            *needs != before
        });
    }

    /// What is known of the Service that a placement's source names.
    pub(crate) fn service(&self, placement: &ServerPlacement) -> Option<Arc<Service>> {
        let named = service(placement)?;
        self.services
            .get(&ObjectKey::new(&named.namespace, &named.name))
    }

    /// The same, as a fact.
    pub(crate) fn fact<'a>(&self, service: Option<&'a Service>) -> ServiceFact<'a> {
        match service {
            Some(service) => ServiceFact::Found(service),
            None if self.services.is_synced() => ServiceFact::NotFound,
            None => ServiceFact::Unlisted,
        }
    }

    /// The nodes, for a placement that publishes them; `None`: they are not known.
    pub(crate) fn nodes(&self, placement: &ServerPlacement) -> Option<Vec<Arc<Node>>> {
        let wanted = source(placement) == Source::NodePort && self.nodes.is_synced();
        wanted.then(|| self.nodes.all().into_values().collect())
    }

    /// Both watches. Each wakes the placements whose source it is part of, all of them after its first list: that it is empty
    /// is news, too.
    pub(super) fn watches(
        &self,
        client: &Client,
        placements: &Cache<ServerPlacement>,
        wakes: &SharedWakes<PlacementKey>,
    ) -> [Watch; 2] {
        let users = Users {
            placements: placements.clone(),
            wakes: Arc::clone(wakes),
        };
        let (of_service, of_node) = (users.clone(), users.clone());
        let service_changed = move |change: Change<'_, Service>| {
            let Some(key) = change.each().next().map(ObjectKey::of) else {
                return;
            };
            of_service.wake(|placement| {
                service(placement)
                    .is_some_and(|named| named.namespace == key.namespace && named.name == key.name)
            });
        };
        let node_changed = move |change: Change<'_, Node>| {
            let read = |node: &Arc<Node>| {
                let leaving = node.metadata.deletion_timestamp.is_some();
                (node.spec.clone(), node.status.clone(), leaving)
            };
            if change.before.map(read) != change.after.map(read) {
                of_node.wake(|placement| source(placement) == Source::NodePort);
            }
        };
        [
            self.lazily(
                (&self.services, client, &users),
                |needs| needs.services,
                service_changed,
            ),
            self.lazily(
                (&self.nodes, client, &users),
                |needs| needs.nodes,
                node_changed,
            ),
        ]
    }

    /// The watch of one kind, from the moment when it is needed.
    fn lazily<K>(
        &self,
        (cache, client, users): (&Cache<K>, &Client, &Users),
        is_needed: fn(&Needs) -> bool,
        changed: impl Fn(Change<'_, K>) + Send + 'static,
    ) -> Watch
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let (cache, api) = (cache.clone(), Api::all(client.clone()));
        let (needs, users) = (self.needs.clone(), users.clone());
        Box::pin(async move {
            // The sender is held here: waiting can't fail.
            drop(needs.subscribe().wait_for(is_needed).await);
            let first_list = async {
                cache.synced().await;
                users.wake(|placement| is_needed(&Needs::of(placement)));
            };
            let config = watcher::Config::default();
            tokio::join!(cache.clone().run(api, config, changed), first_list);
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_a_placement_asks_for_is_watched() {
        let sources = Sources::default();
        let mut asked = Vec::new();
        for source in ["Gateway", "Static", "Service", "NodePort", "Gateway"] {
            let placement = serde_json::from_value(json!({
                "metadata": {"name": "llama", "namespace": "team-a"},
                "spec": {
                    "runtime": {"profile": "echo", "content": {
                        "images": [{"image": "echo:1"}],
                        "ports": [{"name": "http", "port": 8000}],
                        "probes": {"readiness": {"path": "/ready"}},
                    }},
                    "replicas": 1,
                    "endpoint": {"source": source},
                },
            }))
            .unwrap();
            sources.placement_changed(Some(&Arc::new(placement)));
            let Needs { services, nodes } = *sources.needs.borrow();
            asked.push((services, nodes));
        }
        let (none, services, both) = ((false, false), (true, false), (true, true));
        assert_eq!(asked, [none, none, services, both, both]);
    }

    #[test]
    fn a_heartbeat_is_no_change_of_a_node() {
        let node = |time: &str| -> Node {
            let mut node = serde_json::from_value(json!({
                "metadata": {"name": "n"},
                "spec": {"unschedulable": true, "podCIDR": "10.0.0.0/24"},
                "status": {
                    "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}],
                    "conditions": [
                        {"type": "Ready", "status": "True", "lastHeartbeatTime": time, "message": time},
                        {"type": "DiskPressure", "status": "False", "lastHeartbeatTime": time},
                    ],
                    "images": [{"sizeBytes": 1}],
                },
            }))
            .unwrap();
            trim_node(&mut node);
            node
        };
        let trimmed = node("2026-01-01T00:00:00Z");
        assert_eq!(trimmed, node("2026-01-01T00:05:00Z"));
        assert_eq!(
            serde_json::to_value(&trimmed).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": "n"},
                "spec": {"unschedulable": true},
                "status": {
                    "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}],
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            })
        );
    }
}
