//! Do the model servers' objects exist in every target cluster?

use crds::condition::{BACKEND_PROVISION, Verdict};

use crate::{clusters::Cluster, facts::Step};

/// True when every target's agent says so.
pub(super) fn backend_provision(targets: &[&Cluster]) -> Verdict {
    super::over_step(
        BACKEND_PROVISION,
        targets,
        Step::Backend,
        "every target has its Deployment and Service",
    )
}
