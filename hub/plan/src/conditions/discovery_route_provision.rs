//! Does the hub's gateway accept the discovery route?

use crds::condition::{DISCOVERY_ROUTE_PROVISION, Verdict};

use crate::facts::StepFacts;

/// True when every Gateway that the routes attach to says Accepted and ResolvedRefs.
pub(super) fn discovery_route_provision(said: &StepFacts) -> Verdict {
    Verdict::new(
        DISCOVERY_ROUTE_PROVISION,
        said.state,
        &said.reason,
        said.message.clone(),
    )
}
