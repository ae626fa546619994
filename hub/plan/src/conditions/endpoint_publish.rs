//! Is the endpoint of every target cluster published in the hub?

use crds::condition::{ENDPOINT_PUBLISH, Verdict};

use crate::{clusters::Cluster, endpoints::Discovery};

/// True when every target reports an endpoint that may be published.
pub(super) fn endpoint_publish(targets: &[&Cluster], discovery: &Discovery) -> Verdict {
    let found: Vec<_> = targets
        .iter()
        .map(|cluster| (*cluster, &cluster.endpoint))
        .collect();
    let done = if discovery.merged {
        "the endpoint of every target is published; targets of nearly equal weights share one"
    } else {
        "the endpoint of every target is published"
    };
    super::over_clusters(ENDPOINT_PUBLISH, &found, done)
}
