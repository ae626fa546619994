//! The hub's memory of endpoints: what is published of each cluster, as whoever publishes them gives it back. By default it is
//! read from the EndpointSlices: a restart forgets nothing of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crds::{ClusterName, labels, names};
use k8s_openapi::{api::discovery::v1::EndpointSlice, jiff::Timestamp};

/// What is published of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedEndpoint {
    /// Where it admits traffic, sorted.
    pub addresses: Vec<IpAddr>,
    /// The port of all of them. They speak plain HTTP.
    pub port: u16,
    /// Does it take traffic?
    pub ready: bool,
    /// Does a request that arrives there reach a model server, as the cluster last said?
    pub serving: bool,
    /// Since when it takes no new traffic, and goes on with the old.
    pub draining_since: Option<Timestamp>,
    /// Since when the cluster could not be heard, if it was made unready for it.
    pub silent_since: Option<Timestamp>,
    /// The host names that some of the addresses came from.
    pub hostnames: BTreeSet<String>,
}

/// Of a cluster of which nothing is published.
pub(crate) static NOTHING: PublishedEndpoint = PublishedEndpoint {
    addresses: Vec::new(),
    port: 0,
    ready: false,
    serving: false,
    draining_since: None,
    silent_since: None,
    hostnames: BTreeSet::new(),
};

impl PublishedEndpoint {
    /// Did it lead to a model server when the cluster was last heard?
    pub(crate) fn served(&self) -> bool {
        self.serving || self.silent_since.is_some()
    }
}

/// What the slices of `<server>-endpoints` say of every cluster. One that is on its way out says nothing any more.
pub fn published<'a>(
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    server: &str,
) -> BTreeMap<ClusterName, PublishedEndpoint> {
    let slices = slices
        .into_iter()
        .filter(|slice| slice.metadata.deletion_timestamp.is_none());
    let found = by_cluster(slices).into_iter().filter_map(|(name, slices)| {
        let cluster = name.parse().ok()?;
        let endpoint = remembered(slices, server, &cluster);
        (!endpoint.addresses.is_empty()).then_some((cluster, endpoint))
    });
    found.collect()
}

/// Slices by the cluster that they speak of.
pub(crate) type ByCluster<'a> = BTreeMap<&'a str, Vec<&'a EndpointSlice>>;

/// The slices of each cluster: found once, since a server may have a thousand of both.
pub(crate) fn by_cluster<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>) -> ByCluster<'a> {
    let mut found = ByCluster::new();
    for slice in slices {
        if let Some(cluster) = label(slice, labels::CLUSTER) {
            found.entry(cluster).or_default().push(slice);
        }
    }
    found
}

/// Those of one cluster.
pub(crate) fn of_cluster<'a>(
    slices: &ByCluster<'a>,
    cluster: &ClusterName,
) -> impl Iterator<Item = &'a EndpointSlice> {
    slices.get(cluster.as_str()).into_iter().flatten().copied()
}

/// What the slices of `<server>-endpoints` say of a cluster.
pub fn remembered<'a>(
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    server: &str,
    cluster: &ClusterName,
) -> PublishedEndpoint {
    let service = names::discovery_service(server);
    let mut memory = PublishedEndpoint::default();
    for slice in slices {
        if label(slice, labels::CLUSTER) != Some(cluster.as_str())
            || label(slice, labels::SERVICE_NAME) != Some(&service)
        {
            continue;
        }
        let port = slice.ports.iter().flatten().find_map(|port| port.port);
        memory.port = port
            .and_then(|port| port.try_into().ok())
            .unwrap_or(memory.port);
        for endpoint in &slice.endpoints {
            memory.addresses.extend(
                endpoint
                    .addresses
                    .iter()
                    .filter_map(|address| address.parse::<IpAddr>().ok()),
            );
            let conditions = endpoint.conditions.as_ref();
            memory.serving |= conditions.and_then(|conditions| conditions.serving) == Some(true);
            memory.ready |= conditions.and_then(|conditions| conditions.ready) == Some(true);
        }
        memory.draining_since = memory
            .draining_since
            .or_else(|| moment(slice, labels::DRAINING_SINCE));
        memory.silent_since = memory
            .silent_since
            .or_else(|| moment(slice, labels::SILENT_SINCE));
        let names = annotation(slice, labels::HOSTNAMES).unwrap_or_default();
        let names = names.split(',').filter(|name| !name.is_empty());
        memory.hostnames.extend(names.map(str::to_owned));
    }
    memory.addresses.sort_unstable();
    memory
}

/// A label of a slice.
pub(crate) fn label<'a>(slice: &'a EndpointSlice, name: &str) -> Option<&'a str> {
    let labels = slice.metadata.labels.as_ref()?;
    labels.get(name).map(String::as_str)
}

fn annotation<'a>(slice: &'a EndpointSlice, name: &str) -> Option<&'a str> {
    let annotations = slice.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

fn moment(slice: &EndpointSlice, name: &str) -> Option<Timestamp> {
    annotation(slice, name)?.parse().ok()
}
