//! Can the specification be carried out at all? What the API server's own checks can't see.

use crds::{
    condition::{VALIDATION, Verdict},
    reason,
};

use crate::{
    facts::Facts,
    overrides::{Missing, accelerator_profiles},
    placements,
};

/// True when the namespace may have servers and its profiles can be had.
pub(super) fn validation(facts: &Facts<'_>) -> Verdict {
    if placements::is_refused(facts.server) {
        let message = "namespace cluster can have no InferenceServer: /cluster/... are the paths between hub and members";
        return Verdict::no(VALIDATION, reason::NAMESPACE_REFUSED, message);
    }
    let profile = &facts.server.spec.runtime.profile;
    let revision = match &facts.profiles.runtime {
        Ok(pinned) => pinned.revision,
        Err(missing) => return of_runtime(profile, missing),
    };
    of_accelerators(facts).unwrap_or_else(|| {
        let message = format!("revision {revision} of RuntimeProfile {profile} serves it");
        Verdict::yes(VALIDATION, reason::VALID, message)
    })
}

fn of_runtime(profile: &str, missing: &Missing) -> Verdict {
    match missing {
        Missing::Profile => {
            let message = format!(
                "there is no RuntimeProfile {profile}: create it, or name another in spec.runtime.profile"
            );
            Verdict::no(VALIDATION, reason::PROFILE_NOT_FOUND, message)
        }
        Missing::Revision(revision, there) => {
            let there = match there.as_slice() {
                [] => "none is kept".to_owned(),
                there => {
                    let there: Vec<_> = there.iter().map(ToString::to_string).collect();
                    format!("there is {}", there.join(", "))
                }
            };
            let message = format!(
                "there is no revision {revision} of RuntimeProfile {profile}, but {there}: name one of these in spec.runtime.profileRevision; clusters keep what they run"
            );
            Verdict::no(VALIDATION, reason::PROFILE_REVISION_NOT_FOUND, message)
        }
        Missing::Unrecorded(why) => {
            unrecorded(&format!("RuntimeProfile {profile}"), why.as_deref())
        }
    }
}

fn unrecorded(what: &str, why: Option<&str>) -> Verdict {
    let message = match why {
        None => format!("{what} is being recorded, so that its later edits restart nothing"),
        Some(why) => format!(
            "{what} can't be recorded, without which its later edits would restart servers: {why}"
        ),
    };
    Verdict::unknown(VALIDATION, reason::RECORDING_PROFILE, message)
}

/// What is wrong with the profiles of accelerators: first what somebody has to mend.
fn of_accelerators(facts: &Facts<'_>) -> Option<Verdict> {
    let existing = &facts.profiles.accelerators;
    let named = accelerator_profiles(facts.server).into_iter();
    let missing: Vec<_> = named
        .filter_map(|name| match existing.get(name) {
            Some(Ok(_)) => None,
            Some(Err(missing)) => Some((name, missing)),
            None => Some((name, &Missing::Profile)),
        })
        .collect();
    let absent = missing
        .iter()
        .filter(|(_, missing)| !matches!(missing, Missing::Unrecorded(_)));
    let absent: Vec<_> = absent.map(|(name, _)| *name).collect();
    if !absent.is_empty() {
        let message = format!(
            "there is no AcceleratorProfile {}: create it, or name another in spec.accelerator.profile (or a target's overrides); clusters that need it keep what they run",
            absent.join(", ")
        );
        let reason = reason::ACCELERATOR_PROFILE_NOT_FOUND;
        return Some(Verdict::no(VALIDATION, reason, message));
    }
    missing.into_iter().find_map(|(name, missing)| {
        let Missing::Unrecorded(why) = missing else {
            return None;
        };
        let what = format!("AcceleratorProfile {name}");
        Some(unrecorded(&what, why.as_deref()))
    })
}
