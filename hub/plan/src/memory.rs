//! The hub's memory: what a cluster that can't be heard last had, read back from the EndpointSlices.

use std::net::IpAddr;

use crds::{ClusterName, labels, names};

use crate::facts::Facts;

/// What the slices say of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The published addresses.
    pub addresses: Vec<IpAddr>,
    /// Their port.
    pub port: u16,
    /// Do they take traffic?
    pub ready: bool,
}

/// What the slices of `<name>-endpoints` say of a cluster.
pub fn remembered(facts: &Facts<'_>, cluster: &ClusterName) -> Memory {
    let service = names::discovery_service(facts.name());
    let mut memory = Memory::default();
    for slice in &facts.observed.slices {
        let label = |name: &str| {
            slice
                .metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(name))
        };
        let of_cluster = label(labels::CLUSTER).map(String::as_str) == Some(cluster.as_str());
        if !of_cluster || label(labels::SERVICE_NAME) != Some(&service) {
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
            memory.ready |= conditions.and_then(|conditions| conditions.serving) == Some(true);
        }
    }
    memory.addresses.sort_unstable();
    memory
}
