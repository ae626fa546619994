//! Does the model list exist in every target cluster?

use crds::condition::{MODEL_CONFIG_PROVISION, Verdict};

use crate::{clusters::Cluster, facts::Step};

/// True when every target's agent says so.
pub(super) fn model_config_provision(targets: &[&Cluster]) -> Verdict {
    super::over_step(
        MODEL_CONFIG_PROVISION,
        targets,
        Step::ModelConfig,
        "every target has its model list",
    )
}
