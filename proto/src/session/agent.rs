//! The agent's side: what its cluster holds, and what is owed to the hub.
//!
//! Owns the order of removal and creation, the check of hashes, and what was reported in this session. Must not know what a
//! body means nor how it is applied: the caller acts on [`AgentEvent`]s and says what became of them.

mod event;
mod reports;
mod session;
mod slot;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

pub use self::event::{AgentEvent, AgentInfo, Held, Refusal};
use self::reports::Reports;
use self::session::Session;
pub use self::slot::HASH_MISMATCH;
use self::slot::{Slot, Value};
use super::Removal;
use super::violation::Violation;
use crate::identifiers::{Hash, Malformed, PlacementKey};
use crate::v1;
use crate::v1::agent_message::Body;
use crate::v1::hub_message::Body as Said;
use crate::v1::{AgentMessage, HubMessage};

/// What one member cluster holds, and at most one session. See [`session`](crate::session) for the rules.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentMachine {
    slots: BTreeMap<PlacementKey, Slot>,
    endpoints: Reports<v1::EndpointReport>,
    placements: Reports<v1::PlacementReport>,
    /// Asked for until a certificate comes, over sessions.
    renewal: Option<Bytes>,
    session: Option<Session>,
}

impl AgentMachine {
    /// `held` is what exists in the cluster when the agent starts, including what is being removed.
    pub fn new(held: impl IntoIterator<Item = Held>) -> Self {
        let slots = held.into_iter().map(|held| {
            let slot = Slot::held(&held);
            (held.key, slot)
        });
        Self {
            slots: slots.collect(),
            endpoints: Reports::new(),
            placements: Reports::new(),
            renewal: None,
            session: None,
        }
    }

    /// A stream was opened: returns the Hello to send first. Replaces a session that was open.
    pub fn connect(&mut self, info: &AgentInfo, now: Duration) -> AgentMessage {
        self.slots.values_mut().for_each(Slot::connect);
        self.slots.retain(|_, slot| !slot.is_empty());
        self.session = Some(Session::new(now));
        let held = self
            .slots
            .iter()
            .filter_map(|(key, slot)| slot.to_wire(key));
        AgentMessage {
            session: 0,
            body: Some(Body::Hello(info.hello(held.collect()))),
        }
    }

    /// The stream ended. What the cluster holds, and the reports, stay.
    pub fn disconnect(&mut self) {
        self.session = None;
    }

    /// Takes a message of the open stream.
    pub fn receive(
        &mut self,
        message: HubMessage,
        now: Duration,
    ) -> Result<Vec<AgentEvent>, Violation> {
        let session = self.session.as_mut().ok_or(Violation::NoSession)?;
        let body = match (session.id, message.body) {
            // Comes before a Welcome, or at any time after it: it ends the session.
            (_, Some(Said::Reject(reject))) => return Ok(vec![AgentEvent::rejected(reject)]),
            (None, Some(Said::Welcome(welcome))) => {
                return Ok(vec![self.welcome(message.session, welcome, now)?]);
            }
            (None, _) => return Err(Violation::Unexpected("a message before Welcome")),
            (Some(id), _) if message.session != id.0 => {
                return Err(Violation::Foreign {
                    session: id,
                    got: message.session,
                });
            }
            (Some(_), body) => body,
        };
        session.liveness.hear(now);
        match body {
            // A kind that this build doesn't know is a sign of life and nothing else.
            None | Some(Said::Heartbeat(_)) => Ok(Vec::new()),
            Some(Said::Welcome(_) | Said::Reject(_)) => {
                Err(Violation::Unexpected("a second Welcome"))
            }
            Some(Said::SnapshotBegin(begin)) => self.snapshot_begins(begin.id),
            Some(Said::SnapshotEnd(end)) => self.snapshot_ends(end),
            Some(Said::Desired(desired)) => self.desired(desired),
            Some(Said::Tombstone(tombstone)) => self.tombstone(tombstone),
            Some(Said::Keep(keep)) => self.keep(keep.key.as_ref()),
            Some(Said::Certificate(v1::Certificate { certificate_pem })) => {
                self.renewal = None;
                Ok(vec![AgentEvent::Certificate { certificate_pem }])
            }
        }
    }

    /// The cluster's API server holds this value.
    pub fn applied(&mut self, key: &PlacementKey, generation: u64) {
        let slot = self.slots.get_mut(key);
        if slot.is_some_and(|slot| slot.applied(generation)) {
            self.owe(key);
        }
    }

