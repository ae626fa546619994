//! Is every wanted replica ready?

use crds::condition::{HEALTH_CHECK, Verdict};

use crate::{clusters::Cluster, facts::Step};

/// True when every target's agent says so.
pub(super) fn health_check(targets: &[&Cluster]) -> Verdict {
    super::over_step(
        HEALTH_CHECK,
        targets,
        Step::Health,
        "every wanted replica is ready",
    )
}
