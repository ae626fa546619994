//! What the hub holds of each member cluster while it runs: the desired state of its session, and what its agent last said.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use crds::{ClusterName, condition::State, v1alpha1::Replicas};
use hub_plan::facts::{
    ClusterFacts, EndpointFacts, Membership, PlacementFacts, Refusal, Step, StepFacts,
};
use proto::{
    Hash, PlacementKey, SessionId,
    session::{HubMachine, Limits},
    v1,
};
use tokio::sync::Notify;

/// Every member cluster, by the UID of its MemberCluster: a certificate names that, and a record made anew under the same
/// name is another cluster.
#[derive(Debug, Default)]
pub struct Members {
    by_uid: RwLock<BTreeMap<String, Arc<Member>>>,
}

impl Members {
    /// The member of that UID; made when there is none.
    pub fn admit(&self, uid: &str, name: &ClusterName) -> Arc<Member> {
        let mut members = self.by_uid.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            members
                .entry(uid.to_owned())
                .or_insert_with(|| Arc::new(Member::new(uid, name.clone()))),
        )
    }

    /// The member of that UID.
    pub fn get(&self, uid: &str) -> Option<Arc<Member>> {
        self.by_uid
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(uid)
            .map(Arc::clone)
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

    /// The clusters that hold, or are to hold, something under that key.
    pub fn holders(&self, key: &PlacementKey) -> BTreeSet<ClusterName> {
        self.filter(|state| state.holds(key))
            .iter()
            .map(|member| member.name.clone())
            .collect()
    }

    /// The members with a trace of that key.
    pub fn knowing(&self, key: &PlacementKey) -> Vec<Arc<Member>> {
        self.filter(|state| state.holds(key) || state.machine.is_known(key))
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
    fn new(uid: &str, name: ClusterName) -> Self {
        Self {
            uid: uid.to_owned(),
            name,
            news: Notify::new(),
            state: Mutex::new(MemberState::default()),
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

impl Default for MemberState {
    fn default() -> Self {
        Self {
            machine: HubMachine::new(Limits::default()),
            session: None,
            reports_complete: false,
            dismissed: false,
            agent_version: String::new(),
            kubernetes_version: String::new(),
            placements: BTreeMap::new(),
        }
    }
}

impl MemberState {
    /// A session began: what earlier ones said no longer counts as heard.
    pub fn opened(&mut self, session: SessionId, hello: &v1::Hello) {
        self.session = Some(session);
        self.reports_complete = false;
        self.placements.clear();
        self.agent_version.clone_from(&hello.agent_version);
        self.kubernetes_version
            .clone_from(&hello.kubernetes_version);
    }

    /// A session ended. Only the live one's end counts; returns whether it was that.
    pub fn closed(&mut self, session: SessionId) -> bool {
        self.machine.close(session);
        let live = self.session == Some(session);
        if live {
            self.session = None;
            self.reports_complete = false;
        }
        live
    }

    /// What the agent said of a placement.
    pub fn placement_reported(&mut self, key: PlacementKey, report: v1::PlacementReport) {
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
        self.placements.entry(key).or_default().endpoint = Some(report);
    }

    /// The agent can't apply a value.
    pub fn refused(&mut self, key: PlacementKey, refusal: v1::Refused) {
        self.placements.entry(key).or_default().refusal = Some(refusal);
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

    /// Does the cluster hold, or is it to hold, something under that key?
    pub fn holds(&self, key: &PlacementKey) -> bool {
        self.machine.wanted_hash(key).is_some()
            || self
                .placements
                .get(key)
                .is_some_and(|said| said.placement.is_some())
    }

    /// Nobody wants anything under that key any more. What is there goes; what was confirmed as gone is forgotten.
    pub fn withdraw(&mut self, key: &PlacementKey) {
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
            Some(uid) => self.machine.remove(key, &uid),
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
        ClusterFacts {
            membership,
            reporting: self.reports_complete,
            gone: self.machine.is_removed(key, uid),
            refusal: refusal.map(|refusal| Refusal {
                reason: refusal.reason.clone(),
                message: refusal.message.clone(),
            }),
            placement: placement.map(|report| self.placement_facts(key, report)),
            endpoint: endpoint.map(endpoint_facts),
        }
    }

    fn placement_facts(&self, key: &PlacementKey, report: &v1::PlacementReport) -> PlacementFacts {
        let hash = Hash::from_wire(&report.hash).ok();
        PlacementFacts {
            current: hash.is_some() && hash == self.machine.wanted_hash(key),
            steps: report.steps.iter().filter_map(step_facts).collect(),
            replicas: Replicas {
                wanted: report.replicas_wanted,
                ready: report.replicas_ready,
            },
        }
    }
}

fn step_facts(report: &v1::StepReport) -> Option<(Step, StepFacts)> {
    let step = match report.step() {
        v1::Step::Backend => Step::Backend,
        v1::Step::TrafficRoute => Step::TrafficRoute,
        v1::Step::ModelConfig => Step::ModelConfig,
        v1::Step::Health => Step::Health,
        // A step of a newer agent: this hub has no condition for it.
        v1::Step::Unspecified => return None,
    };
    let state = match report.verdict() {
        v1::Verdict::True => State::True,
        v1::Verdict::False => State::False,
        v1::Verdict::Unknown | v1::Verdict::Unspecified => State::Unknown,
    };
    Some((
        step,
        StepFacts {
            state,
            reason: report.reason.clone(),
            message: report.message.clone(),
        },
    ))
}

fn endpoint_facts(report: &v1::EndpointReport) -> EndpointFacts {
    EndpointFacts {
        addresses: report.addresses.clone(),
        // A port beyond 16 bits is none.
        port: u16::try_from(report.port).unwrap_or_default(),
        reason: report.reason.clone(),
        message: report.message.clone(),
    }
}
