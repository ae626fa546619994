//! The record of one member cluster: its status, its finalizer, and what is to be told to it later.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crds::{
    condition::{self, CONNECTED, JOINED, Verdict},
    labels, reason,
    v1alpha1::{InferenceServer, MemberCluster, MemberClusterStatus, Released},
};
use hub_plan::facts::Membership;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, Resource, ResourceExt};
use operator::{
    cache::{Cache, ObjectKey},
    wake::Next,
};
use proto::PlacementKey;
use serde_json::json;

use super::{
    Error,
    events::{Events, NOTE_MAX},
};
use crate::{
    clock::{Clock, Pace},
    observe::Wakeups,
    place::{Placer, membership},
    session::members::Member,
};

/// A cluster that leaves and can't be heard for this long is let go.
const LEAVE_PATIENCE: Duration = Duration::from_secs(40);
/// A count of servers is written this often at most.
const COUNT_PAUSE: Duration = Duration::from_secs(5);
/// As many as the API takes: an InferenceServer is held rather than one forgotten.
const RELEASED_MAX: usize = 1000;

/// Reconciles MemberClusters.
pub struct MemberReconciler {
    client: Client,
    members: Cache<MemberCluster>,
    placer: Arc<Placer>,
    /// Whom changes wake.
    pub wakeups: Arc<Wakeups>,
    clock: Clock,
    events: Events,
    /// Of the writes of each record that only count.
    counts: Pace<String>,
}

/// What the hub knows of a cluster while it runs.
struct Known {
    connected: bool,
    silent_since: Timestamp,
    /// Of one that leaves: the placements that it was told of, or holds, or is to be told of, and has not said to be gone.
    left: BTreeSet<PlacementKey>,
    agent_version: String,
    kubernetes_version: String,
}

impl MemberReconciler {
    /// Writes with `client`.
    pub fn new(
        client: Client,
        members: Cache<MemberCluster>,
        placer: Arc<Placer>,
        wakeups: Arc<Wakeups>,
        clock: Clock,
    ) -> Self {
        let events = Events::new(client.clone());
        Self {
            events,
            client,
            members,
            placer,
            wakeups,
            clock,
            counts: Pace::new(clock, COUNT_PAUSE),
        }
    }

    /// One pass: admits or dismisses the cluster, keeps its finalizer, and writes its status.
    pub async fn reconcile(self: Arc<Self>, name: String) -> Next {
        self.placer.fleet_changed();
        let member = self.placer.member(&name);
        let Some(record) = self.members.get(&ObjectKey::new("", &name)) else {
            // Who targets it may have heard of it before it was gone.
            self.wakeups.wake_concerned(&name);
            return Next::Rest;
        };
        match self.pass(&record, member.as_deref()).await {
            Ok(next) => next,
            Err(error) if error.is_gone() => Next::Rest,
            Err(error) => {
                tracing::warn!(cluster = name, error = error.sentence(), "will try again");
                Next::Retry
            }
        }
    }

