//! What the hub holds of each member cluster while it runs: the desired state of its session, and what its agent last said.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use bytes::Bytes;
use crds::{ClusterName, v1alpha1::Replicas};
use hub_plan::facts::{ClusterFacts, Membership, PastSilence, PlacementFacts};
use k8s_openapi::jiff::Timestamp;
use proto::{
    Hash, PlacementKey, SessionId,
    session::{HubMachine, Limits, Removal},
    v1,
};
use tokio::sync::Notify;

use super::bounds;

/// Every member cluster, by the UID of its MemberCluster: a certificate names that, and a record made anew under the same
/// name is another cluster.
#[derive(Debug, Default)]
pub struct Members {
    by_uid: RwLock<BTreeMap<String, Arc<Member>>>,
}

impl Members {
    /// The member of that UID; made when there is none.
    pub fn admit(&self, uid: &str, name: &ClusterName, now: Timestamp) -> Arc<Member> {
        let known = self
            .by_uid
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(uid)
            .map(Arc::clone);
        known.unwrap_or_else(|| {
            let mut members = self.by_uid.write().unwrap_or_else(PoisonError::into_inner);
            let member = members.entry(uid.to_owned());
            Arc::clone(member.or_insert_with(|| Arc::new(Member::new(uid, name.clone(), now))))
        })
    }

    /// Drops the member of that UID, and ends its session.
    pub fn dismiss(&self, uid: &str) {
        let member = self
            .by_uid
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(uid);
        if let Some(member) = member {
            member.lock().dismissed = true;
            member.news.notify_waiters();
        }
    }

    /// The members of that name but for one UID: what was left of records that were deleted.
    pub fn others(&self, name: &str, uid: Option<&str>) -> Vec<String> {
        let members = self.by_uid.read().unwrap_or_else(PoisonError::into_inner);
        let others = members
            .iter()
            .filter(|(of, member)| member.name.as_str() == name && Some(of.as_str()) != uid);
        others.map(|(uid, _)| uid.clone()).collect()
    }

    /// The clusters that are told something of the server of that UID: a value, or that it is to go. What they are told of an
    /// older server of that key is not its own.
    pub fn telling(&self, key: &PlacementKey, uid: &str) -> BTreeSet<ClusterName> {
        let told = self.filter(|state| state.machine.is_told(key, uid));
        told.iter().map(|member| member.name.clone()).collect()
    }

    /// The members with a trace of that key.
    pub fn knowing(&self, key: &PlacementKey) -> Vec<Arc<Member>> {
        self.filter(|state| state.machine.is_known(key))
    }

    /// The members that are to hold a value of that key of another server than that of this UID.
    pub fn wanting_another(&self, key: &PlacementKey, uid: &str) -> Vec<Arc<Member>> {
        let is_another = |wanted: &str| wanted != uid;
        self.filter(|state| state.machine.wanted_uid(key).is_some_and(is_another))
    }

    fn filter(&self, keep: impl Fn(&MemberState) -> bool) -> Vec<Arc<Member>> {
        let members = self.by_uid.read().unwrap_or_else(PoisonError::into_inner);
        members
            .values()
            .filter(|member| keep(&member.lock()))
            .map(Arc::clone)
            .collect()
    }
}

/// One member cluster.
#[derive(Debug)]
pub struct Member {
    /// UID of its MemberCluster.
    pub uid: String,
    /// Name of its MemberCluster.
    pub name: ClusterName,
    /// Wakes the session's task: there may be something to say.
    pub news: Notify,
    state: Mutex<MemberState>,
}

impl Member {
    fn new(uid: &str, name: ClusterName, now: Timestamp) -> Self {
        Self {
            uid: uid.to_owned(),
            name,
            news: Notify::new(),
            state: Mutex::new(MemberState::new(now)),
        }
    }

