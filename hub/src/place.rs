//! What each member is to hold of a server: from a snapshot to the members' sessions. Decides nothing: `hub-plan` does.

mod namespaces;
#[cfg(test)]
pub(crate) mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use crds::{
    ClusterName, labels,
    v1alpha1::{DeletionPolicy, InferenceServer, MemberCluster, Released},
};
use hub_plan::{
    drain::{draining, leading_route},
    facts::{ClusterFacts, Membership, Refusal},
    memory::PublishedEndpoint,
    placements::{Intent, Site, placements, targets},
};
use ipnet::{IpNet, Ipv4Net};
use kube::ResourceExt;
use operator::cache::ObjectKey;
use proto::{PlacementKey, session::Removal};

use crate::{
    clock::Clock,
    endpoints::Publisher,
    models::ModelConfigProvider,
    observe::Caches,
    session::members::{Member, Members},
};

/// Tells each member what it is to hold.
pub struct Placer {
    caches: Caches,
    clock: Clock,
    publisher: Arc<dyn Publisher>,
    models: Arc<dyn ModelConfigProvider>,
    members: Members,
    /// Who can't be heard, and at which count of changes that was so.
    fleet: Mutex<(u64, Option<Arc<hub_plan::facts::Fleet>>)>,
    fleet_changes: AtomicU64,
    /// Is what was there before the hub's start known?
    ready: AtomicBool,
    /// Held from the read of a snapshot until what it says is wanted, so that no older snapshot comes after a newer one.
    placing: Mutex<()>,
}

impl Placer {
    /// Nothing is wanted yet.
    pub fn new(
        caches: Caches,
        clock: Clock,
        publisher: Arc<dyn Publisher>,
        models: Arc<dyn ModelConfigProvider>,
    ) -> Self {
        Self {
            caches,
            clock,
            publisher,
            models,
            fleet: Mutex::default(),
            fleet_changes: AtomicU64::new(0),
            ready: AtomicBool::new(false),
            members: Members::default(),
            placing: Mutex::default(),
        }
    }

    /// Returns once all is known that anything is decided by.
    pub async fn ready(&self) {
        self.caches.synced().await;
        self.publisher.loaded().await;
        self.place_all().await;
        self.ready.store(true, Ordering::Release);
    }

    /// Before any agent is heard: what it is not told to keep, it takes away.
    async fn place_all(&self) {
        for server in self.caches.servers.all().into_keys() {
            self.place(&server);
            tokio::task::yield_now().await;
        }
    }

