//! Does the gateway of every target cluster accept the traffic route?

use crds::condition::{TRAFFIC_ROUTE_PROVISION, Verdict};

use crate::{clusters::Cluster, facts::Step};

/// True when every target's agent says so.
pub(super) fn traffic_route_provision(targets: &[&Cluster]) -> Verdict {
    super::over_step(
        TRAFFIC_ROUTE_PROVISION,
        targets,
        Step::TrafficRoute,
        "every target's gateway accepts the traffic route",
    )
}
