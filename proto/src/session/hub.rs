//! The hub's side: what one cluster is to hold, and at most one live session that tells its agent.
//!
//! Owns generations, tombstones and the fence. Must not know what a body means, and decides nothing: a caller that opens a
//! session before it wants all that it will want makes the agent remove the rest.

mod event;
mod hello;
mod slot;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

pub use self::event::{HubEvent, Rejection};
use self::slot::{Slot, Wanted};
use super::Removal;
use super::liveness::{Limits, Liveness};
use super::turns::Turns;
use super::violation::Violation;
use crate::identifiers::{Hash, PlacementKey, SessionId};
use crate::v1;
use crate::v1::agent_message::Body as Said;
use crate::v1::hub_message::Body;
use crate::v1::{AgentMessage, HubMessage};

/// Where a snapshot stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Snapshot {
    /// Begin is to be sent.
    Due,
    /// These keys are still to be named; so many messages were sent.
    Open {
        rest: BTreeSet<PlacementKey>,
        count: u32,
    },
    /// End was sent.
    Done,
}

/// The live session.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Session {
    id: SessionId,
    liveness: Liveness,
    protocol: u32,
    welcomed: bool,
    certificate: Option<String>,
    snapshot: Snapshot,
    changed: Turns,
}

/// The desired state of one cluster, and at most one live session. See [`session`](crate::session) for the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubMachine {
    limits: Limits,
    slots: BTreeMap<PlacementKey, Slot>,
    /// How many snapshots were begun; names the next one.
    snapshots: u64,
    session: Option<Session>,
}

