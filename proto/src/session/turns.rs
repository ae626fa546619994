//! Whose turn it is: keys that have something to say, each at most once, served in rounds so that a busy key never keeps
//! another waiting.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::identifiers::PlacementKey;

/// Keys that wait for their turn. Bounded by the number of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Turns {
    waiting: BTreeSet<PlacementKey>,
    /// The round goes on behind this key.
    served: Option<PlacementKey>,
}

impl Turns {
    pub(super) fn insert(&mut self, key: PlacementKey) {
        self.waiting.insert(key);
    }

    /// Takes the next key of the round.
    pub(super) fn next(&mut self) -> Option<PlacementKey> {
        let behind = self.served.as_ref().and_then(|served| {
            let range = (Bound::Excluded(served), Bound::Unbounded);
            self.waiting.range::<PlacementKey, _>(range).next().cloned()
        });
        let key = behind.or_else(|| self.waiting.first().cloned())?;
        self.waiting.remove(&key);
        self.served = Some(key.clone());
        Some(key)
    }
}