    /// Is all known that anything is decided by?
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// The member of a MemberCluster; `None`: its name is no cluster name. Members of older records of that name go.
    pub fn admit(&self, record: &MemberCluster) -> Option<Arc<Member>> {
        let name: ClusterName = record.name_any().parse().ok()?;
        let uid = record.uid()?;
        for other in self.members.others(name.as_str(), Some(&uid)) {
            self.members.dismiss(&other);
        }
        Some(self.members.admit(&uid, &name, self.clock.now()))
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
                let released = self.released(&member, key);
                member.lock().withdraw(&placement, &released);
                member.news.notify_waiters();
            }
            return;
        };
        let published = self.publisher.get(&server);
        let holders = self.concerned(&server, &placement, &published);
        let profiles = self.caches.profiles_of(&server);
        let sites = self.sites(&server);
        let mut planned = placements(&server, &profiles, &sites, &holders);
        let leaving = self.leaving(planned.intents.keys());
        let now = self.clock.now();
        planned.leave(&leaving);
        let routes = self.caches.routes_of(&server);
        planned.hold(
            &draining(&server, &published, &leaving, now),
            leading_route(&server, &routes, self.caches.routes.is_installed()),
        );
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
                Intent::Remove => state.remove(&placement, &uid, Removal::Delete),
                Intent::Orphan => state.remove(&placement, &uid, Removal::Orphan),
            };
            drop(state);
            if news {
                member.news.notify_waiters();
            }
        }
        // An older server of that name went without its finalizer, and this one came before anybody looked.
        for member in self.members.wanting_another(&placement, &uid) {
            member.lock().withdraw(&placement, &[]);
            member.news.notify_waiters();
        }
        drop(placing);
    }

    /// The UIDs of servers of that key that the member is to be told of by its record.
    fn released(&self, member: &Member, server: &ObjectKey) -> Vec<String> {
        let record = self
            .caches
            .members
            .get(&ObjectKey::new("", member.name.as_str()));
        let status = record.as_ref().and_then(|record| record.status.as_ref());
        let parts = status.iter().flat_map(|status| &status.released);
        parts
            .filter(|part| part.namespace == server.namespace && part.name == server.name)
            .map(|part| part.uid.clone())
            .collect()
    }

    /// Tells a member of what servers that are gone have left there, by its record.
    pub fn let_go(&self, member: &Member, released: &[Released]) {
        let mut state = member.lock();
        for part in released {
            let Ok(key) = PlacementKey::new(&part.namespace, &part.name) else {
                continue;
            };
            let removal = match part.policy {
                DeletionPolicy::Delete => Removal::Delete,
                DeletionPolicy::Orphan => Removal::Orphan,
            };
            // Its answer may have come already: then there is nothing to ask.
            if !state.machine.is_removed(&key, &part.uid) {
                state.remove(&key, &part.uid, removal);
            }
        }
    }

    /// The clusters that hold, or may hold, a part of the server beside its targets: those that the hub tells of it, those that
    /// its status names, which is cut, and those of which something is published. What an agent says of itself does not count: it
    /// could hold up a server that it never had.
    fn concerned(
        &self,
        server: &InferenceServer,
        key: &PlacementKey,
        published: &BTreeMap<ClusterName, PublishedEndpoint>,
    ) -> BTreeSet<ClusterName> {
        let named = server.status.iter().flat_map(|status| &status.clusters);
        let mut names: BTreeSet<_> = named
            .filter_map(|cluster| cluster.cluster_id.parse().ok())
            .collect();
        let uid = server.uid().unwrap_or_default();
        names.extend(self.members.telling(key, &uid));
        names.extend(published.keys().cloned());
        names
    }

    /// Those of the clusters whose MemberCluster is being deleted.
    fn leaving<'a>(
        &self,
        clusters: impl Iterator<Item = &'a ClusterName>,
    ) -> BTreeMap<ClusterName, DeletionPolicy> {
        clusters
            .filter_map(|cluster| {
                let key = ObjectKey::new("", cluster.as_str());
                let record = self.caches.members.get(&key)?;
                let leaves = membership(&record) == Membership::Leaving;
                leaves.then(|| (cluster.clone(), record.spec.deletion_policy))
            })
            .collect()
    }

    fn sites(&self, server: &InferenceServer) -> BTreeMap<ClusterName, Site> {
        let found = targets(server).into_iter().filter_map(|cluster| {
            let record = self
                .caches
                .members
                .get(&ObjectKey::new("", cluster.as_str()))?;
            let endpoint = record.spec.endpoint.as_ref();
            let model = self.models.model(server, &cluster);
            let closed = self.closed(server, &record).is_some();
            let site = Site {
                gateway: record.spec.gateway.clone(),
                endpoint: endpoint.map(|endpoint| endpoint.source.clone()),
                withheld: closed || model.is_err(),
                model: model.unwrap_or_default(),
            };
            Some((cluster, site))
        });
        found.collect()
    }

    /// Why a cluster takes no servers of the server's namespace.
    fn closed(&self, server: &InferenceServer, record: &MemberCluster) -> Option<Refusal> {
        let name = server.namespace().unwrap_or_default();
        let namespace = self.caches.namespaces.get(&ObjectKey::new("", &name));
        let none = BTreeMap::new();
        let labels = namespace.as_deref().map_or(&none, ResourceExt::labels);
        namespaces::refusal(record, &name, labels)
    }

    /// Somebody fell silent, is heard, came, or went.
    pub fn fleet_changed(&self) {
        self.fleet_changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Who of the whole fleet can't be heard.
    pub fn fleet(&self) -> Arc<hub_plan::facts::Fleet> {
        let changes = self.fleet_changes.load(Ordering::Acquire);
        let mut known = self.fleet.lock().unwrap_or_else(PoisonError::into_inner);
        if let (at, Some(fleet)) = &*known
            && *at == changes
        {
            return Arc::clone(fleet);
        }
        let joined = |record: &MemberCluster| membership(record) == Membership::Joined;
        let joined = self.caches.members.filter(joined);
        let (mut silent_since, mut silences) = (Vec::new(), Vec::new());
        for member in joined.iter().filter_map(|record| self.admit(record)) {
            let state = member.lock();
            match state.past_silence() {
                Some(silence) => silences.push(silence),
                None => silent_since.push(state.silent_since),
            }
        }
        silent_since.sort_unstable();
        let fleet = Arc::new(hub_plan::facts::Fleet {
            joined: joined.len(),
            silent_since,
            silences,
        });
        *known = (changes, Some(Arc::clone(&fleet)));
        fleet
    }

    /// What is known of each cluster that the server concerns.
    pub fn clusters(
        &self,
        server: &InferenceServer,
        published: &BTreeMap<ClusterName, PublishedEndpoint>,
    ) -> BTreeMap<ClusterName, ClusterFacts> {
        let uid = server.uid().unwrap_or_default();
        let Ok(key) = PlacementKey::new(server.namespace().unwrap_or_default(), server.name_any())
        else {
            return BTreeMap::new();
        };
        let mut names = targets(server);
        names.extend(self.concerned(server, &key, published));
        let facts = |name: ClusterName| {
            let record = self.caches.members.get(&ObjectKey::new("", name.as_str()));
            let membership = record.as_deref().map_or(Membership::Absent, membership);
            let member = self.member(name.as_str());
            let facts = member.map(|member| member.lock().facts(&key, &uid, membership));
            let facts = facts.unwrap_or_else(|| ClusterFacts {
                membership,
                ..ClusterFacts::default()
            });
            let allowed_cidrs = record.as_deref().map(allowed_cidrs).unwrap_or_default();
            let closed = record.as_deref();
            let closed = closed.and_then(|record| self.closed(server, record));
            let model_refusal = self.models.model(server, &name).err();
            (
                name,
                ClusterFacts {
                    allowed_cidrs,
                    closed,
                    model_refusal,
                    ..facts
                },
            )
        };
        names.into_iter().map(facts).collect()
    }
}

/// No address that could be published is in it.
const NOWHERE: IpNet = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::BROADCAST, 32));

/// The ranges that a record allows. One that is none, which the API server lets nobody write, must not allow everything.
fn allowed_cidrs(record: &MemberCluster) -> Vec<IpNet> {
    let endpoint = record.spec.endpoint.iter();
    endpoint
        .flat_map(|endpoint| &endpoint.allowed_cidrs)
        .map(|cidr| cidr.0.parse().unwrap_or(NOWHERE))
        .collect()
}

/// How far the cluster of a record is on its way into the fleet, or out of it.
pub(crate) fn membership(record: &MemberCluster) -> Membership {
    let enrolled = record
        .status
        .as_ref()
        .is_some_and(|status| status.enrollment.is_some());
    if enrolled && record.metadata.deletion_timestamp.is_some() {
        Membership::Leaving
    } else if enrolled {
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
