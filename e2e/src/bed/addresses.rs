//! The address plan of a fleet. All of it exists in private network namespaces only.
//!
//! Each cluster has ranges of its own, so that any address in a log names its cluster. Node, Pod,
//! load balancer and gateway ranges are routed between clusters; Service ranges are not, so that
//! a `ClusterIP` means something in its own cluster alone.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// An IPv4 range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: Ipv4Addr,
    pub(crate) prefix: u8,
}

impl Range {
    pub(crate) fn contains(self, address: Ipv4Addr) -> bool {
        let host_bits = 32_u32.saturating_sub(self.prefix.into());
        (self.first.to_bits() ^ address.to_bits())
            .checked_shr(host_bits)
            .unwrap_or_default()
            == 0
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// The addresses of one cluster, by its number in the fleet. The hub is number 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Addresses {
    number: u8,
}

/// Ports of the API server and etcd, the same in every cluster.
pub(crate) const API_PORT: u16 = 6443;
pub(crate) const ETCD_PORT: u16 = 2379;

impl Addresses {
    /// Clusters of one fleet that the plan has room for.
    pub(crate) const CLUSTERS: u8 = 100;

    pub(crate) fn of(number: usize) -> Result<Self> {
        let number = u8::try_from(number).unwrap_or(u8::MAX);
        ensure!(
            number < Self::CLUSTERS,
            "a fleet has at most {} clusters",
            Self::CLUSTERS
        );
        Ok(Self { number })
    }

    /// The world's end of the link to the cluster: its way out.
    pub(crate) fn router(self) -> Ipv4Addr {
        Ipv4Addr::new(172, 20, self.number, 1)
    }

    /// The cluster's only machine, on which control plane and process node live.
    pub(crate) fn node(self) -> Ipv4Addr {
        Ipv4Addr::new(172, 20, self.number, 2)
    }

    pub(crate) fn pods(self) -> Range {
        Range {
            first: Ipv4Addr::new(10, 10 + self.number, 0, 0),
            prefix: 16,
        }
    }

    /// What every Pod has as its way out.
    pub(crate) fn pod_router(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 10 + self.number, 0, 1)
    }

    /// The address of the Pod with this serial number, counted from 0.
    pub(crate) fn pod(self, serial: u16) -> Ipv4Addr {
        let [high, low] = serial.wrapping_add(2).to_be_bytes();
        Ipv4Addr::new(10, 10 + self.number, high, low)
    }

    pub(crate) fn services(self) -> Range {
        Range {
            first: Ipv4Addr::new(10, 110 + self.number, 0, 0),
            prefix: 16,
        }
    }

    /// The `ClusterIP` of `kubernetes.default`.
    pub(crate) fn api_service(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 110 + self.number, 0, 1)
    }

    pub(crate) fn load_balancers(self) -> Range {
        Range {
            first: Ipv4Addr::new(198, 18, self.number, 0),
            prefix: 25,
        }
    }

    /// The addresses that a Service of type `LoadBalancer` may get.
    pub(crate) fn load_balancer_addresses(self) -> impl Iterator<Item = Ipv4Addr> {
        (1..127).map(move |host| Ipv4Addr::new(198, 18, self.number, host))
    }

    /// Every address of this range reaches the cluster's Envoy.
    pub(crate) fn gateways(self) -> Range {
        Range {
            first: Ipv4Addr::new(198, 18, self.number, 128),
            prefix: 25,
        }
    }

    /// The gateway's address at the start.
    pub(crate) fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.number, 129)
    }

    /// Where the API server listens.
    pub(crate) fn api(self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(self.node()), API_PORT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_two_clusters_never_meet() {
        let (hub, last) = (Addresses::of(0).unwrap(), Addresses::of(99).unwrap());
        for (a, b) in [(hub.pods(), last.pods()), (hub.services(), last.services())] {
            assert_ne!(a, b);
        }
        assert_ne!(last.pods(), hub.services());
        assert!(Addresses::of(100).is_err());
    }

    #[test]
    fn a_range_contains_its_first_and_its_last_address_and_no_more() {
        let range = Addresses::of(1).unwrap().load_balancers();
        for (host, contained) in [(0, true), (127, true), (128, false)] {
            let address = Ipv4Addr::new(198, 18, 1, host);
            assert_eq!(range.contains(address), contained, "{address}");
        }
        assert!(!range.contains(Ipv4Addr::new(198, 18, 2, 0)));
    }

    #[test]
    fn the_first_pod_comes_after_the_router() {
        let hub = Addresses::of(0).unwrap();
        assert_eq!(hub.pod(0), Ipv4Addr::new(10, 10, 0, 2));
        assert_eq!(hub.pod(254), Ipv4Addr::new(10, 10, 1, 0));
    }
}
