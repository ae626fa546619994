//! What is recorded of the profiles of one kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Revision;
use crate::overrides::{Missing, Pinned};

/// Revisions of an existing profile that are kept though no server has them: to go back to.
const HISTORY: usize = 10;

/// What is recorded of the profiles of one kind, by name.
#[derive(Clone, Debug)]
pub struct Shelf<S> {
    entries: BTreeMap<String, Entry<S>>,
}

impl<S> Default for Shelf<S> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
        }
    }
}

/// One profile, and what is recorded of it.
#[derive(Clone, Debug)]
pub struct Entry<S> {
    current: Option<Arc<S>>,
    revisions: BTreeMap<Revision, Record<S>>,
    failure: Option<String>,
}

impl<S> Default for Entry<S> {
    fn default() -> Self {
        Self {
            current: None,
            revisions: BTreeMap::new(),
            failure: None,
        }
    }
}

#[derive(Clone, Debug)]
struct Record<S> {
    /// `None` when what was recorded can't be read: its number is taken all the same.
    content: Option<Arc<S>>,
    /// The record is there. One that somebody deleted is remembered, since a server may have it.
    kept: bool,
}

/// What is to be done for one profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upkeep<S> {
    /// To be recorded.
    pub record: Vec<(Revision, Arc<S>)>,
    /// To be deleted: no server has them.
    pub prune: Vec<Revision>,
    /// Gone, and to be remembered no more: no server has them.
    pub forget: Vec<Revision>,
}

impl<S: PartialEq> Shelf<S> {
    /// What is known of a profile.
    pub fn entry(&self, name: &str) -> Option<&Entry<S>> {
        self.entries.get(name)
    }

    /// The profile says this now; `None`: it is gone.
    pub fn say(&mut self, name: &str, content: Option<S>) {
        self.change(name, |entry| entry.current = content.map(Arc::new));
    }

    /// This is recorded of a profile.
    pub fn put(&mut self, name: &str, revision: Revision, content: Option<S>) {
        let content = content.map(Arc::new);
        self.change(name, |entry| {
            let record = Record {
                content,
                kept: true,
            };
            entry.revisions.insert(revision, record);
            entry.failure = None;
        });
    }

    /// A record is gone.
    pub fn lose(&mut self, name: &str, revision: Revision) {
        self.change(name, |entry| {
            if let Some(record) = entry.revisions.get_mut(&revision) {
                record.kept = false;
            }
        });
    }

    /// A record is gone that nobody needs.
    pub fn forget(&mut self, name: &str, revision: Revision) {
        self.change(name, |entry| drop(entry.revisions.remove(&revision)));
    }

    /// Why the profile can't be recorded. Returns whether that is news.
    pub fn fail(&mut self, name: &str, why: Option<String>) -> bool {
        let Some(entry) = self.entries.get_mut(name) else {
            return false;
        };
        let is_news = entry.failure != why;
        entry.failure = why;
        is_news
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Entry<S>)) {
        let entry = self.entries.entry(name.to_owned()).or_default();
        change(entry);
        if entry.current.is_none() && entry.revisions.is_empty() {
            self.entries.remove(name);
        }
    }
}

impl<S: PartialEq> Entry<S> {
    /// What a revision says, if it can be had.
    pub fn get(&self, revision: Revision) -> Option<&Arc<S>> {
        self.revisions.get(&revision)?.content.as_ref()
    }

    /// The revision that says what the profile says now. None while that is not recorded, and of a profile that is gone: no
    /// server is to be given less than it says.
    pub fn newest(&self) -> Option<Revision> {
        let (revision, record) = self.revisions.last_key_value()?;
        let says_it = self.current.is_some() && record.content == self.current;
        says_it.then_some(*revision)
    }

    /// The revisions that can be had.
    pub fn numbers(&self) -> Vec<Revision> {
        let there = self.revisions.iter();
        let there = there.filter(|(_, record)| record.content.is_some());
        there.map(|(revision, _)| *revision).collect()
    }

    /// What is to be done for the profile, while servers have the `used` revisions.
    pub fn upkeep(&self, used: &BTreeSet<Revision>) -> Upkeep<S> {
        let newest = self.newest();
        let is_needed = |revision: &Revision| used.contains(revision) || newest == Some(*revision);
        let mut upkeep = Upkeep {
            record: Vec::new(),
            prune: Vec::new(),
            forget: Vec::new(),
        };
        let mut history = if self.current.is_some() { HISTORY } else { 0 };
        for (revision, record) in self.revisions.iter().rev() {
            match &record.content {
                Some(content) if !record.kept && is_needed(revision) => {
                    upkeep.record.push((*revision, Arc::clone(content)));
                }
                _ if !record.kept => upkeep.forget.push(*revision),
                _ if is_needed(revision) => {}
                _ if history > 0 => history -= 1,
                _ => upkeep.prune.push(*revision),
            }
        }
        if let (Some(current), None) = (&self.current, newest) {
            let last = self.revisions.keys().chain(used).max();
            let next = last.map_or(1, |last| last.saturating_add(1));
            upkeep.record.push((next, Arc::clone(current)));
        }
        upkeep
    }
}

/// What a server that is pinned to that revision has.
pub(super) fn take<S: PartialEq>(
    entry: Option<&Entry<S>>,
    pinned: Option<Revision>,
) -> Result<Pinned<S>, Missing> {
    let entry = entry.ok_or(Missing::Profile)?;
    match pinned {
        Some(revision) => match entry.get(revision) {
            Some(content) => Ok(Pinned {
                revision,
                content: Arc::clone(content),
            }),
            None => Err(Missing::Revision(revision, entry.numbers())),
        },
        None if entry.current.is_some() => Err(Missing::Unrecorded(entry.failure.clone())),
        None => Err(Missing::Profile),
    }
}
