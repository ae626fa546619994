//! The newest report per key of one kind: sent when it differs from what this session sent before.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::identifiers::PlacementKey;
use crate::session::turns::Turns;

#[derive(Debug, Clone, PartialEq)]
struct Report<T> {
    newest: T,
    /// When the newest was seen first; `None` once an earlier session said it.
    observed: Option<Duration>,
    sent: Option<T>,
}

/// Reports of one kind, one per key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reports<T> {
    of: BTreeMap<PlacementKey, Report<T>>,
    turns: Turns,
}

impl<T: Clone + PartialEq> Reports<T> {
    pub(super) fn new() -> Self {
        Self {
            of: BTreeMap::new(),
            turns: Turns::default(),
        }
    }

    pub(super) fn put(&mut self, key: PlacementKey, newest: T, observed: Duration) {
        let before = self.of.remove(&key);
        let known = before.as_ref().filter(|report| report.newest == newest);
        let report = Report {
            observed: known.map_or(Some(observed), |report| report.observed),
            newest,
            sent: before.and_then(|report| report.sent),
        };
        self.of.insert(key.clone(), report);
        self.turns.insert(key);
    }

    /// Nothing is left to report on.
    pub(super) fn remove(&mut self, key: &PlacementKey) {
        self.of.remove(key);
    }

    /// A new session has sent nothing yet.
    pub(super) fn restart(&mut self) {
        for (key, report) in &mut self.of {
            if report.sent.take().as_ref() == Some(&report.newest) {
                report.observed = None;
            }
            self.turns.insert(key.clone());
        }
    }

    /// The next one to send, and how long ago it was seen, in microseconds.
    pub(super) fn next(&mut self, now: Duration) -> Option<(PlacementKey, T, Option<u64>)> {
        loop {
            let key = self.turns.next()?;
            let Some(report) = self.of.get_mut(&key) else {
                continue;
            };
            if report.sent.as_ref() != Some(&report.newest) {
                report.sent = Some(report.newest.clone());
                let age = report.observed.map(|observed| now.saturating_sub(observed));
                let age_us = age.map(|age| u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
                return Some((key, report.newest.clone(), age_us));
            }
        }
    }

    pub(super) fn has(&self, key: &PlacementKey) -> bool {
        self.of.contains_key(key)
    }

    pub(super) fn is_sent(&self, key: &PlacementKey) -> bool {
        self.of.get(key).is_some_and(|report| report.sent.is_some())
    }
}
