//! One key, as the hub sees it: what is wanted, what is to go, what the agent may hold, and what this session said of it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::identifiers::{Hash, PlacementKey};
use crate::session::Removal;
use crate::v1;
use crate::v1::hub_message::Body;

/// What a key is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) uid: String,
    pub(super) hash: Hash,
    pub(super) body: Bytes,
}

/// What the agent may hold at most: the value with the highest generation it can know.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    uid: String,
    hash: Hash,
}

/// A UID that is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Going {
    removal: Removal,
    /// This session sent its tombstone.
    told: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Slot {
    wanted: Option<Wanted>,
    /// Nothing is wanted, and what the agent holds is to stay.
    kept: bool,
    /// UIDs to remove. As many as objects are being deleted.
    going: BTreeMap<String, Going>,
    /// UIDs whose removal was confirmed, until the key is forgotten.
    gone: BTreeSet<String>,
    /// The highest generation the agent can know.
    generation: u64,
    /// What that generation says; `None` after its tombstone was sent.
    sent: Option<Sent>,
    /// This session sent `sent`.
    told: bool,
    /// This session waits for an answer to this generation.
    in_flight: Option<u64>,
    /// This session said something of the key.
    mentioned: bool,
}

impl Slot {
    /// Returns whether the value differs from what was wanted before.
    pub(super) fn want(&mut self, wanted: Wanted) -> bool {
        let before = self.wanted.take();
        let same = before
            .as_ref()
            .is_some_and(|before| before.uid == wanted.uid && before.hash == wanted.hash);
        if let Some(before) = before.filter(|before| before.uid != wanted.uid) {
            self.going(before.uid, Removal::Delete);
        }
        if self.going.get(&wanted.uid).is_some_and(|going| !going.told) {
            self.going.remove(&wanted.uid);
        }
        self.gone.remove(&wanted.uid);
        self.kept = false;
        self.wanted = Some(wanted);
        !same
    }

    pub(super) fn remove(&mut self, uid: &str, removal: Removal) {
        self.wanted.take_if(|wanted| wanted.uid == uid);
        self.kept = false;
        if !self.gone.contains(uid) {
            self.going(uid.to_owned(), removal);
        }
    }

    /// A tombstone, told anew when it is another one.
    fn going(&mut self, uid: String, removal: Removal) {
        let going = Going {
            removal,
            told: false,
        };
        let known = self.going.entry(uid).or_insert(going);
        if known.removal != removal {
            *known = going;
        }
    }

    /// What the agent holds is to stay; a value that is wanted already says so better.
    pub(super) fn keep(&mut self) {
        self.kept = self.wanted.is_none();
    }

    /// Nothing is wanted, to go, or remembered as gone. The generation stays, for as long as the agent may hold it.
    pub(super) fn forget(&mut self) {
        self.wanted = None;
        self.kept = false;
        self.going.clear();
        self.gone.clear();
    }

    /// A new session knows nothing of the key yet, except what the agent said it holds.
    pub(super) fn open(&mut self, held: Option<(&str, u64, Hash)>) {
        self.told = false;
        self.in_flight = None;
        self.mentioned = false;
        self.going.values_mut().for_each(|going| going.told = false);
        if let Some(wanted) = &self.wanted {
            self.going.remove(&wanted.uid);
        }
        match held {
            Some((uid, generation, hash)) if generation >= self.generation => {
                self.generation = generation;
                self.sent = Some(Sent {
                    uid: uid.to_owned(),
                    hash,
                });
            }
            Some(_) | None => {}
        }
    }

