//! Which addresses may be published: those that lead from the hub to another cluster, and only where its MemberCluster
//! allows them.

use std::net::IpAddr;

use ipnet::IpNet;

/// The ranges that count for one cluster.
pub(super) struct Bounds<'a> {
    /// What its MemberCluster allows; none: any.
    pub(super) allowed: &'a [IpNet],
    /// The hub's own.
    pub(super) own: &'a [IpNet],
}

impl Bounds<'_> {
    /// The rule by which an address is refused. What no cluster can be reached at is refused whatever is allowed: the API server
    /// takes most of it in no slice.
    pub(super) fn refusal(&self, address: IpAddr) -> Option<String> {
        let within = |ranges: &[IpNet]| {
            ranges
                .iter()
                .find(|range| range.contains(&address))
                .copied()
        };
        if let Some(rule) = unreachable(address) {
            return Some(rule.to_owned());
        }
        if let Some(range) = within(self.own) {
            return Some(format!("in {range}, the hub's own"));
        }
        let allowed = self.allowed.is_empty() || within(self.allowed).is_some();
        (!allowed).then(|| "outside of allowedCidrs".to_owned())
    }
}

/// Why an address leads to no other machine.
fn unreachable(address: IpAddr) -> Option<&'static str> {
    let (link_local, mapped) = match address {
        IpAddr::V4(address) => (address.is_link_local() || address.is_broadcast(), false),
        IpAddr::V6(address) => (
            address.is_unicast_link_local(),
            address.to_ipv4_mapped().is_some(),
        ),
    };
    [
        (address.is_loopback(), "loopback"),
        (address.is_unspecified(), "unspecified"),
        (address.is_multicast(), "multicast"),
        (link_local, "link-local"),
        (mapped, "IPv4-mapped"),
    ]
    .into_iter()
    .find_map(|(is, rule)| is.then_some(rule))
}
