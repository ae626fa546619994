//! One cluster of the fleet, hub or member: its network, its control plane and its nodes.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use tokio::net::UnixStream;

use super::addresses::Addresses;
use super::controlplane::ControlPlane;
use super::gateway;
use super::net::{DEFAULT, Netns};
use super::node::ProcessNode;
use super::pki::{Identity, Pki};
use super::services::{self, Faults};
use super::{fake, link, manifests};
use crate::control::{Access, AddressRanges, Answer, ClusterSpec, write_line};

pub(crate) struct Member {
    pub(crate) addresses: Addresses,
    pub(crate) netns: Arc<Netns>,
    pub(crate) control_plane: ControlPlane,
    pub(crate) node: ProcessNode,
    pub(crate) faults: Faults,
    ca_pem: String,
    person: Identity,
}

impl Member {
    /// Starts everything of a cluster and returns once it can be used.
    pub(crate) async fn start(
        spec: ClusterSpec,
        world: &Netns,
        pods: &Path,
        stream: &mut UnixStream,
    ) -> Result<Self> {
        let addresses = Addresses::of(spec.number)?;
        let netns = Arc::new(network(world, addresses).await?);
        let pki = Pki::create(&spec.folder.join("pki"), addresses)?;
        tell(stream, "starting etcd and the API server").await?;
        let control_plane = ControlPlane::start(&spec, addresses, &netns, &pki).await?;
        let client = control_plane.client();
        let faults = Faults::default();
        watch_over(
            "services",
            services::serve(
                client.clone(),
                addresses,
                Arc::clone(&netns),
                faults.clone(),
            ),
        );

        let gateway = if spec.gateway {
            "starting nodes and gateway"
        } else {
            "starting nodes"
        };
        tell(stream, gateway).await?;
        let (node, (), ()) = tokio::try_join!(
            ProcessNode::start(&spec, addresses, &netns, pods, &pki),
            fake::start(&spec, addresses, &netns, &pki, &client),
            async {
                if spec.gateway {
                    gateway::start(&spec, addresses, &netns, &pki, &client).await
                } else {
                    manifests::install(&client, &spec.manifests.join("gateway-api")).await
                }
            },
        )?;
        let person = pki.client("bed:admin", Some("system:masters"))?;
        Ok(Self {
            addresses,
            netns,
            control_plane,
            node,
            faults,
            ca_pem: pki.ca_pem,
            person,
        })
    }

    pub(crate) fn access(&self) -> Access {
        Access {
            api: self.addresses.api(),
            api_service: (self.addresses.api_service(), 443).into(),
            ca_pem: self.ca_pem.clone(),
            certificate_pem: self.person.certificate.clone(),
            key_pem: self.person.key.clone(),
            gateway: (self.addresses.gateway(), 80).into(),
            addresses: AddressRanges {
                pods: self.addresses.pods().to_string(),
                services: self.addresses.services().to_string(),
            },
        }
    }
}

/// Runs a part that should never end; its end is an error that the bed's log shows.
pub(crate) fn watch_over(
    what: &'static str,
    part: impl Future<Output = Result<()>> + Send + 'static,
) {
    tokio::spawn(async move {
        let error = part.await.err().map(|error| format!("{error:#}"));
        tracing::error!(what, error, "a part of the bed ended");
    });
}

async fn tell(stream: &mut UnixStream, step: &str) -> Result<()> {
    write_line(stream, &Answer::Progress(step.to_owned())).await
}

/// The cluster's network namespace, connected to the world: node, Service and load balancer
/// addresses are its own, Pods and gateway are behind it.
async fn network(world: &Netns, addresses: Addresses) -> Result<Netns> {
    let netns = Netns::create().await?;
    let link = link::name(addresses);
    world.join(&link, &netns, "world").await?;
    world.add_address(&link, addresses.router(), 24).await?;
    netns.add_address("world", addresses.node(), 24).await?;
    netns
        .route(DEFAULT, "world", Some(addresses.router()))
        .await?;
    for range in [
        addresses.pods(),
        addresses.load_balancers(),
        addresses.gateways(),
    ] {
        world.route(range, &link, Some(addresses.node())).await?;
    }
    netns.own_range(addresses.services()).await?;
    netns.own_range(addresses.load_balancers()).await?;
    netns.add_address("lo", addresses.pod_router(), 32).await?;
    netns.forward().await?;
    Ok(netns)
}
