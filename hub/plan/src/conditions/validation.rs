//! Can the specification be carried out at all? What the API server's own checks can't see.

use crds::{
    condition::{VALIDATION, Verdict},
    reason,
};

use crate::{facts::Facts, overrides::accelerator_profiles, placements};

/// True when the namespace may have servers and the profiles exist.
pub(super) fn validation(facts: &Facts<'_>) -> Verdict {
    if placements::is_refused(facts.server) {
        let message = "namespace cluster can have no InferenceServer: /cluster/... are the paths between hub and members";
        return Verdict::no(VALIDATION, reason::NAMESPACE_REFUSED, message);
    }
    let profile = &facts.server.spec.runtime.profile;
    if facts.profiles.runtime.is_none() {
        let message = format!(
            "there is no RuntimeProfile {profile}: create it, or name another in spec.runtime.profile"
        );
        return Verdict::no(VALIDATION, reason::PROFILE_NOT_FOUND, message);
    }
    let existing = &facts.profiles.accelerators;
    let named = accelerator_profiles(facts.server);
    let missing: Vec<_> = named
        .into_iter()
        .filter(|name| !existing.contains_key(*name))
        .collect();
    if !missing.is_empty() {
        let message = format!(
            "there is no AcceleratorProfile {}: create it, or name another in spec.accelerator.profile (or a target's overrides); clusters that need it keep what they run",
            missing.join(", ")
        );
        return Verdict::no(VALIDATION, reason::ACCELERATOR_PROFILE_NOT_FOUND, message);
    }
    Verdict::yes(
        VALIDATION,
        reason::VALID,
        format!("RuntimeProfile {profile} serves it"),
    )
}
