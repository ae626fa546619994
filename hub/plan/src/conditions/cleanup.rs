//! On the way out: is nothing left, in the members and of what was published?

use crds::{
    condition::{CLEANUP, Verdict},
    reason,
};

use crate::{clusters::Cluster, facts::Facts};

/// True when every member has confirmed that its part is gone and nothing is published any more.
pub(super) fn cleanup(facts: &Facts<'_>, clusters: &[Cluster]) -> Verdict {
    if let Some(message) = super::held(clusters) {
        return Verdict::unknown(CLEANUP, reason::REMOVING, message);
    }
    let observed = &facts.observed;
    let published =
        !facts.published.is_empty() || !observed.services.is_empty() || !observed.slices.is_empty();
    if published {
        let message = "the discovery Service and its EndpointSlices are not gone yet";
        return Verdict::unknown(CLEANUP, reason::REMOVING, message);
    }
    Verdict::yes(CLEANUP, reason::REMOVED, "nothing is left of it")
}
