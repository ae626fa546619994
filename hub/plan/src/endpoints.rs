//! The discovery Services of a server and their EndpointSlices.
//!
//! One slice per Service, cluster, family and shard, so that a change in one cluster touches no other's.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crds::{ClusterName, labels, names};
use k8s_openapi::{
    api::{
        core::v1::{Service, ServicePort, ServiceSpec},
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    jiff::Timestamp,
};

use crate::{
    clusters::Cluster,
    facts::Facts,
    memory::{ByCluster, PublishedEndpoint, by_cluster, label, of_cluster},
    metadata,
    shards::{number, shards},
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
    /// The slices of Services that no class has any more, as they are to be while a route may still lead there.
    pub retired: Vec<EndpointSlice>,
    /// What they say of each cluster.
    pub endpoints: BTreeMap<ClusterName, PublishedEndpoint>,
    /// The Services that share the route's traffic, with their weights.
    pub backends: Vec<(String, u32)>,
    /// Were weight classes merged?
    pub merged: bool,
}

/// Plans what the hub publishes. What drains stays in each Service that it is in.
pub fn discovery(facts: &Facts<'_>, clusters: &[Cluster]) -> Discovery {
    let there = by_cluster(facts.observed.slices.iter().map(AsRef::as_ref));
    let published: Vec<_> = clusters
        .iter()
        .filter(|cluster| cluster.is_published())
        .collect();
    let shares: Vec<_> = published
        .iter()
        .filter_map(|cluster| share(cluster))
        .collect();
    let (classes, merged) = classes(&shares);
    let mut discovery = Discovery {
        merged,
        ..Discovery::default()
    };
    for (service, members) in services(facts, &there, &published, &classes) {
        for cluster in members {
            let planned = slices(facts, &there, &service, cluster);
            discovery.slices.extend(planned);
        }
        discovery.services.push(self::service(facts, service));
    }
    discovery.retired = retired(facts, &there, &published, &classes);
    discovery.endpoints = published
        .iter()
        .map(|cluster| (cluster.name.clone(), endpoint_of(cluster)))
        .collect();
    let backend = |class: &Class| (service_of(facts, class), class.weight);
    discovery.backends = classes.iter().map(backend).collect();
    discovery
}

/// The slices of Services that no class has any more, but for what drains in them.
fn retired(
    facts: &Facts<'_>,
    there: &ByCluster<'_>,
    published: &[&Cluster],
    classes: &[Class],
) -> Vec<EndpointSlice> {
    let current: BTreeSet<_> = classes
        .iter()
        .map(|class| service_of(facts, class))
        .chain([names::discovery_service(facts.name())])
        .collect();
    let services = facts.observed.services.iter();
    services
        .filter_map(|service| service.metadata.name.as_deref())
        .filter(|name| !current.contains(*name))
        .flat_map(|name| {
            let stays = |cluster: &&&Cluster| {
                cluster.draining_since.is_none() && is_in(there, name, &cluster.name)
            };
            let members = published.iter().filter(stays);
            members.flat_map(move |cluster| slices(facts, there, name, cluster))
        })
        .collect()
}

/// The Services with their clusters: `<name>-endpoints`, then those of the classes, then those of classes that are no more
/// while something drains in them.
fn services<'a>(
    facts: &Facts<'_>,
    there: &ByCluster<'_>,
    published: &[&'a Cluster],
    classes: &[Class],
) -> Vec<(String, Vec<&'a Cluster>)> {
    let base = names::discovery_service(facts.name());
    let drains_in = |cluster: &Cluster, service: &str| {
        cluster.draining_since.is_some() && is_in(there, service, &cluster.name)
    };
    let mut services = vec![(base, published.to_vec())];
    for class in classes.iter().filter(|class| !class.suffix.is_empty()) {
        let service = service_of(facts, class);
        let is_of = |cluster: &&&Cluster| {
            class.clusters.contains(&cluster.name) || drains_in(cluster, &service)
        };
        let members = published.iter().filter(is_of).copied().collect();
        services.push((service, members));
    }
    for service in &facts.observed.services {
        let name = service.metadata.name.clone().unwrap_or_default();
        if services.iter().any(|(planned, _)| *planned == name) {
            continue;
        }
        let members = published.iter().filter(|cluster| drains_in(cluster, &name));
        let members: Vec<_> = members.copied().collect();
        if !members.is_empty() {
            services.push((name, members));
        }
    }
    services
}

/// The Service of a class: the common one's where it is the only class.
fn service_of(facts: &Facts<'_>, class: &Class) -> String {
    let name = format!("{}{}", names::discovery_service(facts.name()), class.suffix);
    fitted(&name, SERVICE_NAME_MAX)
}

/// Tells a cluster that works from one that only takes no traffic, such as one of weight 0. What drains is `serving` and
/// `terminating`, and never ready (EndpointSlice API, KEP-1672).
fn is_serving(cluster: &Cluster) -> bool {
    cluster.routable || cluster.draining_since.is_some()
}

fn endpoint_of(cluster: &Cluster) -> PublishedEndpoint {
    PublishedEndpoint {
        addresses: cluster.addresses.clone(),
        port: cluster.port,
        ready: cluster.ready,
        serving: is_serving(cluster),
        draining_since: cluster.draining_since,
        silent_since: cluster.silent_since,
        hostnames: cluster.hostnames.clone(),
    }
}

/// Has the cluster a slice under that Service?
fn is_in(there: &ByCluster<'_>, service: &str, cluster: &ClusterName) -> bool {
    of_cluster(there, cluster).any(|slice| label(slice, labels::SERVICE_NAME) == Some(service))
}

fn share(cluster: &Cluster) -> Option<Share> {
    let weight = cluster.weight.filter(|weight| *weight > 0)?;
    if cluster.draining_since.is_some() {
        return None;
    }
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
        tier: cluster.tier,
        ready: cluster.ready,
    })
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