    async fn pass(&self, record: &MemberCluster, member: Option<&Member>) -> Result<Next, Error> {
        let deleting = record.metadata.deletion_timestamp.is_some();
        let known = member.map(|member| known(member, record));
        let held = record
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == labels::LEAVE);
        if membership(record) == Membership::Joined && !held {
            self.set_finalizer(record, true).await?;
        }
        if let Some(member) = member {
            self.forget(record, member).await?;
        }
        if deleting && held {
            let Some(wait) = self.patience(record, known.as_ref()) else {
                self.set_finalizer(record, false).await?;
                // Not before: a record that could not be let go is looked at again, and would tell it again.
                self.tell_left(record, known.as_ref()).await;
                return Ok(Next::Rest);
            };
            let next = self.report(record, known).await?;
            return Ok(if next == Next::Rest { wait } else { next });
        }
        self.report(record, known).await
    }

    /// What a cluster that leaves is waited for; `None`: for nothing any more.
    fn patience(&self, record: &MemberCluster, known: Option<&Known>) -> Option<Next> {
        let known = known.filter(|_| membership(record) == Membership::Leaving)?;
        if known.connected && !known.left.is_empty() {
            return Some(Next::Rest);
        }
        // An agent that lost its hub dials again after up to 30 s. One that has been away for longer is not waited for.
        let given_up = known
            .silent_since
            .checked_add(LEAVE_PATIENCE)
            .unwrap_or(Timestamp::MAX);
        let waited_for = !known.connected && self.clock.now() < given_up;
        waited_for.then(|| Next::After(self.clock.until(given_up)))
    }

    /// A cluster that joined has left: what of it is left there?
    async fn tell_left(&self, record: &MemberCluster, known: Option<&Known>) {
        let cluster = record.name_any();
        let Some(known) = known.filter(|_| membership(record) == Membership::Leaving) else {
            return;
        };
        if known.left.is_empty() {
            tracing::info!(cluster, "left: nothing of it is left there");
            return;
        }
        let left: Vec<_> = known.left.iter().map(ToString::to_string).collect();
        // All of them: what the event has no room for is said nowhere else.
        tracing::warn!(
            cluster,
            placements = left.len(),
            left = left.join(", "),
            "left without its agent: what it runs is left there"
        );
        let of = record.object_ref(&());
        let note = left_behind(&left);
        self.events.warn(&of, "LeftBehind", note).await;
    }

    async fn set_finalizer(&self, record: &MemberCluster, held: bool) -> Result<(), Error> {
        let api = Api::all(self.client.clone());
        let finalizers: &[&str] = if held { &[labels::LEAVE] } else { &[] };
        let written = super::mark(&api, record, finalizers, &BTreeMap::new()).await?;
        self.members.note(written);
        Ok(())
    }

    /// Forgets what the agent has been told by now.
    async fn forget(&self, record: &MemberCluster, member: &Member) -> Result<(), Error> {
        let released = record.status.iter().flat_map(|status| &status.released);
        let (confirmed, open): (Vec<_>, Vec<_>) =
            released.partition(|part| is_confirmed(member, part));
        if confirmed.is_empty() {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"uid": record.uid(), "resourceVersion": record.resource_version()},
            "status": {"released": open},
        });
        let written = super::patch_status(&Api::all(self.client.clone()), record, &patch).await?;
        self.members.note(written);
        // Nothing has to be remembered of them any more.
        for part in confirmed {
            self.wakeups
                .servers
                .wake(ObjectKey::new(&part.namespace, &part.name));
        }
        Ok(())
    }

    async fn report(&self, record: &MemberCluster, known: Option<Known>) -> Result<Next, Error> {
        let name = record.name_any();
        let previous = record.status.clone().unwrap_or_default();
        let servers = u32::try_from(self.wakeups.targeting(&name).len()).unwrap_or(u32::MAX);
        let generation = record.metadata.generation.unwrap_or_default();
        let left = known
            .as_ref()
            .filter(|_| record.metadata.deletion_timestamp.is_some())
            .map(|known| u32::try_from(known.left.len()).unwrap_or(u32::MAX));
        let mut status = status(previous.clone(), known, generation, self.clock.now());
        status.placements_left = left;
        status.servers = servers;
        if status == previous {
            return Ok(Next::Rest);
        }
        let conditions = previous.conditions.clone();
        let same_but_for_count = MemberClusterStatus {
            servers,
            ..previous
        };
        if status == same_but_for_count
            && let Some(wait) = self.counts.wait(name)
        {
            return Ok(Next::After(wait));
        }
        // The enrollment and what is released are written elsewhere: a copy of them here could undo a newer one.
        let patch = json!({"metadata": {"uid": record.uid()}, "status": MemberClusterStatus {
            enrollment: None,
            released: Vec::new(),
            ..status
        }});
        let written = super::patch_status(&Api::all(self.client.clone()), record, &patch).await?;
        let after = written.status.clone().unwrap_or_default().conditions;
        self.members.note(written);
        let of = record.object_ref(&());
        super::transitions(record, &conditions, &after);
        self.events.transitions(&of, &conditions, &after).await;
        Ok(Next::Rest)
    }
}