    /// What is known of it. Never held over an await.
    pub fn lock(&self) -> MutexGuard<'_, MemberState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of one member cluster.
#[derive(Debug)]
pub struct MemberState {
    /// Its desired state, and its session.
    pub machine: HubMachine,
    /// The live session.
    pub session: Option<SessionId>,
    /// The live session has brought every report.
    pub reports_complete: bool,
    /// Since when there are no reports, while there are none.
    pub silent_since: Timestamp,
    heard_since: Option<Timestamp>,
    /// Its MemberCluster is gone.
    pub dismissed: bool,
    /// As of the last session.
    pub agent_version: String,
    /// As of the last session.
    pub kubernetes_version: String,
    placements: BTreeMap<PlacementKey, Said>,
}

/// What an agent last said of one key.
#[derive(Debug, Default)]
struct Said {
    placement: Option<v1::PlacementReport>,
    endpoint: Option<v1::EndpointReport>,
    refusal: Option<v1::Refused>,
}

impl MemberState {
    /// Nothing was heard of the cluster: its silence begins now.
    pub fn new(now: Timestamp) -> Self {
        Self {
            machine: HubMachine::new(Limits::default()),
            session: None,
            reports_complete: false,
            silent_since: now,
            heard_since: None,
            dismissed: false,
            agent_version: String::new(),
            kubernetes_version: String::new(),
            placements: BTreeMap::new(),
        }
    }

    /// A session began: what earlier ones said no longer counts as heard.
    pub fn opened(&mut self, session: SessionId, hello: &v1::Hello, now: Timestamp) {
        self.session = Some(session);
        self.fall_silent(now);
        self.placements.clear();
        self.agent_version = bounds::version(&hello.agent_version);
        self.kubernetes_version = bounds::version(&hello.kubernetes_version);
    }

    /// The live session has brought every report.
    pub fn complete(&mut self, now: Timestamp) {
        self.reports_complete = true;
        self.heard_since = Some(now);
    }

    /// A session ended. Only the live one's end counts; returns whether it was that.
    pub fn closed(&mut self, session: SessionId, now: Timestamp) -> bool {
        self.machine.close(session);
        let live = self.session == Some(session);
        if live {
            self.session = None;
            self.fall_silent(now);
        }
        live
    }

    /// The silence before the live session brought every report; `None`: it lasts.
    pub fn past_silence(&self) -> Option<PastSilence> {
        let ended = self.heard_since.filter(|_| self.reports_complete)?;
        Some(PastSilence {
            began: self.silent_since,
            ended,
        })
    }

    /// A session that brought no report was as good as none.
    fn fall_silent(&mut self, now: Timestamp) {
        if self.reports_complete {
            self.silent_since = now;
        }
        self.reports_complete = false;
        self.heard_since = None;
    }

    /// The cluster is to hold this. Returns whether there is something new to tell it.
    pub fn want(&mut self, key: &PlacementKey, uid: &str, body: Bytes) -> bool {
        self.machine.want(key.clone(), uid, body)
    }

    /// What the cluster holds is to stay. There is nothing to tell it outside of a snapshot.
    pub fn keep(&mut self, key: &PlacementKey) -> bool {
        self.machine.keep(key.clone());
        false
    }

    /// The cluster is to hold nothing. Returns whether there is something new to tell it.
    pub fn remove(&mut self, key: &PlacementKey, uid: &str, removal: Removal) -> bool {
        let known = self.machine.is_going(key, uid, removal) || self.machine.is_removed(key, uid);
        self.machine.remove(key, uid, removal);
        !known
    }

    /// What the agent said of a placement. Of what it holds, or was told, only: it can't fill the hub's memory.
    pub fn placement_reported(&mut self, key: PlacementKey, report: v1::PlacementReport) {
        if !self.machine.is_known(&key) {
            return;
        }
        let said = self.placements.entry(key).or_default();
        // A report is of a value that was applied: what kept it from that has passed.
        said.refusal = said
            .refusal
            .take()
            .filter(|refusal| refusal.generation > report.generation);
        said.placement = Some(report);
    }

