//! Source NodePort: the nodes that take traffic, and the port that all of them open for a Service.
//!
//! The InternalIP of a node, both of them where it has two families: whether an ExternalIP leads to the node ports is a
//! firewall's matter, and the hub's gateway is often in the same network. Taints do not count: they say where Pods go, not
//! traffic.

use std::sync::Arc;

use crds::{reason, v1alpha1::EndpointSource};
use k8s_openapi::api::core::v1::Node;

use super::{
    Collected, Endpoint,
    service::{kind, named, number, port, shown},
};
use crate::{ServiceFact, gateway::Refusal};

const INTERNAL_IP: &str = "InternalIP";
const READY: &str = "Ready";
/// The types of Services that can have node ports.
const TYPES: [&str; 2] = ["NodePort", "LoadBalancer"];

/// Every node that takes traffic, at the node port of the Service's port.
pub(super) fn node_port(
    source: &EndpointSource,
    fact: ServiceFact<'_>,
    nodes: Option<&[Arc<Node>]>,
) -> Result<Endpoint, Refusal> {
    let (reference, service) = named(source, fact)?;
    let (name, kind) = (shown(reference), kind(service));
    if !TYPES.contains(&kind) {
        let message = format!(
            "Service {name} is of type {kind}: source NodePort needs one of type NodePort or LoadBalancer"
        );
        return Err(Refusal::new(reason::SERVICE_TYPE_MISMATCH, message));
    }
    let port = port(reference, service)?;
    let Some(node_port) = port.node_port.filter(|port| *port > 0) else {
        let message = format!(
            "port {} of Service {name} has no node port: set allocateLoadBalancerNodePorts, or give it one",
            port.port
        );
        return Err(Refusal::new(reason::NO_NODE_PORT, message));
    };
    let node_port = number(node_port, &name)?;
    let Some(nodes) = nodes else {
        let message = "the agent does not know the nodes of its cluster yet: if it stays so, may its ServiceAccount list them?";
        return Err(Refusal::new(reason::APPLYING, message));
    };
    let mut serving = nodes.iter().filter(|node| takes_traffic(node)).peekable();
    if serving.peek().is_none() {
        let message = format!(
            "none of {} nodes is Ready and schedulable: look at them with `kubectl get nodes`",
            nodes.len()
        );
        return Err(Refusal::new(reason::NO_READY_NODE, message));
    }
    let mut collected = Collected::default();
    for address in serving.flat_map(|node| internal_addresses(node)) {
        collected.ip(address);
    }
    let remedy = "no Ready node has an InternalIP";
    collected.at(
        node_port,
        &format!("source NodePort of Service {name}"),
        remedy,
    )
}

/// Is the node Ready, not cordoned and not on its way out?
fn takes_traffic(node: &Node) -> bool {
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable);
    let status = node.status.iter();
    let mut conditions = status.flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.any(|condition| condition.type_ == READY && condition.status == "True");
    ready && cordoned != Some(true) && node.metadata.deletion_timestamp.is_none()
}

fn internal_addresses(node: &Node) -> impl Iterator<Item = &str> {
    let status = node.status.iter();
    let addresses = status.flat_map(|status| status.addresses.iter().flatten());
    addresses
        .filter(|address| address.type_ == INTERNAL_IP)
        .map(|address| address.address.as_str())
}
