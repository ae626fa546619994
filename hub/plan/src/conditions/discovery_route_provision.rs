//! Does the hub's gateway accept the discovery route?

use crds::condition::{DISCOVERY_ROUTE_PROVISION, Verdict};

use crate::{facts::Facts, routes};

/// True when the Gateway that the hub's chart names says Accepted and ResolvedRefs.
pub(super) fn discovery_route_provision(facts: &Facts<'_>) -> Verdict {
    super::failure(DISCOVERY_ROUTE_PROVISION, facts, &["HTTPRoute"]).unwrap_or_else(|| {
        let found = routes::verdict(facts);
        Verdict::new(
            DISCOVERY_ROUTE_PROVISION,
            found.state,
            &found.reason,
            found.message,
        )
    })
}
