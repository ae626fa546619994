//! The hub's memory of endpoints: what a cluster last had, read back from the EndpointSlices. A restart forgets nothing of it.

use std::{collections::BTreeMap, net::IpAddr};

use crds::{ClusterName, labels, names};
use k8s_openapi::{api::discovery::v1::EndpointSlice, jiff::Timestamp};

/// What the slices say of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The published addresses, sorted.
    pub addresses: Vec<IpAddr>,
    /// Their port.
    pub port: u16,
    /// Did a request that arrived there reach a model server, as the cluster last said?
    pub serving: bool,
    /// Since when they drain.
    pub draining_since: Option<Timestamp>,
    /// Since when the cluster could not be heard, if it was made unready for it.
    pub silent_since: Option<Timestamp>,
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
) -> Memory {
    let service = names::discovery_service(server);
    let mut memory = Memory::default();
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
        }
        memory.draining_since = memory
            .draining_since
            .or_else(|| moment(slice, labels::DRAINING_SINCE));
        memory.silent_since = memory
            .silent_since
            .or_else(|| moment(slice, labels::SILENT_SINCE));
    }
    memory.serving |= memory.silent_since.is_some();
    memory.addresses.sort_unstable();
    memory
}

/// A label of a slice.
pub(crate) fn label<'a>(slice: &'a EndpointSlice, name: &str) -> Option<&'a str> {
    let labels = slice.metadata.labels.as_ref()?;
    labels.get(name).map(String::as_str)
}

fn moment(slice: &EndpointSlice, name: &str) -> Option<Timestamp> {
    let annotations = slice.metadata.annotations.as_ref()?;
    annotations.get(name)?.parse().ok()
}