/// Records that a server goes without the word of a cluster that may still hold a part of it.
///
/// # Errors
/// When the API server does not take it, or the record is full: then the server has to be held.
pub async fn record(
    client: &Client,
    record: &MemberCluster,
    server: &InferenceServer,
) -> Result<MemberCluster, Error> {
    let mut released = record
        .status
        .as_ref()
        .map(|status| status.released.clone())
        .unwrap_or_default();
    let part = Released {
        namespace: server.namespace().unwrap_or_default(),
        name: server.name_any(),
        uid: server.uid().unwrap_or_default(),
        policy: server.spec.deletion_policy,
    };
    if released.contains(&part) {
        return Ok(record.clone());
    }
    if released.len() >= RELEASED_MAX {
        return Err(Error::full(ObjectKey::of(record)));
    }
    released.push(part);
    let patch = json!({
        "metadata": {"uid": record.uid(), "resourceVersion": record.resource_version()},
        "status": {"released": released},
    });
    super::patch_status(&Api::all(client.clone()), record, &patch).await
}

/// What is left in a cluster whose agent is away: as many names as a note takes.
fn left_behind(left: &[String]) -> String {
    let mut note = "its agent can't be heard. Left there:".to_owned();
    for (index, placement) in left.iter().enumerate() {
        let rest = left.len() - index;
        let comma = if index == 0 { "" } else { "," };
        let name = format!("{comma} {placement}");
        let more = format!(" and {rest} more");
        // Unless it is the last, room stays for how many more there are.
        let reserve = if rest == 1 { 0 } else { more.len() };
        if note.len() + name.len() + reserve > NOTE_MAX {
            note.push_str(&more);
            break;
        }
        note.push_str(&name);
    }
    note
}

fn known(member: &Member, record: &MemberCluster) -> Known {
    // What servers that are gone have left there is told to its agent when it dials: until then the record alone knows of it.
    let released = record.status.iter().flat_map(|status| &status.released);
    let open = released.filter(|part| !is_confirmed(member, part));
    let mut left: BTreeSet<_> = open
        .filter_map(|part| PlacementKey::new(&part.namespace, &part.name).ok())
        .collect();
    let state = member.lock();
    left.extend(state.machine.left().cloned());
    if record.metadata.deletion_timestamp.is_none() {
        left.clear();
    }
    Known {
        connected: state.session.is_some(),
        silent_since: state.silent_since,
        left,
        agent_version: state.agent_version.clone(),
        kubernetes_version: state.kubernetes_version.clone(),
    }
}

/// Has the agent said that nothing of it is left, or that it is let go?
fn is_confirmed(member: &Member, part: &Released) -> bool {
    let Ok(key) = PlacementKey::new(&part.namespace, &part.name) else {
        return true;
    };
    member.lock().machine.is_removed(&key, &part.uid)
}

/// The status of a member: is it in, and is it heard. What the enrollment wrote stays.
fn status(
    previous: MemberClusterStatus,
    known: Option<Known>,
    generation: i64,
    now: Timestamp,
) -> MemberClusterStatus {
    let joined = match &previous.enrollment {
        Some(enrollment) => {
            let message = format!("cluster {} enrolled", enrollment.cluster_uid);
            Verdict::yes(JOINED, reason::ENROLLED, message)
        }
        None => Verdict::no(
            JOINED,
            reason::CLUSTER_NOT_JOINED,
            "no agent has enrolled with its join token",
        ),
    };
    let connected = if known.as_ref().is_some_and(|known| known.connected) {
        Verdict::yes(
            CONNECTED,
            reason::SESSION_OPEN,
            "its agent has a live session",
        )
    } else {
        Verdict::no(
            CONNECTED,
            reason::CLUSTER_NOT_CONNECTED,
            "its agent has no session",
        )
    };
    let (agent, kubernetes) = known
        .map(|known| (known.agent_version, known.kubernetes_version))
        .unwrap_or_default();
    // A hub that has just started does not know the versions: what the last one wrote stands.
    let newest = |new: String, old: String| if new.is_empty() { old } else { new };
    MemberClusterStatus {
        agent_version: newest(agent, previous.agent_version),
        kubernetes_version: newest(kubernetes, previous.kubernetes_version),
        conditions: condition::merge(&previous.conditions, &[joined, connected], generation, now),
        enrollment: previous.enrollment,
        servers: previous.servers,
        placements_left: previous.placements_left,
        released: previous.released,
    }
}