    /// What the agent said of an endpoint.
    pub fn endpoint_reported(&mut self, key: PlacementKey, report: v1::EndpointReport) {
        if self.machine.is_known(&key) {
            self.placements.entry(key).or_default().endpoint = Some(report);
        }
    }

    /// The agent can't apply a value.
    pub fn refused(&mut self, key: PlacementKey, refusal: v1::Refused) {
        if self.machine.is_known(&key) {
            self.placements.entry(key).or_default().refusal = Some(refusal);
        }
    }

    /// The agent applied a value.
    pub fn applied(&mut self, key: &PlacementKey, generation: u64) {
        if let Some(said) = self.placements.get_mut(key) {
            said.refusal = said
                .refusal
                .take()
                .filter(|refusal| refusal.generation > generation);
        }
    }

    /// Nothing of the key is left there.
    pub fn removed(&mut self, key: &PlacementKey, uid: &str) {
        if let Some(said) = self.placements.get_mut(key) {
            said.placement.take_if(|report| report.uid == uid);
            said.endpoint.take_if(|report| report.uid == uid);
            if said.placement.is_none() && said.endpoint.is_none() {
                self.placements.remove(key);
            }
        }
    }

    /// Nobody wants anything under that key any more. What is there goes; what was confirmed as gone is forgotten. What the
    /// member's record says of it, by UID, is asked for elsewhere: it stays as it was asked, and is remembered until the
    /// record has taken note.
    pub fn withdraw(&mut self, key: &PlacementKey, released: &[String]) {
        let reported = self
            .placements
            .get(key)
            .and_then(|said| said.placement.as_ref())
            .map(|report| report.uid.as_str());
        let uid = self
            .machine
            .wanted_uid(key)
            .or(reported)
            .map(ToOwned::to_owned);
        match uid {
            Some(uid) if released.contains(&uid) => {}
            Some(uid) if self.machine.is_going(key, &uid, Removal::Orphan) => {}
            Some(uid) => self.machine.remove(key, &uid, Removal::Delete),
            None if !released.is_empty() => {}
            None => self.machine.forget(key),
        }
    }

    /// All that a plan needs to know of the cluster.
    pub fn facts(&self, key: &PlacementKey, uid: &str, membership: Membership) -> ClusterFacts {
        let said = self.placements.get(key);
        let placement = said
            .and_then(|said| said.placement.as_ref())
            .filter(|report| report.uid == uid);
        let endpoint = said
            .and_then(|said| said.endpoint.as_ref())
            .filter(|report| report.uid == uid);
        let wanted = self.machine.wanted_generation(key);
        let refusal = said
            .and_then(|said| said.refusal.as_ref())
            .filter(|refusal| Some(refusal.generation) == wanted);
        // What is there is heard once both its reports came; what is not there, once all came.
        let heard = self.session.is_some() && placement.is_some() && endpoint.is_some();
        let absent =
            self.reports_complete && placement.is_none() && !self.machine.is_told(key, uid);
        let reporting = self.reports_complete || heard;
        ClusterFacts {
            membership,
            reporting,
            silent_since: (!reporting).then_some(self.silent_since),
            heard_since: self.heard_since,
            gone: absent || self.machine.is_removed(key, uid),
            refusal: refusal.map(bounds::refusal),
            // What its MemberCluster says is not for the agent to say.
            closed: None,
            probe: None,
            model_refusal: None,
            placement: placement.map(|report| self.placement_facts(key, report)),
            endpoint: endpoint.map(bounds::endpoint),
            allowed_cidrs: Vec::new(),
        }
    }

    fn placement_facts(&self, key: &PlacementKey, report: &v1::PlacementReport) -> PlacementFacts {
        let hash = Hash::from_wire(&report.hash).ok();
        PlacementFacts {
            route_accepted: report.route_accepted,
            current: hash.is_some() && hash == self.machine.wanted_hash(key),
            steps: report.steps.iter().filter_map(bounds::step).collect(),
            replicas: Replicas {
                wanted: report.replicas_wanted,
                ready: report.replicas_ready,
            },
        }
    }
}
