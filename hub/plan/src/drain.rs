//! Draining: what is taken out of the traffic goes on with the requests that it has, for a while, before it goes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crds::{
    ClusterName,
    v1alpha1::{DeletionPolicy, InferenceServer},
};
use gateway_api::httproutes::HttpRoute;
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

/// The discovery route that still leads to a server which is on its way out: what it leads to does not even drain before it is
/// gone, however long that is refused. A cluster that is no target any more does not wait for it: others serve, and the route
/// goes on.
pub fn leading_route<'a>(
    server: &InferenceServer,
    routes: &'a [Arc<HttpRoute>],
    gateway_api: bool,
) -> Option<&'a str> {
    // Without its kind it leads nowhere, and nobody may be left to say that it is gone.
    let leads = gateway_api && is_leaving(server);
    let route = routes.first().filter(|_| leads)?;
    Some(route.metadata.name.as_deref().unwrap_or_default())
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
