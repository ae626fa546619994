//! A hub, an agent and a member cluster, moved step by step.

mod member;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use self::member::endpoint;
use crate::identifiers::{Hash, PlacementKey, SessionId};
use crate::session::tests::wire::{hello, info, key};
use crate::session::{AgentMachine, Held, HubEvent, HubMachine, Limits, Removal, Violation};
use crate::v1;
use crate::v1::{AgentMessage, HubMessage};

const NAMES: [&str; 3] = ["a", "b", "c"];
const NOW: Duration = Duration::ZERO;

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A server targets the cluster with this content; the same object as before, if it is still there.
    Want {
        key: usize,
        content: u8,
    },
    /// The server is deleted and made anew at once.
    Recreate {
        key: usize,
    },
    /// The server no longer targets the cluster.
    Remove {
        key: usize,
    },
    /// The server is gone without a finalizer.
    Vanish {
        key: usize,
    },
    /// The agent opens a new stream; the old one may still deliver to the hub.
    Connect,
    Disconnect,
    RestartHub,
    RestartAgent,
    HubSends(usize),
    AgentSends(usize),
    AgentHears(usize),
    HubHears(usize),
    HubHearsOldSession,
    MemberWorks {
        key: usize,
    },
    MemberRefuses {
        key: usize,
    },
}

/// What a member's API server holds, or the hub's.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Object {
    uid: u32,
    generation: u64,
    body: Bytes,
}

#[derive(Debug, Clone)]
enum Work {
    Apply(Object),
    Remove(String),
}

#[derive(Debug)]
pub(super) struct World {
    /// The hub's API objects: what targets the cluster, and what waits for its removal there.
    wanted: BTreeMap<PlacementKey, Object>,
    deleting: BTreeSet<(PlacementKey, u32)>,
    /// All that anybody ever gave up; nothing else may be removed.
    given_up: BTreeSet<(PlacementKey, String)>,
    uids: u32,
    hub: HubMachine,
    agent: AgentMachine,
    session: SessionId,
    connected: bool,
    /// Something vanished in this session: only the next one's snapshot says so.
    vanished: bool,
    to_agent: VecDeque<HubMessage>,
    to_hub: VecDeque<AgentMessage>,
    /// Sent in sessions that are over.
    old: VecDeque<(SessionId, AgentMessage)>,
    cluster: BTreeMap<PlacementKey, Object>,
    work: BTreeMap<PlacementKey, Work>,
    /// What the hub heard in this session, by key.
    applied: BTreeMap<PlacementKey, u64>,
    endpoints: BTreeMap<PlacementKey, v1::EndpointReport>,
    complete: bool,
    pub(super) applies: usize,
    pub(super) removals: usize,
}

impl Default for World {
    fn default() -> Self {
        Self {
            wanted: BTreeMap::new(),
            deleting: BTreeSet::new(),
            given_up: BTreeSet::new(),
            uids: 0,
            hub: HubMachine::new(Limits::default()),
            agent: AgentMachine::new([]),
            session: SessionId(0),
            connected: false,
            vanished: false,
            to_agent: VecDeque::new(),
            to_hub: VecDeque::new(),
            old: VecDeque::new(),
            cluster: BTreeMap::new(),
            work: BTreeMap::new(),
            applied: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            complete: false,
            applies: 0,
            removals: 0,
        }
    }
}

fn uid(number: u32) -> String {
    format!("u{number}")
}

