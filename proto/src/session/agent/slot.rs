//! One key, as the agent sees it: what its cluster holds or is about to, what waits for a removal, and what is owed to the hub.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{AgentEvent, Held, Refusal};
use crate::identifiers::{Hash, PlacementKey};
use crate::session::{Removal, Violation};
use crate::v1;
use crate::v1::agent_message::Body;

/// The reason of a refusal when a body isn't what its hash says.
pub const HASH_MISMATCH: &str = "HashMismatch";

/// A value as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) uid: String,
    pub(super) generation: u64,
    pub(super) hash: Hash,
    pub(super) body: Bytes,
}

/// What became of the current value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Pending,
    Applied,
    Refused(Refusal),
}

/// What the cluster holds, or was given to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Current {
    uid: String,
    generation: u64,
    hash: Hash,
    outcome: Outcome,
    /// The cluster holds this value or an older one of its UID.
    held: bool,
    /// The cluster was told to remove it, and how.
    removing: Option<Removal>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Slot {
    current: Option<Current>,
    /// Comes after the removal of `current`.
    waiting: Option<Value>,
    /// This session sent a tombstone of `current`, and waits for Removed.
    asked: bool,
    /// UIDs of tombstones to answer by Removed.
    removed: BTreeSet<String>,
    /// A generation to refuse, because its body isn't what its hash says.
    mismatched: Option<u64>,
    /// The newest value is to be acknowledged.
    answer: bool,
    /// The snapshot names `current`.
    mentioned: bool,
}

impl Slot {
    pub(super) fn held(held: &Held) -> Self {
        Self {
            current: Some(Current {
                uid: held.uid.clone(),
                generation: held.generation,
                hash: held.hash,
                outcome: Outcome::Applied,
                held: true,
                removing: None,
            }),
            ..Self::default()
        }
    }

    /// What the hub has given is known better. What it has not is in its next session's snapshot, or goes.
    pub(super) fn found(&mut self, held: &Held) {
        if self.current.is_none() {
            self.current = Self::held(held).current;
        }
    }

    /// A new session owes nothing and has said nothing. A value that waits came from the old one, and comes again.
    pub(super) fn connect(&mut self) {
        *self = Self {
            current: self.current.take(),
            ..Self::default()
        };
    }

