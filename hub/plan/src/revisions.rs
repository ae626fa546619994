//! Revisions of profiles: which one a server has, and which are kept. An edit of a profile reaches no server by itself.
//!
//! What each profile says is recorded under a number when it changes. A server is pinned to numbers by an annotation that is
//! written with its finalizer, before any member is told of it; so what its members run follows from the server and the
//! records alone.

mod record;
mod shelf;

use std::collections::BTreeMap;

use crds::{
    labels,
    v1alpha1::{AcceleratorProfileSpec, InferenceServer, RuntimeProfileSpec, UpdatePolicy},
};
use serde::{Deserialize, Serialize};

pub use self::{
    record::{Profile, ProfileKind, ProfileName, Shelves, as_recorded, record, record_name},
    shelf::{Entry, Shelf, Upkeep},
};
use crate::overrides::{Missing, Profiles, accelerator_profiles};

/// The number of a revision of one profile: greater is newer.
pub type Revision = i64;

/// The revisions that a server is pinned to, by the names of profiles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pins {
    /// Of RuntimeProfiles: the one that it names, or last named while that one can't be had.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub runtime: BTreeMap<String, Revision>,
    /// Of AcceleratorProfiles.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub accelerators: BTreeMap<String, Revision>,
}

impl Pins {
    /// Those of a server. One whose annotation is missing or can't be read has none.
    pub fn of(server: &InferenceServer) -> Self {
        let annotations = server.metadata.annotations.as_ref();
        let text = annotations.and_then(|annotations| annotations.get(labels::PROFILE_REVISIONS));
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// As the annotation has it.
    ///
    /// # Errors
    /// None that could come about: numbers by names can always be written.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The profiles of which a server that was pinned like this holds a revision no more.
    pub fn left(&self, later: &Self) -> Vec<ProfileName> {
        if self == later {
            return Vec::new();
        }
        let runtimes = left::<RuntimeProfileSpec>(self, later);
        runtimes
            .chain(left::<AcceleratorProfileSpec>(self, later))
            .collect()
    }
}

fn left<S: Profile>(before: &Pins, later: &Pins) -> impl Iterator<Item = ProfileName> {
    let gone = S::pins(before)
        .iter()
        .filter(|(name, revision)| S::pins(later).get(*name) != Some(revision));
    gone.map(|(name, _)| ProfileName {
        kind: S::KIND,
        name: name.clone(),
    })
}

/// The revisions that a server is to be pinned to.
///
/// It stays where it is until `spec.runtime` names another profile or another revision, or follows its profile; accelerators
/// move with the runtime. What can't be had moves nothing: a name that is wrong for a moment costs no pin.
pub fn choose(server: &InferenceServer, shelves: &Shelves) -> Pins {
    let before = Pins::of(server);
    let runtime = &server.spec.runtime;
    let entry = shelves.runtimes.entry(&runtime.profile);
    let newest = entry.and_then(Entry::newest);
    let pinned = before.runtime.get(&runtime.profile).copied();
    let follows = runtime.update_policy == UpdatePolicy::Automatic;
    let wanted = match runtime.revision() {
        Some(revision) => {
            let there = entry.and_then(|entry| entry.get(revision));
            there.map(|_| revision).or(pinned)
        }
        None if follows => newest.or(pinned),
        None => pinned.or(newest),
    };
    let Some(wanted) = wanted else {
        return before;
    };
    let moves = follows || pinned != Some(wanted);
    let mut pins = Pins {
        runtime: [(runtime.profile.clone(), wanted)].into(),
        accelerators: BTreeMap::new(),
    };
    for name in accelerator_profiles(server) {
        let entry = shelves.accelerators.entry(name);
        let there = |revision: &Revision| entry.is_some_and(|entry| entry.get(*revision).is_some());
        let pinned = before.accelerators.get(name).copied().filter(there);
        let newest = entry.and_then(Entry::newest);
        let wanted = if moves {
            newest.or(pinned)
        } else {
            pinned.or(newest)
        };
        match wanted {
            Some(revision) => drop(pins.accelerators.insert(name.to_owned(), revision)),
            None => {
                for (name, revision) in &before.accelerators {
                    pins.accelerators.entry(name.clone()).or_insert(*revision);
                }
            }
        }
    }
    pins
}

/// What the profiles that a server names say to it, by its pins.
pub fn profiles(server: &InferenceServer, shelves: &Shelves) -> Profiles {
    let pins = Pins::of(server);
    let runtime = &server.spec.runtime;
    let pinned = pins.runtime.get(&runtime.profile).copied();
    let there = shelves.runtimes.entry(&runtime.profile);
    let named = match runtime.revision() {
        Some(named) if pinned != Some(named) => {
            let numbers = there.map(Entry::numbers).unwrap_or_default();
            Err(if numbers.contains(&named) {
                Missing::Unrecorded(None)
            } else {
                Missing::Revision(named, numbers)
            })
        }
        _ => shelf::take(there, pinned),
    };
    let of_accelerator = |name: &str| {
        let pinned = pins.accelerators.get(name).copied();
        (
            name.to_owned(),
            shelf::take(shelves.accelerators.entry(name), pinned),
        )
    };
    Profiles {
        runtime: named,
        accelerators: accelerator_profiles(server)
            .into_iter()
            .map(of_accelerator)
            .collect(),
    }
}

/// The revision of the runtime that a server is pinned to, as its status has it.
pub(crate) fn of_runtime(server: &InferenceServer) -> Option<String> {
    let pins = Pins::of(server);
    let revision = pins.runtime.get(&server.spec.runtime.profile)?;
    Some(revision.to_string())
}
