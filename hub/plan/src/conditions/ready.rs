//! Is every target ready for this generation?

use crds::{
    condition::{READY, State, Verdict},
    reason,
    v1alpha1::InferenceServer,
};

use crate::clusters::Cluster;

/// The conjunction of all steps: False if any is, else Unknown if any is, else True.
pub(super) fn ready(targets: &[&Cluster], steps: &[Verdict]) -> Verdict {
    for state in [State::False, State::Unknown] {
        let of_state = steps.iter().filter(|step| step.state == state);
        // Who waits for replicas wants to know why they are not ready, which is another step's word.
        if let Some(step) = of_state.min_by_key(|step| step.reason == reason::NOT_ROUTABLE) {
            return Verdict::new(
                READY,
                state,
                &step.reason,
                format!("{}: {}", step.kind, step.message),
            );
        }
    }
    Verdict::yes(
        READY,
        reason::SERVING,
        format!("all {} clusters serve", targets.len()),
    )
}

/// A server on its way out is not ready, and says whom it waits for.
pub(super) fn leaving(server: &InferenceServer, clusters: &[Cluster]) -> Verdict {
    let held = super::held(clusters);
    let reason = if server.metadata.deletion_timestamp.is_some() {
        reason::DELETING
    } else if held.is_none() {
        reason::DECOMMISSIONED
    } else {
        reason::DECOMMISSIONING
    };
    let message =
        held.unwrap_or_else(|| "every member has confirmed that its part is gone".to_owned());
    Verdict::no(READY, reason, message)
}