    pub(super) fn to_wire(&self, key: &PlacementKey) -> Option<v1::Held> {
        let current = self.current.as_ref()?;
        Some(v1::Held {
            key: Some(key.to_wire()),
            uid: current.uid.clone(),
            generation: current.generation,
            hash: current.hash.to_wire(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The cluster holds a placement of this UID, or was given one to apply.
    pub(super) fn holds(&self, uid: &str) -> bool {
        self.current
            .as_ref()
            .is_some_and(|current| current.uid == uid)
    }

    /// A placement is there that can be reported. One that is still to be applied is nothing to wait for: that may take as
    /// long as the cluster likes.
    pub(super) fn is_reportable(&self) -> bool {
        self.current
            .as_ref()
            .is_some_and(|current| current.held && !matches!(current.outcome, Outcome::Refused(_)))
    }

    pub(super) fn desired(
        &mut self,
        key: &PlacementKey,
        value: Value,
    ) -> Result<Vec<AgentEvent>, Violation> {
        if Hash::of(&value.body) != value.hash {
            // What it would have replaced stays, and isn't absent either: nothing is done on a broken word.
            self.mismatched = Some(value.generation);
            self.mentioned = true;
            return Ok(Vec::new());
        }
        let Some(current) = &mut self.current else {
            return Ok(vec![self.take(key, value)]);
        };
        if current.removing.is_some() {
            self.wait(value);
            return Ok(Vec::new());
        }
        if current.uid != value.uid {
            current.removing = Some(Removal::Delete);
            let uid = current.uid.clone();
            self.wait(value);
            return Ok(vec![AgentEvent::Tombstone {
                key: key.clone(),
                uid,
                removal: Removal::Delete,
            }]);
        }
        if current.generation == value.generation && current.hash != value.hash {
            return Err(Violation::Conflict {
                key: key.clone(),
                generation: value.generation,
            });
        }
        if value.generation < current.generation {
            self.mentioned = true;
            self.answer = true;
            return Ok(Vec::new());
        }
        Ok(vec![self.take(key, value)])
    }

    /// The value becomes the current one.
    fn take(&mut self, key: &PlacementKey, value: Value) -> AgentEvent {
        let Value {
            uid,
            generation,
            hash,
            body,
        } = value;
        let older = self.current.take_if(|current| current.uid == uid);
        let held = older.as_ref().is_some_and(|older| older.held);
        let known = older.filter(|older| older.generation == generation);
        self.current = Some(Current {
            uid: uid.clone(),
            generation,
            hash,
            outcome: known.map_or(Outcome::Pending, |known| known.outcome),
            held,
            removing: None,
        });
        self.mentioned = true;
        self.answer = true;
        AgentEvent::Desired {
            key: key.clone(),
            uid,
            generation,
            hash,
            body,
        }
    }

    fn wait(&mut self, value: Value) {
        let older = self.waiting.as_ref().is_some_and(|waiting| {
            waiting.uid == value.uid && waiting.generation > value.generation
        });
        if !older {
            self.waiting = Some(value);
        }
        self.answer = true;
    }

    pub(super) fn tombstone(
        &mut self,
        key: &PlacementKey,
        uid: &str,
        removal: Removal,
    ) -> Option<AgentEvent> {
        self.waiting.take_if(|waiting| waiting.uid == uid);
        let Some(current) = self.current.as_mut().filter(|current| current.uid == uid) else {
            self.removed.insert(uid.to_owned());
            return None;
        };
        self.asked = true;
        self.mentioned = true;
        if current.removing == Some(removal) {
            return None;
        }
        current.removing = Some(removal);
        Some(AgentEvent::Tombstone {
            key: key.clone(),
            uid: uid.to_owned(),
            removal,
        })
    }

    pub(super) fn snapshot_begins(&mut self) {
        self.mentioned = false;
    }

    /// The snapshot names `current` and leaves it as it is.
    pub(super) fn keep(&mut self) {
        self.mentioned = true;
    }

    pub(super) fn snapshot_ends(&mut self, key: &PlacementKey) -> Option<AgentEvent> {
        let current = self.current.as_mut()?;
        if self.mentioned || current.removing.is_some() {
            return None;
        }
        current.removing = Some(Removal::Delete);
        Some(AgentEvent::Absent {
            key: key.clone(),
            uid: current.uid.clone(),
        })
    }

    /// Returns whether there is something new to answer.
    pub(super) fn applied(&mut self, generation: u64) -> bool {
        self.settle(generation, Outcome::Applied)
    }

    /// Returns whether there is something new to answer.
    pub(super) fn refused(&mut self, generation: u64, refusal: Refusal) -> bool {
        self.settle(generation, Outcome::Refused(refusal))
    }

    /// Only the newest value's outcome counts, and only a new one is said.
    fn settle(&mut self, generation: u64, outcome: Outcome) -> bool {
        let Some(current) = &mut self.current else {
            return false;
        };
        let new = current.generation == generation
            && current.removing.is_none()
            && current.outcome != outcome;
        if new {
            current.held |= outcome == Outcome::Applied;
            current.outcome = outcome;
            self.answer = true;
        }
        new
    }

    /// Returns whether this was the removal that was asked for, and the value that waited for it.
    pub(super) fn removed(&mut self, key: &PlacementKey, uid: &str) -> (bool, Option<AgentEvent>) {
        let gone = self
            .current
            .take_if(|current| current.uid == uid && current.removing.is_some());
        if gone.is_none() {
            return (false, None);
        }
        if std::mem::take(&mut self.asked) {
            self.removed.insert(uid.to_owned());
        }
        self.answer = false;
        let next = self.waiting.take().map(|value| self.take(key, value));
        (true, next)
    }

    /// What is owed to the hub, one by one.
    pub(super) fn next_answer(&mut self, key: &PlacementKey) -> Option<Body> {
        if let Some(uid) = self.removed.pop_first() {
            return Some(Body::Removed(v1::Removed {
                key: Some(key.to_wire()),
                uid,
            }));
        }
        if let Some(generation) = self.mismatched.take() {
            return Some(refused(key, generation, &Refusal::hash_mismatch()));
        }
        if !std::mem::take(&mut self.answer) {
            return None;
        }
        let received = |generation| {
            Body::Received(v1::Received {
                key: Some(key.to_wire()),
                generation,
            })
        };
        if let Some(waiting) = &self.waiting {
            return Some(received(waiting.generation));
        }
        let Current {
            generation,
            outcome,
            removing,
            ..
        } = self.current.as_ref()?;
        match outcome {
            // What is being removed has no outcome any more.
            _ if removing.is_some() => None,
            Outcome::Pending => Some(received(*generation)),
            Outcome::Applied => Some(Body::Applied(v1::Applied {
                key: Some(key.to_wire()),
                generation: *generation,
            })),
            Outcome::Refused(refusal) => Some(refused(key, *generation, refusal)),
        }
    }
}

fn refused(key: &PlacementKey, generation: u64, refusal: &Refusal) -> Body {
    let Refusal {
        reason,
        field,
        message,
    } = refusal.clone();
    Body::Refused(v1::Refused {
        key: Some(key.to_wire()),
        generation,
        reason,
        field,
        message,
    })
}
