//! Flags and environment: the only place that reads them.

use std::net::SocketAddr;

use crds::v1alpha1::GatewayReference;
use ipnet::IpNet;
use operator::args::Common;

/// The hub of an Inferfleet: it runs inference servers on many Kubernetes clusters, through their agents.
#[derive(Clone, Debug, clap::Parser)]
#[command(version)]
pub struct Args {
    /// The namespace that the hub runs in: its authority and what it publishes for `kubectl inferfleet join` are there.
    #[arg(long, env = "INFERFLEET_NAMESPACE")]
    pub namespace: String,

    /// Where agents are served.
    #[arg(long, default_value = "0.0.0.0:8443")]
    pub listen: SocketAddr,

    /// The name in the hub's certificate: what agents verify, whatever address they dial.
    #[arg(long, default_value = "inferfleet-hub")]
    pub server_name: String,

    /// Namespace of the Gateway that discovery routes attach to.
    #[arg(long, requires = "gateway_name")]
    pub gateway_namespace: Option<String>,

    /// Name of that Gateway.
    #[arg(long, requires = "gateway_namespace")]
    pub gateway_name: Option<String>,

    /// The listener of that Gateway; all of them when absent.
    #[arg(long, requires = "gateway_name")]
    pub gateway_listener: Option<String>,

    /// The hub's own ranges of Services and Pods, in CIDR notation: endpoints of members are refused there.
    #[arg(long, value_delimiter = ',')]
    pub refused_cidrs: Vec<IpNet>,

    /// What hub and agent share.
    #[command(flatten)]
    pub common: Common,
}

impl Args {
    /// The Gateway that discovery routes attach to.
    pub fn gateway(&self) -> Option<GatewayReference> {
        let (namespace, name) = self
            .gateway_namespace
            .clone()
            .zip(self.gateway_name.clone())?;
        Some(GatewayReference {
            namespace,
            name,
            listener: self.gateway_listener.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn refused_ranges_are_a_list_and_none_that_is_no_range() {
        let with = |flags: &[&str]| {
            let all = ["hub", "--namespace=n"].iter().chain(flags);
            Args::try_parse_from(all).map(|args| args.refused_cidrs)
        };
        assert_eq!(with(&[]).unwrap(), []);
        let ranges = with(&["--refused-cidrs=10.96.0.0/12,fd00::/108"]).unwrap();
        let ranges: Vec<_> = ranges.iter().map(ToString::to_string).collect();
        assert_eq!(ranges, ["10.96.0.0/12", "fd00::/108"]);
        assert!(with(&["--refused-cidrs=10.96.0.0"]).is_err());
    }
}
