//! The discovery Services of a server and their EndpointSlices.
//!
//! One slice per Service, cluster, family and shard, so that a change in one cluster touches no other's.

use std::{collections::BTreeMap, net::IpAddr};

use crds::{ClusterName, labels, names};
use k8s_openapi::{
    api::{
        core::v1::{Service, ServicePort, ServiceSpec},
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{
    clusters::Cluster,
    facts::Facts,
    owner,
    weights::{Class, Share, classes},
};

/// The port of every discovery Service. HTTPRoutes name it by number.
pub const PORT: i32 = 80;
/// Its name, in Services and slices.
pub const PORT_NAME: &str = "http";
/// An EndpointSlice may hold more; the endpoints controller of Kubernetes stops at this as well.
const ADDRESSES_PER_SLICE: usize = 100;
/// A Service's name is a DNS label.
const SERVICE_NAME_MAX: usize = 63;

/// What the hub publishes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovery {
    /// `<name>-endpoints`, then one per weight class where there are several.
    pub services: Vec<Service>,
    /// All their slices.
    pub slices: Vec<EndpointSlice>,
    /// The Services that share the route's traffic, with their weights.
    pub backends: Vec<(String, u32)>,
    /// Were weight classes merged?
    pub merged: bool,
}

/// Plans what the hub publishes. A server under deletion keeps its Services, with nothing ready, until it goes.
pub fn discovery(facts: &Facts<'_>, clusters: &[Cluster]) -> Discovery {
    let deleting = facts.server.metadata.deletion_timestamp.is_some();
    let published: Vec<_> = clusters
        .iter()
        .filter(|cluster| cluster.weight.is_some() && !cluster.addresses.is_empty())
        .collect();
    let shares: Vec<_> = published
        .iter()
        .filter_map(|cluster| share(cluster))
        .collect();
    let (classes, merged) = classes(&shares);
    let base = names::discovery_service(facts.name());
    let mut discovery = Discovery {
        merged,
        ..Discovery::default()
    };
    let mut add = |service: String, of: &[&&Cluster]| {
        for cluster in of {
            discovery
                .slices
                .extend(slices(facts, &service, cluster, deleting));
        }
        discovery.services.push(self::service(facts, service));
    };
    add(base.clone(), &published.iter().collect::<Vec<_>>());
    for Class {
        suffix, clusters, ..
    } in classes.iter().filter(|class| !class.suffix.is_empty())
    {
        let of: Vec<_> = published
            .iter()
            .filter(|cluster| clusters.contains(&cluster.name))
            .collect();
        add(class_service(facts, suffix), &of);
    }
    discovery.backends = classes
        .iter()
        .map(|class| {
            let service = if class.suffix.is_empty() {
                base.clone()
            } else {
                class_service(facts, &class.suffix)
            };
            (service, class.weight)
        })
        .collect();
    discovery
}

fn share(cluster: &Cluster) -> Option<Share> {
    let weight = cluster.weight.filter(|weight| *weight > 0)?;
    // Whoever reads the slices reads one family of them.
    let ipv4 = cluster
        .addresses
        .iter()
        .filter(|address| address.is_ipv4())
        .count();
    let addresses = ipv4.max(cluster.addresses.len() - ipv4);
    Some(Share {
        cluster: cluster.name.clone(),
        weight,
        addresses: u32::try_from(addresses).unwrap_or(u32::MAX),
        ready: cluster.routable,
    })
}

fn class_service(facts: &Facts<'_>, suffix: &str) -> String {
    fitted(
        &format!("{}{suffix}", names::discovery_service(facts.name())),
        SERVICE_NAME_MAX,
    )
}

/// The name, or its beginning with a hash of all of it (FNV-1a, 32 bit) when it is too long.
fn fitted(name: &str, length_max: usize) -> String {
    if name.len() <= length_max {
        return name.to_owned();
    }
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let start: String = name.chars().take(length_max - 9).collect();
    format!("{}-{hash:08x}", start.trim_end_matches('-'))
}

fn metadata(facts: &Facts<'_>, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(facts.namespace().to_owned()),
        labels: Some(
            [
                (labels::MANAGED_BY, labels::HUB),
                (labels::SERVER, facts.name()),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ),
        owner_references: Some(vec![owner(facts.server)]),
        ..ObjectMeta::default()
    }
}

fn service(facts: &Facts<'_>, name: String) -> Service {
    Service {
        metadata: metadata(facts, name),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            ports: Some(vec![ServicePort {
                name: Some(PORT_NAME.to_owned()),
                port: PORT,
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// A slice under a class's Service has a dot where the common one's has a hyphen: a cluster may be called `w1-east`.
fn slice_name(
    facts: &Facts<'_>,
    service: &str,
    cluster: &ClusterName,
    family: &str,
    shard: usize,
) -> String {
    if service == names::discovery_service(facts.name()) {
        names::endpoint_slice(facts.name(), cluster, family, shard)
    } else {
        format!("{service}.{cluster}-{family}-{shard}")
    }
}

/// The slices of one cluster under one Service.
fn slices(
    facts: &Facts<'_>,
    service: &str,
    cluster: &Cluster,
    deleting: bool,
) -> Vec<EndpointSlice> {
    let mut families: BTreeMap<&str, Vec<IpAddr>> = BTreeMap::new();
    for address in &cluster.addresses {
        families
            .entry(if address.is_ipv4() { "ipv4" } else { "ipv6" })
            .or_default()
            .push(*address);
    }
    let ready = cluster.routable && cluster.weight.is_some_and(|weight| weight > 0) && !deleting;
    let mut slices = Vec::new();
    for (family, addresses) in families {
        for (shard, addresses) in addresses.chunks(ADDRESSES_PER_SLICE).enumerate() {
            let name = slice_name(facts, service, &cluster.name, family, shard);
            let mut metadata = metadata(facts, name);
            metadata.labels.get_or_insert_default().extend(
                [
                    (labels::SERVICE_NAME, service),
                    (labels::SLICE_MANAGED_BY, labels::SLICE_MANAGER),
                    (labels::SOURCE_CLUSTER, cluster.name.as_str()),
                    (labels::CLUSTER, cluster.name.as_str()),
                ]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
            );
            slices.push(EndpointSlice {
                metadata,
                address_type: if family == "ipv4" { "IPv4" } else { "IPv6" }.to_owned(),
                endpoints: addresses
                    .iter()
                    .map(|address| endpoint(*address, ready, cluster.routable))
                    .collect(),
                ports: Some(vec![EndpointPort {
                    name: Some(PORT_NAME.to_owned()),
                    port: Some(cluster.port.into()),
                    protocol: Some("TCP".to_owned()),
                    app_protocol: None,
                }]),
            });
        }
    }
    slices
}

/// `serving` tells a cluster that works from one that only takes no traffic, such as one of weight 0.
fn endpoint(address: IpAddr, ready: bool, serving: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(false),
        }),
        ..Endpoint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_ends_in_a_hash() {
        let (a, b) = (
            format!("{}-w1000", "x".repeat(60)),
            format!("{}-w1001", "x".repeat(60)),
        );
        assert_eq!(fitted("short", 63), "short");
        assert_eq!(fitted(&a, 63).len(), 63);
        assert_ne!(fitted(&a, 63), fitted(&b, 63));
        assert!(!fitted(&format!("abc{}", "-".repeat(70)), 63).contains("--"));
    }
}