    /// This value can't be applied as things are. [`Self::applied`] may follow when they change.
    pub fn refused(&mut self, key: &PlacementKey, generation: u64, refusal: Refusal) {
        if self
            .slots
            .get_mut(key)
            .is_some_and(|slot| slot.refused(generation, refusal))
        {
            self.reported(key);
            self.owe(key);
        }
    }

    /// Nothing of this key and UID is left, after [`AgentEvent::Tombstone`] or [`AgentEvent::Absent`]; anything else is
    /// ignored, since what is wanted is to be applied again. Returns the value that waited for it, and drops its reports.
    pub fn removed(&mut self, key: &PlacementKey, uid: &str) -> Option<AgentEvent> {
        let (gone, next) = self.slots.get_mut(key)?.removed(key, uid);
        if gone {
            self.endpoints.remove(key);
            self.placements.remove(key);
            self.reported(key);
            self.owe(key);
        }
        next
    }

    /// This is in the cluster. Where nothing is known of its key, it counts as held from the start.
    pub fn found(&mut self, held: &Held) {
        self.slots.entry(held.key.clone()).or_default().found(held);
    }

    /// How a placement is. Kept as the newest of its key, and sent when it differs from what this session sent before.
    /// Ignored for what the cluster doesn't hold.
    /// `observed`: when it was seen, by the clock of [`Self::transmit`].
    pub fn report(
        &mut self,
        key: PlacementKey,
        mut report: v1::PlacementReport,
        observed: Duration,
    ) {
        if self
            .slots
            .get(&key)
            .is_some_and(|slot| slot.holds(&report.uid))
        {
            report.key = Some(key.to_wire());
            self.placements.put(key, report, observed);
        }
    }

    /// Has the placement been reported since the machine was made?
    pub fn has_report(&self, key: &PlacementKey) -> bool {
        self.placements.has(key) && self.endpoints.has(key)
    }

    /// Where the cluster admits traffic for a placement. As [`Self::report`].
    pub fn endpoint(
        &mut self,
        key: PlacementKey,
        mut report: v1::EndpointReport,
        observed: Duration,
    ) {
        if self
            .slots
            .get(&key)
            .is_some_and(|slot| slot.holds(&report.uid))
        {
            report.key = Some(key.to_wire());
            self.endpoints.put(key, report, observed);
        }
    }

    /// Asks for a certificate with this PKCS#10 request (DER), in this session or the next ones, until one comes.
    pub fn renew(&mut self, certificate_request: Bytes) {
        self.renewal = Some(certificate_request);
        if let Some(session) = &mut self.session {
            session.renewal_sent = false;
        }
    }

    /// The next message, if there is anything to say now: heartbeat, renewal, answers, then endpoints, then the other
    /// reports.
    pub fn transmit(&mut self, now: Duration) -> Option<AgentMessage> {
        let id = self.session.as_ref()?.id?;
        let body = self
            .next_control(now)
            .or_else(|| self.next_answer())
            .or_else(|| self.next_report(now))?;
        Some(AgentMessage {
            session: id.0,
            body: Some(body),
        })
    }

    /// When to call [`Self::transmit`] and [`Self::expired`] again if nothing else happens.
    pub fn deadline(&self) -> Option<Duration> {
        let session = self.session.as_ref()?;
        Some(if session.id.is_some() {
            session.liveness.deadline()
        } else {
            session.liveness.silence_ends()
        })
    }

    /// When [`Self::expired`] becomes true if nothing is heard until then: all that there is to wait for while the stream
    /// takes no message.
    pub fn silence_ends(&self) -> Option<Duration> {
        Some(self.session.as_ref()?.liveness.silence_ends())
    }

    /// Nothing was heard for the hub's `silence` (40 s before Welcome), or no session is open: end the stream.
    pub fn expired(&self, now: Duration) -> bool {
        self.session
            .as_ref()
            .is_none_or(|session| session.liveness.expired(now))
    }

    fn welcome(
        &mut self,
        id: u64,
        welcome: v1::Welcome,
        now: Duration,
    ) -> Result<AgentEvent, Violation> {
        let session = self.session.as_mut().ok_or(Violation::NoSession)?;
        let reportable = self.slots.iter().filter(|(_, slot)| slot.is_reportable());
        let unreported = reportable.map(|(key, _)| key.clone()).collect();
        let event = session.welcome(id, welcome, unreported, now)?;
        self.endpoints.restart();
        self.placements.restart();
        Ok(event)
    }

