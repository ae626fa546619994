//! Names that are parsed once, at the edge, and the names that follow from them.

use std::{fmt, str::FromStr};

/// Name of a MemberCluster: a DNS label (RFC 1123), at most 63 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(String);

/// A string that is no DNS label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotALabel(String);

impl fmt::Display for NotALabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name) = self;
        write!(
            f,
            "{name:?} is not a cluster name: use 1 to 63 lower-case letters, digits and hyphens, a letter or digit at both ends"
        )
    }
}

impl std::error::Error for NotALabel {}

impl FromStr for ClusterName {
    type Err = NotALabel;

    fn from_str(name: &str) -> Result<Self, NotALabel> {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let well_formed = (1..=63).contains(&name.len())
            && name.chars().all(inner)
            && !name.starts_with('-')
            && !name.ends_with('-');
        if well_formed {
            Ok(Self(name.to_owned()))
        } else {
            Err(NotALabel(name.to_owned()))
        }
    }
}

impl ClusterName {
    /// The name as it was parsed.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The discovery Service of a server, in the hub. Fits, since a server's name has at most 53 characters.
pub fn discovery_service(server: &str) -> String {
    format!("{server}-endpoints")
}

/// What the name of an EndpointSlice of a server begins with, in the hub; its number comes behind. `family` is `ipv4` or `ipv6`.
/// Under a class's Service there is a dot where the discovery Service has a hyphen: a cluster may be called `w1-east`.
pub fn endpoint_slice_prefix(
    server: &str,
    service: &str,
    cluster: &ClusterName,
    family: &str,
) -> String {
    let is_common = service.strip_suffix("-endpoints") == Some(server);
    let mark = if is_common { "-" } else { "." };
    [service, mark, cluster.as_str(), "-", family, "-"].concat()
}

/// One discovery HTTPRoute of a server, in the hub.
pub fn discovery_route(server: &str, index: usize) -> String {
    format!("{server}-discovery-{index}")
}

/// One discovery HTTPRoute for a server's own host names, in the hub.
pub fn hostnames_route(server: &str, index: usize) -> String {
    format!("{server}-discovery-hostnames-{index}")
}

/// One traffic HTTPRoute of a server, in a member.
pub fn traffic_route(server: &str, index: usize) -> String {
    format!("{server}-traffic-{index}")
}

/// The ConfigMap with the model list of a server, in a member.
pub fn model_config(server: &str) -> String {
    format!("{server}-model-config")
}

/// Is it a DNS name: labels between dots, at most 253 characters? The last label begins with a letter, so that a mistyped IPv4
/// address is none (RFC 1123, section 2.1).
pub fn is_dns_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253
        && text.split('.').all(is_label)
        && last.starts_with(|c: char| c.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_name_is_a_dns_label() {
        for good in ["east", "a", "eu-west-1", "0", &"x".repeat(63)] {
            assert_eq!(good.parse::<ClusterName>().unwrap().as_str(), good);
        }
        for bad in ["", "East", "-a", "a-", "a.b", "a_b", &"x".repeat(64)] {
            assert!(bad.parse::<ClusterName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_dns_name_is_labels_between_dots_and_no_address() {
        let label = "x".repeat(63);
        let long = format!("{label}.{label}.{label}.{}", "x".repeat(61));
        for good in ["lb.example.com", "localhost", "a-1.2.c3", "1.x", &long] {
            assert!(is_dns_name(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "A.b",
            "a_b.c",
            "-a.b",
            "a-.b",
            "203.0.113.256",
            "a.1",
            "::1",
            &"x".repeat(64),
            &format!("{long}x"),
        ] {
            assert!(!is_dns_name(bad), "{bad}");
        }
    }

    #[test]
    fn the_longest_names_still_fit() {
        let (server, cluster) = ("s".repeat(53), "c".repeat(63).parse().unwrap());
        assert_eq!(discovery_service(&server).len(), 63);
        let service = discovery_service(&server);
        assert!(endpoint_slice_prefix(&server, &service, &cluster, "ipv4").len() <= 250);
    }
}