/// The slices of one cluster under one Service.
fn slices(
    facts: &Facts<'_>,
    there: &ByCluster<'_>,
    service: &str,
    cluster: &Cluster,
) -> Vec<EndpointSlice> {
    let mut slices = Vec::new();
    for (family, is_ipv4) in [("ipv4", true), ("ipv6", false)] {
        let addresses = cluster.addresses.iter().copied();
        let mut addresses = addresses
            .filter(|address| address.is_ipv4() == is_ipv4)
            .peekable();
        if addresses.peek().is_none() {
            continue;
        }
        let prefix = names::endpoint_slice_prefix(facts.name(), service, &cluster.name, family);
        let before = places(of_cluster(there, &cluster.name), &prefix);
        for (shard, addresses) in shards(addresses, &before, ADDRESSES_PER_SLICE) {
            let name = [&*prefix, &shard.to_string()].concat();
            slices.push(slice(facts, service, cluster, name, &addresses));
        }
    }
    slices
}

/// Which shard each address is in now.
fn places<'a>(
    there: impl Iterator<Item = &'a EndpointSlice>,
    prefix: &str,
) -> BTreeMap<IpAddr, usize> {
    let mut places = BTreeMap::new();
    for slice in there {
        let Some(shard) = number(&slice.metadata, prefix) else {
            continue;
        };
        for address in slice.endpoints.iter().flat_map(|of| &of.addresses) {
            if let Ok(address) = address.parse() {
                places.insert(address, shard);
            }
        }
    }
    places
}

fn slice(
    facts: &Facts<'_>,
    service: &str,
    cluster: &Cluster,
    name: String,
    addresses: &BTreeSet<IpAddr>,
) -> EndpointSlice {
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
    let hostnames: Vec<_> = cluster.hostnames.iter().map(String::as_str).collect();
    let hostnames = (!hostnames.is_empty()).then(|| hostnames.join(","));
    let moment = |moment: Option<Timestamp>| moment.map(|moment| moment.to_string());
    let annotations: BTreeMap<_, _> = [
        (labels::DRAINING_SINCE, moment(cluster.draining_since)),
        (labels::SILENT_SINCE, moment(cluster.silent_since)),
        (labels::HOSTNAMES, hostnames),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect();
    metadata.annotations = Some(annotations).filter(|annotations| !annotations.is_empty());
    let ipv4 = addresses.iter().any(IpAddr::is_ipv4);
    EndpointSlice {
        metadata,
        address_type: if ipv4 { "IPv4" } else { "IPv6" }.to_owned(),
        endpoints: addresses
            .iter()
            .map(|address| endpoint(*address, cluster))
            .collect(),
        ports: Some(vec![EndpointPort {
            name: Some(PORT_NAME.to_owned()),
            port: Some(cluster.port.into()),
            protocol: Some("TCP".to_owned()),
            app_protocol: None,
        }]),
    }
}

fn endpoint(address: IpAddr, cluster: &Cluster) -> Endpoint {
    Endpoint {
        addresses: vec![address.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(cluster.ready),
            serving: Some(is_serving(cluster)),
            terminating: Some(cluster.draining_since.is_some()),
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
