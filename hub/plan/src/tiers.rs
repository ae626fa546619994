//! Tiers: a cluster of a higher tier takes traffic only while none of a lower one can. A failover is a matter of readiness
//! in the slices.

use crate::clusters::Cluster;

/// Marks the clusters that take traffic: routable, with a weight, and of the lowest tier that has such a cluster.
pub(crate) fn admit(clusters: &mut [Cluster]) {
    let able = |cluster: &Cluster| {
        cluster.routable && cluster.draining_since.is_none() && cluster.weight.unwrap_or(0) > 0
    };
    let active = clusters
        .iter()
        .filter(|cluster| able(cluster))
        .map(|cluster| cluster.tier)
        .min();
    for cluster in clusters {
        cluster.ready = able(cluster) && Some(cluster.tier) == active;
    }
}
