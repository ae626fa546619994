//! Does the hub's gateway accept the discovery route?

use crds::condition::{DISCOVERY_ROUTE_PROVISION, Verdict};

use crate::{facts::Facts, routes};

/// True when every Gateway that the routes attach to says Accepted and ResolvedRefs.
pub(super) fn discovery_route_provision(facts: &Facts<'_>) -> Verdict {
    let found = routes::verdict(facts);
    Verdict::new(
        DISCOVERY_ROUTE_PROVISION,
        found.state,
        &found.reason,
        found.message,
    )
}