impl HubMachine {
    /// Nothing is wanted, no session is open.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            slots: BTreeMap::new(),
            snapshots: 0,
            session: None,
        }
    }

    /// The cluster is to hold this. Returns whether that differs from what was wanted before. Another UID than before makes
    /// a tombstone of the old one.
    pub fn want(&mut self, key: PlacementKey, uid: &str, body: Bytes) -> bool {
        let slot = self.slots.entry(key.clone()).or_default();
        let changed = slot.want(Wanted {
            uid: uid.to_owned(),
            hash: Hash::of(&body),
            body,
        });
        self.turn(key);
        changed
    }

    /// The cluster is to hold nothing of this key and UID: a tombstone, until Removed was heard or the UID is wanted again.
    /// Asking again is harmless, also after Removed.
    pub fn remove(&mut self, key: &PlacementKey, uid: &str, removal: Removal) {
        let slot = self.slots.entry(key.clone()).or_default();
        slot.remove(uid, removal);
        self.turn(key.clone());
    }

    /// What the agent holds of this key is to stay, whatever it is; nothing when a value is wanted.
    pub fn keep(&mut self, key: PlacementKey) {
        self.slots.entry(key.clone()).or_default().keep();
        self.turn(key);
    }

    /// Nothing is known of this key any more: no value, no tombstone, no confirmed removal. What the agent still holds of it
    /// is absent from the next session's snapshot.
    pub fn forget(&mut self, key: &PlacementKey) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.forget();
        }
    }

    /// Opens a session and fences the older one, whose id is returned. The first to be transmitted is Welcome, then the
    /// snapshot of all that is wanted *then*: so everything must be wanted by now.
    pub fn open(
        &mut self,
        id: SessionId,
        hello: &v1::Hello,
        now: Duration,
    ) -> Result<Option<SessionId>, Rejection> {
        let protocol = hello::common_version(hello)?;
        let held = hello::read_held(hello)?;
        self.slots
            .retain(|key, slot| held.contains_key(key) || !slot.is_empty());
        for key in held.keys() {
            self.slots.entry(key.clone()).or_default();
        }
        for (key, slot) in &mut self.slots {
            slot.open(
                held.get(key)
                    .map(|(uid, generation, hash)| (*uid, *generation, *hash)),
            );
        }
        let fenced = self.session.replace(Session {
            id,
            liveness: Liveness::new(self.limits, now),
            protocol,
            welcomed: false,
            certificate: None,
            snapshot: Snapshot::Due,
            changed: Turns::default(),
        });
        Ok(fenced.map(|session| session.id))
    }

    /// Takes a message of the stream of session `id`.
    pub fn receive(
        &mut self,
        id: SessionId,
        message: AgentMessage,
        now: Duration,
    ) -> Result<Vec<HubEvent>, Violation> {
        let session = self.session.as_mut().filter(|session| session.id == id);
        let session = session.ok_or(Violation::Fenced(id))?;
        if message.session != id.0 {
            return Err(Violation::Foreign {
                session: id,
                got: message.session,
            });
        }
        session.liveness.hear(now);
        let event = match message.body {
            // A kind that this build doesn't know is a sign of life and nothing else.
            None | Some(Said::Heartbeat(_)) => None,
            Some(Said::Hello(_)) => return Err(Violation::Unexpected("Hello")),
            Some(Said::Received(v1::Received { key, generation })) => {
                let key = PlacementKey::from_wire(key.as_ref())?;
                self.answered(&key, generation)?
                    .then_some(HubEvent::Received { key, generation })
            }
            Some(Said::Applied(v1::Applied { key, generation })) => {
                let key = PlacementKey::from_wire(key.as_ref())?;
                self.answered(&key, generation)?
                    .then_some(HubEvent::Applied { key, generation })
            }
            Some(Said::Refused(refusal)) => {
                let key = PlacementKey::from_wire(refusal.key.as_ref())?;
                self.answered(&key, refusal.generation)?
                    .then_some(HubEvent::Refused { key, refusal })
            }
            Some(Said::Removed(v1::Removed { key, uid })) => self.removed(key.as_ref(), uid)?,
            Some(Said::Placement(report)) => {
                let key = PlacementKey::from_wire(report.key.as_ref())?;
                Some(HubEvent::Placement { key, report })
            }
            Some(Said::Endpoint(report)) => {
                let key = PlacementKey::from_wire(report.key.as_ref())?;
                Some(HubEvent::Endpoint { key, report })
            }
            Some(Said::ReportsComplete(_)) => Some(HubEvent::ReportsComplete),
            Some(Said::Renew(v1::RenewRequest {
                certificate_request,
            })) => Some(HubEvent::Renew {
                certificate_request,
            }),
        };
        Ok(event.into_iter().collect())
    }

    /// The next message of session `id`, if there is anything to say now: Welcome, then certificate and heartbeat, then the
    /// snapshot, then changes.
    pub fn transmit(&mut self, id: SessionId, now: Duration) -> Option<HubMessage> {
        let session = self.session.as_mut().filter(|session| session.id == id)?;
        let body = if !session.welcomed {
            session.welcomed = true;
            hello::welcome(self.limits, session.protocol)
        } else if let Some(certificate_pem) = session.certificate.take() {
            Body::Certificate(v1::Certificate { certificate_pem })
        } else if session.liveness.beat(now) {
            Body::Heartbeat(v1::Heartbeat {})
        } else {
            self.next_desired()?
        };
        Some(HubMessage {
            session: id.0,
            body: Some(body),
        })
    }

    /// When to call [`Self::transmit`] and [`Self::expired`] again if nothing else happens.
    pub fn deadline(&self, id: SessionId) -> Option<Duration> {
        self.live(id).map(|session| session.liveness.deadline())
    }

    /// Nothing was heard for `silence`, or the session isn't the current one: end its stream.
    pub fn expired(&self, id: SessionId, now: Duration) -> bool {
        self.live(id)
            .is_none_or(|session| session.liveness.expired(now))
    }

    /// The stream of session `id` ended. Only the current session's end counts.
    pub fn close(&mut self, id: SessionId) {
        self.session.take_if(|session| session.id == id);
    }

    /// Answers [`HubEvent::Renew`] of the same session. A newer answer replaces one that waits.
    pub fn certificate(&mut self, id: SessionId, certificate_pem: String) {
        if let Some(session) = self.session.as_mut().filter(|session| session.id == id) {
            session.certificate = Some(certificate_pem);
        }
    }

    /// Whether this session is the live one.
    #[cfg(test)]
    pub(crate) fn is_current(&self, id: SessionId) -> bool {
        self.live(id).is_some()
    }

    /// The UID of what this key is to be.
    pub fn wanted_uid(&self, key: &PlacementKey) -> Option<&str> {
        Some(&self.slots.get(key)?.wanted()?.uid)
    }

    /// Whether anything is remembered of this key: a value, a tombstone, a confirmed removal, or what the agent held.
    pub fn is_known(&self, key: &PlacementKey) -> bool {
        self.slots.contains_key(key)
    }

    /// The hash of what this key is to be.
    pub fn wanted_hash(&self, key: &PlacementKey) -> Option<Hash> {
        Some(self.slots.get(key)?.wanted()?.hash)
    }

    /// The generation of what this key is to be; `None` while nothing is wanted or it wasn't sent yet.
    pub fn wanted_generation(&self, key: &PlacementKey) -> Option<u64> {
        self.slots.get(key)?.generation()
    }

    /// Whether the agent is told something of this key and UID: a value, or a removal that it hasn't confirmed.
    pub fn is_told(&self, key: &PlacementKey, uid: &str) -> bool {
        self.slots.get(key).is_some_and(|slot| slot.is_told(uid))
    }

    /// The keys of which the agent holds something, or may: a value, what is kept, a removal that it hasn't confirmed.
    pub fn left(&self) -> impl Iterator<Item = &PlacementKey> {
        let left = self.slots.iter().filter(|(_, slot)| slot.is_named());
        left.map(|(key, _)| key)
    }

    /// Whether this removal of this key and UID waits to be confirmed.
    pub fn is_going(&self, key: &PlacementKey, uid: &str, removal: Removal) -> bool {
        let slot = self.slots.get(key);
        slot.is_some_and(|slot| slot.is_going(uid, removal))
    }

    /// Whether the agent confirmed that nothing of this key and UID is left; until the key is forgotten.
    pub fn is_removed(&self, key: &PlacementKey, uid: &str) -> bool {
        self.slots.get(key).is_some_and(|slot| slot.is_gone(uid))
    }

    fn live(&self, id: SessionId) -> Option<&Session> {
        self.session.as_ref().filter(|session| session.id == id)
    }

    /// The key may have something to say: in the snapshot if that hasn't named it yet, else after it.
    fn turn(&mut self, key: PlacementKey) {
        let (Some(session), Some(slot)) = (self.session.as_mut(), self.slots.get(&key)) else {
            return;
        };
        match &mut session.snapshot {
            Snapshot::Open { rest, .. } if !slot.mentioned() => {
                rest.insert(key);
            }
            // Begin gathers all keys.
            Snapshot::Due => {}
            Snapshot::Open { .. } | Snapshot::Done => session.changed.insert(key),
        }
    }

    fn next_desired(&mut self) -> Option<Body> {
        let session = self.session.as_mut()?;
        let (rest, count) = match &mut session.snapshot {
            Snapshot::Due => {
                let named = self.slots.iter().filter(|(_, slot)| slot.is_named());
                let rest = named.map(|(key, _)| key.clone()).collect();
                session.snapshot = Snapshot::Open { rest, count: 0 };
                self.snapshots = self.snapshots.saturating_add(1);
                return Some(Body::SnapshotBegin(v1::SnapshotBegin {
                    id: self.snapshots,
                }));
            }
            Snapshot::Open { rest, count } => (rest, count),
            Snapshot::Done => return next_change(&mut self.slots, &mut session.changed),
        };
        while let Some(key) = rest.first().cloned() {
            if let Some(body) = self
                .slots
                .get_mut(&key)
                .and_then(|slot| slot.next(&key, true))
            {
                *count = count.saturating_add(1);
                return Some(body);
            }
            rest.remove(&key);
        }
        let count = *count;
        session.snapshot = Snapshot::Done;
        Some(Body::SnapshotEnd(v1::SnapshotEnd {
            id: self.snapshots,
            count,
        }))
    }

    /// False for a key that was forgotten since.
    fn answered(&mut self, key: &PlacementKey, generation: u64) -> Result<bool, Violation> {
        let Some(slot) = self.slots.get_mut(key) else {
            return Ok(false);
        };
        slot.answered(generation)
            .map_err(|sent| Violation::Unsent {
                key: key.clone(),
                generation,
                sent,
            })?;
        self.turn(key.clone());
        Ok(true)
    }

    fn removed(
        &mut self,
        key: Option<&v1::Key>,
        uid: String,
    ) -> Result<Option<HubEvent>, Violation> {
        let key = PlacementKey::from_wire(key)?;
        let gone = self
            .slots
            .get_mut(&key)
            .is_some_and(|slot| slot.removed(&uid));
        self.turn(key.clone());
        Ok(gone.then_some(HubEvent::Removed { key, uid }))
    }
}

fn next_change(slots: &mut BTreeMap<PlacementKey, Slot>, changed: &mut Turns) -> Option<Body> {
    loop {
        let key = changed.next()?;
        if let Some(body) = slots.get_mut(&key).and_then(|slot| slot.next(&key, false)) {
            // It may have more to say: a second tombstone, or the value behind one.
            changed.insert(key);
            return Some(body);
        }
    }
}
