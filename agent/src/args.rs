//! The flags. Owns no behaviour.

use std::path::PathBuf;

use crds::v1alpha1::GatewayReference;
use operator::args::Common;

/// The agent of Inferfleet: dials the hub and runs what it wants in this cluster.
#[derive(clap::Parser, Debug)]
#[command(version)]
pub struct Args {
    /// Namespace of the agent: its identity is kept there.
    #[arg(long, env = "INFERFLEET_NAMESPACE")]
    pub namespace: String,

    /// The hub, as host:port.
    #[arg(long)]
    pub hub_address: String,

    /// The name in the hub's certificate, whatever its address.
    #[arg(long, default_value = "inferfleet-hub")]
    pub server_name: String,

    /// Folder of the join bundle: the files `token` and `ca.crt`.
    #[arg(long)]
    pub join: PathBuf,

    /// Namespace of the Gateway for servers whose MemberCluster names none.
    #[arg(long, requires = "gateway_name")]
    pub gateway_namespace: Option<String>,

    /// Name of that Gateway.
    #[arg(long, requires = "gateway_namespace")]
    pub gateway_name: Option<String>,

    /// Its listener. Its first HTTP listener without a hostname when absent.
    #[arg(long, requires = "gateway_name")]
    pub gateway_listener: Option<String>,

    /// Create namespaces that are missing here.
    #[arg(long)]
    pub create_namespaces: bool,

    /// What hub and agent share.
    #[command(flatten)]
    pub common: Common,
}

impl Args {
    /// The Gateway for servers whose MemberCluster names none.
    pub fn gateway(&self) -> Option<GatewayReference> {
        Some(GatewayReference {
            namespace: self.gateway_namespace.clone()?,
            name: self.gateway_name.clone()?,
            listener: self.gateway_listener.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    const LEAST: [&str; 4] = [
        "agent",
        "--namespace=n",
        "--hub-address=hub:443",
        "--join=/j",
    ];

    #[test]
    fn half_of_a_gateway_is_refused() {
        let with = |flags: &[&str]| Args::try_parse_from(LEAST.iter().chain(flags));
        assert_eq!(with(&[]).unwrap().gateway(), None);
        assert!(with(&["--gateway-name=g"]).is_err());
        assert!(with(&["--gateway-namespace=n", "--gateway-listener=l"]).is_err());
        let both = with(&["--gateway-name=g", "--gateway-namespace=n"]).unwrap();
        assert_eq!(both.gateway().unwrap().name, "g");
    }
}
