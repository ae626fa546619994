//! Draining: what is taken out of the traffic goes on with the requests that it has, for a while, before it goes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crds::{
    ClusterName,
    v1alpha1::{DeletionPolicy, InferenceServer},
};
use k8s_openapi::{
    api::discovery::v1::EndpointSlice,
    jiff::{SignedDuration, Timestamp},
};

use crate::{
    memory::{Memory, by_cluster, remembered},
    placements::{is_leaving, targets},
};

/// How far the endpoints of one cluster are on their way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// Nothing is published there that served.
    Nothing,
    /// It drains, from and until then.
    Since(Timestamp, Timestamp),
    /// It has drained since then.
    Done(Timestamp),
}

/// How far the endpoints of a cluster are that go.
pub fn drain(server: &InferenceServer, memory: &Memory, now: Timestamp) -> Drain {
    if memory.addresses.is_empty() || !memory.serving {
        return Drain::Nothing;
    }
    let since = memory.draining_since.unwrap_or(now);
    let until = after(since, server.spec.endpoints.drain_seconds);
    if now < until {
        Drain::Since(since, until)
    } else {
        Drain::Done(since)
    }
}

/// The clusters whose part of the server is on its way out and whose endpoints have not drained: what they run stays until
/// then. `leaving` are those whose MemberCluster is being deleted.
pub fn draining(
    server: &InferenceServer,
    slices: &[Arc<EndpointSlice>],
    leaving: &BTreeMap<ClusterName, DeletionPolicy>,
    now: Timestamp,
) -> BTreeSet<ClusterName> {
    let mut staying = if is_leaving(server) {
        BTreeSet::new()
    } else {
        targets(server)
    };
    staying.retain(|cluster| !leaving.contains_key(cluster));
    let name = server.metadata.name.as_deref().unwrap_or_default();
    by_cluster(slices.iter().map(AsRef::as_ref))
        .into_iter()
        .filter_map(|(cluster, slices)| Some((cluster.parse::<ClusterName>().ok()?, slices)))
        .filter(|(cluster, _)| !staying.contains(cluster))
        .filter(|(cluster, slices)| {
            let memory = remembered(slices.iter().copied(), name, cluster);
            matches!(drain(server, &memory, now), Drain::Since(..))
        })
        .map(|(cluster, _)| cluster)
        .collect()
}

/// That many seconds later.
pub(crate) fn after(moment: Timestamp, seconds: u32) -> Timestamp {
    let span = SignedDuration::from_secs(seconds.into());
    moment.checked_add(span).unwrap_or(Timestamp::MAX)
}
