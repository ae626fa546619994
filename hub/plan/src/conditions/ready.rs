//! Is every target ready for this generation?

use crds::{
    condition::{READY, State, Verdict},
    reason,
};

use crate::{clusters::Cluster, facts::Facts};

/// The conjunction of all steps: False if any is, else Unknown if any is, else True.
pub(super) fn ready(targets: &[&Cluster], steps: &[Verdict]) -> Verdict {
    for state in [State::False, State::Unknown] {
        if let Some(step) = steps.iter().find(|step| step.state == state) {
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
pub(super) fn leaving(facts: &Facts<'_>, clusters: &[Cluster]) -> Verdict {
    let mut held = clusters.iter().filter(|cluster| cluster.is_left());
    let message = match held.next() {
        None => "every member has confirmed that its part is gone".to_owned(),
        Some(cluster) => match held.count() {
            0 => format!("waits for one cluster: {}", cluster.message),
            more => format!("waits for {} clusters: {}", more + 1, cluster.message),
        },
    };
    let reason = if facts.is_deleted() {
        reason::DELETING
    } else if !clusters.iter().any(Cluster::is_left) {
        reason::DECOMMISSIONED
    } else {
        reason::DECOMMISSIONING
    };
    Verdict::no(READY, reason, message)
}
