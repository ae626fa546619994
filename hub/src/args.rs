//! Flags and environment: the only place that reads them.

use std::net::SocketAddr;

use crds::v1alpha1::GatewayReference;
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
