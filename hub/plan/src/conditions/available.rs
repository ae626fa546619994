//! Are enough clusters routable?

use crds::{
    condition::{AVAILABLE, Verdict},
    reason,
    v1alpha1::InferenceServer,
};

use crate::clusters::Cluster;

/// True when at least `minReadyClusters` are routable. A cluster that can't be heard counts as it was last published.
pub(super) fn available(server: &InferenceServer, targets: &[&Cluster]) -> Verdict {
    let (routable, wanted) = (
        targets.iter().filter(|cluster| cluster.routable).count(),
        server.spec.min_ready_clusters,
    );
    let message = format!(
        "{routable} of {} clusters are routable; minReadyClusters is {wanted}",
        targets.len()
    );
    if u32::try_from(routable).is_ok_and(|routable| routable < wanted) {
        return Verdict::no(AVAILABLE, reason::TOO_FEW_CLUSTERS, message);
    }
    Verdict::yes(AVAILABLE, reason::SERVING, message)
}