impl World {
    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Want { key: name, content } => self.want(&key(NAMES[*name]), *content),
            Step::Recreate { key: name } => self.recreate(&key(NAMES[*name])),
            Step::Remove { key: name } => self.remove(&key(NAMES[*name])),
            Step::Vanish { key: name } => self.vanish(&key(NAMES[*name])),
            Step::Connect => self.connect(),
            Step::Disconnect => self.disconnect(),
            Step::RestartHub => self.restart_hub(),
            Step::RestartAgent => self.restart_agent(),
            Step::HubSends(times) => (0..*times).for_each(|_| {
                let message = self.hub.transmit(self.session, NOW);
                self.to_agent.extend(message.filter(|_| self.connected));
            }),
            Step::AgentSends(times) => (0..*times).for_each(|_| {
                self.to_hub.extend(self.agent.transmit(NOW));
            }),
            Step::AgentHears(times) => (0..*times).for_each(|_| self.agent_hears()),
            Step::HubHears(times) => (0..*times).for_each(|_| self.hub_hears()),
            Step::HubHearsOldSession => self.hub_hears_old_session(),
            Step::MemberWorks { key: name } => self.member_works(&key(NAMES[*name])),
            Step::MemberRefuses { key: name } => self.member_refuses(&key(NAMES[*name])),
        }
    }

    fn want(&mut self, key: &PlacementKey, content: u8) {
        let body = Bytes::from(vec![content]);
        let number = self.wanted.get(key).map(|object| object.uid);
        // A target that comes back while its removal is under way: the same object.
        let again = || {
            self.deleting
                .iter()
                .find(|(of, _)| of == key)
                .map(|(_, uid)| *uid)
        };
        let number = number.or_else(again).unwrap_or(self.uids);
        self.uids = self.uids.max(number + 1);
        self.deleting.remove(&(key.clone(), number));
        self.hub.want(key.clone(), &uid(number), body.clone());
        self.wanted.insert(
            key.clone(),
            Object {
                uid: number,
                generation: 0,
                body,
            },
        );
    }

    fn recreate(&mut self, key: &PlacementKey) {
        let Some(object) = self.wanted.get_mut(key) else {
            return;
        };
        self.given_up.insert((key.clone(), uid(object.uid)));
        self.deleting.insert((key.clone(), object.uid));
        object.uid = self.uids;
        self.uids += 1;
        self.hub
            .want(key.clone(), &uid(object.uid), object.body.clone());
    }

    fn remove(&mut self, key: &PlacementKey) {
        if let Some(object) = self.wanted.remove(key) {
            self.given_up.insert((key.clone(), uid(object.uid)));
            self.deleting.insert((key.clone(), object.uid));
            self.hub.remove(key, &uid(object.uid), Removal::Delete);
        }
    }

    fn vanish(&mut self, key: &PlacementKey) {
        if let Some(object) = self.wanted.remove(key) {
            self.given_up.insert((key.clone(), uid(object.uid)));
        }
        self.deleting.retain(|(of, _)| of != key);
        self.hub.forget(key);
        self.vanished = true;
    }

    fn connect(&mut self) {
        let before = self.session;
        self.old
            .extend(self.to_hub.drain(..).map(|message| (before, message)));
        self.to_agent.clear();
        self.session = SessionId(before.0 + 1);
        let hello = hello(self.agent.connect(&info(), NOW));
        self.hub.open(self.session, &hello, NOW).unwrap();
        self.connected = true;
        self.vanished = false;
        self.applied.clear();
        self.endpoints.clear();
        self.complete = false;
    }

    /// Both ends notice; what was on the wire is lost.
    fn disconnect(&mut self) {
        self.agent.disconnect();
        self.hub.close(self.session);
        self.connected = false;
        self.to_agent.clear();
        self.to_hub.clear();
    }

    fn restart_hub(&mut self) {
        self.disconnect();
        self.hub = HubMachine::new(Limits::default());
        for (key, object) in &self.wanted {
            self.hub
                .want(key.clone(), &uid(object.uid), object.body.clone());
        }
        for (key, number) in &self.deleting {
            self.hub.remove(key, &uid(*number), Removal::Delete);
        }
    }

    fn restart_agent(&mut self) {
        self.disconnect();
        self.work.clear();
        self.agent = AgentMachine::new(self.cluster.iter().map(|(key, object)| Held {
            key: key.clone(),
            uid: uid(object.uid),
            generation: object.generation,
            hash: Hash::of(&object.body),
        }));
        for (key, object) in self.cluster.clone() {
            self.observe(&key, &object);
        }
    }

    fn agent_hears(&mut self) {
        if let Some(message) = self.to_agent.pop_front() {
            for event in self.agent.receive(message, NOW).unwrap() {
                self.agent_event(event);
            }
        }
    }

    fn hub_hears(&mut self) {
        let Some(message) = self.to_hub.pop_front() else {
            return;
        };
        for event in self.hub.receive(self.session, message, NOW).unwrap() {
            match event {
                HubEvent::Removed { key, uid: of } => self.hub_removed(&key, &of),
                HubEvent::Endpoint { key, mut report } => {
                    (report.key, report.age_us) = (None, None);
                    self.endpoints.insert(key, report);
                }
                HubEvent::ReportsComplete => self.complete = true,
                HubEvent::Applied { key, generation } => {
                    self.applied.insert(key, generation);
                }
                HubEvent::Received { .. }
                | HubEvent::Refused { .. }
                | HubEvent::Placement { .. }
                | HubEvent::Renew { .. } => {}
            }
        }
    }

    fn hub_removed(&mut self, key: &PlacementKey, of: &str) {
        let held = self
            .cluster
            .get(key)
            .is_some_and(|object| uid(object.uid) == of);
        let coming =
            matches!(self.work.get(key), Some(Work::Apply(object)) if uid(object.uid) == of);
        assert!(
            !held && !coming,
            "{key} of {of} was said to be removed, but is not"
        );
        assert!(self.hub.is_removed(key, of));
        self.deleting
            .retain(|(of_key, number)| of_key != key || uid(*number) != of);
    }

    fn hub_hears_old_session(&mut self) {
        if let Some((id, message)) = self.old.pop_front() {
            let before = self.hub.clone();
            assert_eq!(
                self.hub.receive(id, message, NOW),
                Err(Violation::Fenced(id))
            );
            assert_eq!(self.hub, before, "a fenced session changed something");
        }
    }

    /// Nothing fails any more, until nothing is left to do.
    pub(super) fn settle(&mut self) {
        if !self.connected || self.vanished {
            self.connect();
        }
        for round in 0.. {
            assert!(round < 100, "it never ends");
            self.step(&Step::HubSends(1000));
            self.step(&Step::AgentHears(1000));
            (0..NAMES.len()).for_each(|key| self.step(&Step::MemberWorks { key }));
            self.step(&Step::AgentSends(1000));
            if self.to_hub.is_empty() && self.work.is_empty() {
                break;
            }
            self.step(&Step::HubHears(1000));
        }
        self.check();
    }

    fn check(&self) {
        let content = |objects: &BTreeMap<PlacementKey, Object>| -> Vec<_> {
            let objects = objects.iter();
            objects
                .map(|(key, object)| (key.clone(), object.uid, object.body.clone()))
                .collect()
        };
        assert_eq!(content(&self.cluster), content(&self.wanted));
        assert_eq!(self.deleting, BTreeSet::new(), "removed, but not confirmed");
        assert!(self.complete, "the reports were never complete");
        for (key, object) in &self.cluster {
            let generation = Some(object.generation);
            assert_eq!(self.hub.wanted_generation(key), generation, "{key}");
            assert_eq!(self.applied.get(key).copied(), generation, "{key}");
            assert_eq!(self.endpoints.get(key), Some(&endpoint(object)), "{key}");
        }
    }
}