    /// Nothing to say of it and nothing to remember.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_named() && self.gone.is_empty()
    }

    /// A snapshot has to name it.
    pub(super) fn is_named(&self) -> bool {
        self.wanted.is_some() || self.kept || !self.going.is_empty()
    }

    pub(super) fn mentioned(&self) -> bool {
        self.mentioned
    }

    /// The next message of this key, if it needn't wait for an answer first.
    pub(super) fn next(&mut self, key: &PlacementKey, in_snapshot: bool) -> Option<Body> {
        let body = self
            .next_tombstone(key)
            .or_else(|| self.next_desired(key, in_snapshot))
            .or_else(|| self.next_keep(key, in_snapshot))?;
        self.mentioned = true;
        Some(body)
    }

    fn next_tombstone(&mut self, key: &PlacementKey) -> Option<Body> {
        let (uid, going) = self.going.iter_mut().find(|(_, going)| !going.told)?;
        going.told = true;
        if self.sent.take_if(|sent| sent.uid == *uid).is_some() {
            // The agent drops the value, and with it the answer that it owed.
            self.in_flight = None;
        }
        Some(Body::Tombstone(v1::Tombstone {
            key: Some(key.to_wire()),
            uid: uid.clone(),
            orphan: going.removal == Removal::Orphan,
        }))
    }

    /// A snapshot names what is to stay, since what it doesn't name goes.
    fn next_keep(&self, key: &PlacementKey, in_snapshot: bool) -> Option<Body> {
        let due = self.kept && in_snapshot && !self.mentioned;
        due.then(|| {
            Body::Keep(v1::Keep {
                key: Some(key.to_wire()),
            })
        })
    }

    fn next_desired(&mut self, key: &PlacementKey, in_snapshot: bool) -> Option<Body> {
        let known = self.generation();
        let wanted = self.wanted.as_ref()?;
        let removal_first = !in_snapshot && !self.going.is_empty();
        let waits =
            self.in_flight.is_some() || removal_first || self.going.contains_key(&wanted.uid);
        if waits || (self.told && known.is_some()) {
            return None;
        }
        let generation = known.unwrap_or_else(|| self.generation.saturating_add(1));
        self.generation = generation;
        self.sent = Some(Sent {
            uid: wanted.uid.clone(),
            hash: wanted.hash,
        });
        self.told = true;
        self.in_flight = Some(generation);
        Some(Body::Desired(v1::Desired {
            key: Some(key.to_wire()),
            uid: wanted.uid.clone(),
            generation,
            hash: wanted.hash.to_wire(),
            body: wanted.body.clone(),
        }))
    }

    /// The agent answered this generation: a newer value may go. `Err` with the highest generation it can know if this one
    /// is beyond.
    pub(super) fn answered(&mut self, generation: u64) -> Result<(), u64> {
        if generation > self.generation {
            return Err(self.generation);
        }
        self.in_flight.take_if(|in_flight| *in_flight == generation);
        Ok(())
    }

    /// The answer to a tombstone of this session. Returns whether its UID is gone for good: one that is wanted again comes
    /// back, and is to be removable again.
    pub(super) fn removed(&mut self, uid: &str) -> bool {
        if !self.going.get(uid).is_some_and(|going| going.told) {
            return false;
        }
        self.going.remove(uid);
        let gone = self.wanted.as_ref().is_none_or(|wanted| wanted.uid != uid);
        if gone {
            self.gone.insert(uid.to_owned());
        }
        gone
    }

    pub(super) fn wanted(&self) -> Option<&Wanted> {
        self.wanted.as_ref()
    }

    /// The generation of what is wanted now; `None` while it wasn't sent.
    pub(super) fn generation(&self) -> Option<u64> {
        let (wanted, sent) = (self.wanted.as_ref()?, self.sent.as_ref()?);
        (wanted.uid == sent.uid && wanted.hash == sent.hash).then_some(self.generation)
    }

    /// A value of this UID is wanted, or its removal is not confirmed yet.
    pub(super) fn is_told(&self, uid: &str) -> bool {
        let is_wanted = self.wanted.as_ref().is_some_and(|wanted| wanted.uid == uid);
        is_wanted || self.going.contains_key(uid)
    }

    pub(super) fn is_going(&self, uid: &str, removal: Removal) -> bool {
        self.going
            .get(uid)
            .is_some_and(|going| going.removal == removal)
    }

    pub(super) fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }
}
