//! Whom a change concerns.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use crds::{
    labels,
    v1alpha1::{InferenceServer, MemberCluster},
};
use hub_plan::revisions::{Pins, ProfileName};
use kube::ResourceExt;
use operator::{
    cache::{Cache, Change, ObjectKey},
    wake::SharedWakes,
};

/// Whom changes wake, and which servers target which cluster.
#[derive(Debug, Default)]
pub struct Wakeups {
    /// Servers to look at.
    pub servers: SharedWakes<ObjectKey>,
    /// Member clusters whose status may have changed.
    pub members: SharedWakes<String>,
    /// Profiles that are to be recorded, or records of them that may be in nobody's use.
    pub profiles: SharedWakes<ProfileName>,
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

    pub(super) fn server_changed(&self, change: &Change<'_, InferenceServer>) {
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
        self.pins_changed(change);
        self.servers.wake(key);
    }

    /// The records that a server lets go may be in nobody's use.
    fn pins_changed(&self, change: &Change<'_, InferenceServer>) {
        let Some(before) = change.before else { return };
        let pins = |server: &Arc<InferenceServer>| Pins::of(server);
        let after = change.after.map(pins).unwrap_or_default();
        for profile in pins(before).left(&after) {
            self.profiles.wake(profile);
        }
    }

    /// A status that only counts or tells is nothing that a server is planned from.
    pub(super) fn member_changed(&self, change: &Change<'_, MemberCluster>) {
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
    pub(super) fn object_changed<K: ResourceExt>(&self, change: &Change<'_, K>) {
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
