//! What each member is to hold of a server: from a snapshot to the members' sessions. Decides nothing: `hub-plan` does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use crds::{
    ClusterName, labels,
    v1alpha1::{GatewayReference, InferenceServer, MemberCluster},
};
use hub_plan::{
    facts::{ClusterFacts, Membership},
    placements::{Intent, placements, targets},
};
use kube::ResourceExt;
use operator::cache::ObjectKey;
use proto::PlacementKey;

use crate::{
    observe::Caches,
    session::members::{Member, Members},
};

/// Tells each member what it is to hold.
#[derive(Debug)]
pub struct Placer {
    caches: Caches,
    members: Members,
    /// Held from the read of a snapshot until what it says is wanted, so that no older snapshot comes after a newer one.
    placing: Mutex<()>,
}

impl Placer {
    /// Nothing is wanted yet.
    pub fn new(caches: Caches) -> Self {
        Self {
            caches,
            members: Members::default(),
            placing: Mutex::default(),
        }
    }

    /// The member of a MemberCluster; `None`: its name is no cluster name. Members of older records of that name go.
    pub fn admit(&self, record: &MemberCluster) -> Option<Arc<Member>> {
        let name: ClusterName = record.name_any().parse().ok()?;
        let uid = record.uid()?;
        for other in self.members.others(name.as_str(), Some(&uid)) {
            self.members.dismiss(&other);
        }
        Some(self.members.admit(&uid, &name))
    }

    /// The member of a MemberCluster that exists.
    pub fn member(&self, name: &str) -> Option<Arc<Member>> {
        if let Some(record) = self.caches.members.get(&ObjectKey::new("", name)) {
            return self.admit(&record);
        }
        for other in self.members.others(name, None) {
            self.members.dismiss(&other);
        }
        None
    }

    /// Tells every member what it is to hold of this server, by the newest snapshot.
    pub fn place(&self, key: &ObjectKey) {
        let Ok(placement) = PlacementKey::new(&key.namespace, &key.name) else {
            return;
        };
        let placing = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(server) = self.caches.servers.get(key) else {
            for member in self.members.knowing(&placement) {
                member.lock().withdraw(&placement);
                member.news.notify_waiters();
            }
            return;
        };
        let holders = self.concerned(&server, &placement);
        let profile = self
            .caches
            .profiles
            .get(&ObjectKey::new("", &server.spec.runtime.profile));
        let gateways = self.gateways(&server);
        let planned = placements(&server, profile.as_deref(), &gateways, &holders);
        // Encoded once, however many clusters a body goes to.
        let encode = |spec| serde_json::to_vec(spec).map(Bytes::from);
        let bodies: Vec<_> = match planned.specs.iter().map(encode).collect() {
            Ok(bodies) => bodies,
            Err(error) => {
                tracing::error!(server = %key, %error, "a placement can't be encoded");
                return;
            }
        };
        let uid = server.uid().unwrap_or_default();
        for (cluster, intent) in planned.intents {
            let Some(member) = self.member(cluster.as_str()) else {
                continue;
            };
            let mut state = member.lock();
            let news = match intent {
                // Who holds a value must be asked on the way out: so none is given before the finalizer says so.
                Intent::Run(_) if !has_finalizer(&server) => state.keep(&placement),
                Intent::Run(index) => bodies
                    .get(index)
                    .is_some_and(|body| state.want(&placement, &uid, body.clone())),
                Intent::Keep => state.keep(&placement),
                Intent::Remove => state.remove(&placement, &uid),
            };
            drop(state);
            if news {
                member.news.notify_waiters();
            }
        }
        drop(placing);
    }

    /// The clusters that hold, or may hold, a part of the server beside its targets: those that the hub tells of it, and
    /// those that its status names. What an agent says of itself does not count: it could hold up a server that it never had.
    fn concerned(&self, server: &InferenceServer, key: &PlacementKey) -> BTreeSet<ClusterName> {
        let named = server.status.iter().flat_map(|status| &status.clusters);
        let mut names: BTreeSet<_> = named
            .filter_map(|cluster| cluster.cluster_id.parse().ok())
            .collect();
        names.extend(self.members.telling(key));
        names
    }

    fn gateways(
        &self,
        server: &InferenceServer,
    ) -> BTreeMap<ClusterName, Option<GatewayReference>> {
        let found = targets(server).into_iter().filter_map(|cluster| {
            let record = self
                .caches
                .members
                .get(&ObjectKey::new("", cluster.as_str()))?;
            Some((cluster, record.spec.gateway.clone()))
        });
        found.collect()
    }

    /// What is known of each cluster that the server concerns.
    pub fn clusters(&self, server: &InferenceServer) -> BTreeMap<ClusterName, ClusterFacts> {
        let uid = server.uid().unwrap_or_default();
        let Ok(key) = PlacementKey::new(server.namespace().unwrap_or_default(), server.name_any())
        else {
            return BTreeMap::new();
        };
        let mut names = targets(server);
        names.extend(self.concerned(server, &key));
        let facts = |name: ClusterName| {
            let record = self.caches.members.get(&ObjectKey::new("", name.as_str()));
            let membership = record.as_deref().map_or(Membership::Absent, membership);
            let member = self.member(name.as_str());
            let facts = member.map(|member| member.lock().facts(&key, &uid, membership));
            (
                name,
                facts.unwrap_or_else(|| ClusterFacts {
                    membership,
                    ..ClusterFacts::default()
                }),
            )
        };
        names.into_iter().map(facts).collect()
    }
}

fn membership(record: &MemberCluster) -> Membership {
    let enrolled = record
        .status
        .as_ref()
        .is_some_and(|status| status.enrollment.is_some());
    if enrolled {
        Membership::Joined
    } else {
        Membership::Invited
    }
}

/// Is the server held until every member has confirmed?
pub(crate) fn has_finalizer(server: &InferenceServer) -> bool {
    server
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == labels::CLEANUP)
}
