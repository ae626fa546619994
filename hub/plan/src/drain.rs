//! Draining: what is taken out of the traffic goes on with the requests that it has, for a while, before it goes.

use std::collections::{BTreeMap, BTreeSet};

use crds::{
    ClusterName,
    v1alpha1::{DeletionPolicy, InferenceServer},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::{
    memory::PublishedEndpoint,
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
pub fn drain(server: &InferenceServer, memory: &PublishedEndpoint, now: Timestamp) -> Drain {
    if memory.addresses.is_empty() || !memory.served() {
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
    published: &BTreeMap<ClusterName, PublishedEndpoint>,
    leaving: &BTreeMap<ClusterName, DeletionPolicy>,
    now: Timestamp,
) -> BTreeSet<ClusterName> {
    let mut staying = if is_leaving(server) {
        BTreeSet::new()
    } else {
        targets(server)
    };
    staying.retain(|cluster| !leaving.contains_key(cluster));
    published
        .iter()
        .filter(|(cluster, _)| !staying.contains(*cluster))
        .filter(|(_, endpoint)| matches!(drain(server, endpoint, now), Drain::Since(..)))
        .map(|(cluster, _)| cluster.clone())
        .collect()
}

/// That many seconds later.
pub(crate) fn after(moment: Timestamp, seconds: u32) -> Timestamp {
    let span = SignedDuration::from_secs(seconds.into());
    moment.checked_add(span).unwrap_or(Timestamp::MAX)
}
