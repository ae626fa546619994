//! A hub's and an agent's machine with a wire between them that the test moves.

use std::time::Duration;

use bytes::Bytes;

use crate::identifiers::{Hash, PlacementKey, SessionId};
use crate::session::{
    AgentEvent, AgentInfo, AgentMachine, Held, HubEvent, HubMachine, Limits, Violation,
};
use crate::v1;
use crate::v1::hub_message::Body;
use crate::v1::{AgentMessage, HubMessage, agent_message};

/// More than any test has to say; a machine that never ends fails instead of hanging.
const ENDLESS: usize = 1000;

pub(super) fn key(name: &str) -> PlacementKey {
    PlacementKey::new("team", name).unwrap()
}

pub(super) fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(super) fn held(name: &str, uid: &str, generation: u64, text: &str) -> Held {
    Held {
        key: key(name),
        uid: uid.to_owned(),
        generation,
        hash: Hash::of(text.as_bytes()),
    }
}

pub(super) fn info() -> AgentInfo {
    AgentInfo {
        agent_version: "0.1.0".to_owned(),
        kubernetes_version: "v1.37.0".to_owned(),
        cluster_uid: "cluster".to_owned(),
    }
}

pub(super) fn hello(message: AgentMessage) -> v1::Hello {
    match message.body {
        Some(agent_message::Body::Hello(hello)) => hello,
        other => panic!("{other:?}"),
    }
}

/// Session ids as a hub gives them, and both machines.
pub(super) struct Wire {
    pub(super) hub: HubMachine,
    pub(super) agent: AgentMachine,
    pub(super) id: SessionId,
    pub(super) now: Duration,
}

impl Wire {
    pub(super) fn new(held: impl IntoIterator<Item = Held>) -> Self {
        Self {
            hub: HubMachine::new(Limits::default()),
            agent: AgentMachine::new(held),
            id: SessionId(0),
            now: Duration::ZERO,
        }
    }

    /// Opens a new session, whatever became of the old one.
    pub(super) fn connect(&mut self) {
        self.id = SessionId(self.id.0 + 1);
        let hello = hello(self.agent.connect(&info(), self.now));
        self.hub.open(self.id, &hello, self.now).unwrap();
    }

    /// All that the hub has to say now, not yet delivered.
    pub(super) fn hub_says(&mut self) -> Vec<HubMessage> {
        let messages = std::iter::from_fn(|| self.hub.transmit(self.id, self.now));
        messages.take(ENDLESS).collect()
    }

    /// All that the agent has to say now, not yet delivered.
    pub(super) fn agent_says(&mut self) -> Vec<AgentMessage> {
        let messages = std::iter::from_fn(|| self.agent.transmit(self.now));
        messages.take(ENDLESS).collect()
    }

    pub(super) fn agent_hears(&mut self, messages: Vec<HubMessage>) -> Vec<AgentEvent> {
        let deliver = |message| self.agent.receive(message, self.now).unwrap();
        messages.into_iter().flat_map(deliver).collect()
    }

    pub(super) fn hub_hears(&mut self, messages: Vec<AgentMessage>) -> Vec<HubEvent> {
        let deliver = |message| self.hub.receive(self.id, message, self.now).unwrap();
        messages.into_iter().flat_map(deliver).collect()
    }

    /// The hub speaks, then the agent answers.
    pub(super) fn round(&mut self) -> (Vec<AgentEvent>, Vec<HubEvent>) {
        let messages = self.hub_says();
        let agent = self.agent_hears(messages);
        let messages = self.agent_says();
        (agent, self.hub_hears(messages))
    }

    /// A message of this session that the hub's machine didn't send.
    pub(super) fn forge(&mut self, body: Body) -> Result<Vec<AgentEvent>, Violation> {
        let message = HubMessage {
            session: self.id.0,
            body: Some(body),
        };
        self.agent.receive(message, self.now)
    }
}

/// What the hub says of placements, without bodies and hashes.
pub(super) fn said(messages: &[HubMessage]) -> Vec<String> {
    let name = |key: &Option<v1::Key>| key.as_ref().unwrap().name.clone();
    let text = |message: &HubMessage| match message.body.as_ref().unwrap() {
        Body::Welcome(_) => "welcome".to_owned(),
        Body::Reject(_) => "reject".to_owned(),
        Body::Heartbeat(_) => "heartbeat".to_owned(),
        Body::SnapshotBegin(_) => "begin".to_owned(),
        Body::SnapshotEnd(end) => format!("end {}", end.count),
        Body::Desired(it) => format!("{} of {} is {}", name(&it.key), it.uid, it.generation),
        Body::Tombstone(it) => format!("{} of {} goes", name(&it.key), it.uid),
        Body::Keep(it) => format!("{} stays", name(&it.key)),
        Body::Certificate(_) => "certificate".to_owned(),
    };
    messages.iter().map(text).collect()
}