    fn snapshot_begins(&mut self, id: u64) -> Result<Vec<AgentEvent>, Violation> {
        let session = self.session.as_mut().ok_or(Violation::NoSession)?;
        session.snapshot_begins(id)?;
        self.slots.values_mut().for_each(Slot::snapshot_begins);
        Ok(Vec::new())
    }

    fn snapshot_ends(&mut self, end: v1::SnapshotEnd) -> Result<Vec<AgentEvent>, Violation> {
        let session = self.session.as_mut().ok_or(Violation::NoSession)?;
        session.snapshot_ends(end)?;
        let slots = self.slots.iter_mut();
        Ok(slots
            .filter_map(|(key, slot)| slot.snapshot_ends(key))
            .collect())
    }

    fn desired(&mut self, desired: v1::Desired) -> Result<Vec<AgentEvent>, Violation> {
        let v1::Desired {
            key,
            uid,
            generation,
            hash,
            body,
        } = desired;
        let key = PlacementKey::from_wire(key.as_ref())?;
        if uid.is_empty() {
            return Err(Malformed::NoUid(key).into());
        }
        let hash = Hash::from_wire(&hash)?;
        let slot = self.slots.entry(key.clone()).or_default();
        let events = slot.desired(
            &key,
            Value {
                uid,
                generation,
                hash,
                body,
            },
        )?;
        self.count();
        self.owe(&key);
        Ok(events)
    }

    fn tombstone(&mut self, tombstone: v1::Tombstone) -> Result<Vec<AgentEvent>, Violation> {
        let v1::Tombstone { key, uid, orphan } = tombstone;
        let removal = if orphan {
            Removal::Orphan
        } else {
            Removal::Delete
        };
        let key = PlacementKey::from_wire(key.as_ref())?;
        if uid.is_empty() {
            return Err(Malformed::NoUid(key).into());
        }
        let event = self
            .slots
            .entry(key.clone())
            .or_default()
            .tombstone(&key, &uid, removal);
        self.count();
        self.owe(&key);
        Ok(event.into_iter().collect())
    }

    fn keep(&mut self, key: Option<&v1::Key>) -> Result<Vec<AgentEvent>, Violation> {
        let key = PlacementKey::from_wire(key)?;
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.keep();
        }
        self.count();
        Ok(Vec::new())
    }

    /// One more message of an open snapshot.
    fn count(&mut self) {
        if let Some(session) = &mut self.session {
            session.count();
        }
    }

    fn owe(&mut self, key: &PlacementKey) {
        if let Some(session) = &mut self.session {
            session.answers.insert(key.clone());
        }
    }

    fn next_control(&mut self, now: Duration) -> Option<Body> {
        let session = self.session.as_mut()?;
        if session.liveness.beat(now) {
            return Some(Body::Heartbeat(v1::Heartbeat {}));
        }
        let certificate_request = self.renewal.clone()?;
        if session.renewal_sent {
            return None;
        }
        session.renewal_sent = true;
        Some(Body::Renew(v1::RenewRequest {
            certificate_request,
        }))
    }

    fn next_answer(&mut self) -> Option<Body> {
        let answers = &mut self.session.as_mut()?.answers;
        loop {
            let key = answers.next()?;
            let Some(slot) = self.slots.get_mut(&key) else {
                continue;
            };
            let answer = slot.next_answer(&key);
            if slot.is_empty() {
                self.slots.remove(&key);
            } else if answer.is_some() {
                // It may owe more: Removed, and Received of what came instead.
                answers.insert(key);
            }
            if answer.is_some() {
                return answer;
            }
        }
    }

    fn next_report(&mut self, now: Duration) -> Option<Body> {
        if let Some((key, report, age_us)) = self.endpoints.next(now) {
            self.reported(&key);
            return Some(Body::Endpoint(v1::EndpointReport { age_us, ..report }));
        }
        if let Some((key, report, age_us)) = self.placements.next(now) {
            self.reported(&key);
            return Some(Body::Placement(v1::PlacementReport { age_us, ..report }));
        }
        let complete = self.session.as_mut()?.complete();
        complete.then_some(Body::ReportsComplete(v1::ReportsComplete {}))
    }

    /// Nothing more is to come of this key before `ReportsComplete`: both reports were sent, or there are none to come.
    fn reported(&mut self, key: &PlacementKey) {
        let none_to_come = self.slots.get(key).is_none_or(|slot| !slot.is_reportable());
        let sent = self.endpoints.is_sent(key) && self.placements.is_sent(key);
        if let Some(session) = self.session.as_mut().filter(|_| none_to_come || sent) {
            session.reported(key);
        }
    }
}
