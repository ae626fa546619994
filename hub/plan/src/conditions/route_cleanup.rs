//! On the way out: does no route lead to the server any more?

use crds::{
    condition::{ROUTE_CLEANUP, Verdict},
    reason,
};

use crate::{clusters::Cluster, facts::Facts};

/// True when the discovery routes are gone and every member has confirmed that its part is: members take routes first.
pub(super) fn route_cleanup(facts: &Facts<'_>, clusters: &[Cluster]) -> Verdict {
    // Of a kind that is gone nobody may be left to say that its objects are.
    let routes = facts.observed.routes.first().filter(|_| facts.gateway_api);
    if let Some(route) = routes {
        let name = route.metadata.name.as_deref().unwrap_or_default();
        let message = format!("HTTPRoute {name} is not gone yet");
        return Verdict::unknown(ROUTE_CLEANUP, reason::REMOVING, message);
    }
    match super::held(clusters) {
        Some(message) => Verdict::unknown(ROUTE_CLEANUP, reason::REMOVING, message),
        None => Verdict::yes(ROUTE_CLEANUP, reason::REMOVED, "no route leads to it"),
    }
}
