//! The sources that name a Service: which one it is, which of its ports, and where its load balancer is reached.

use crds::{
    reason,
    v1alpha1::{EndpointSource, PortReference, ServiceReference},
};
use k8s_openapi::api::core::v1::{Service, ServicePort};

use super::{Collected, Endpoint};
use crate::{ServiceFact, gateway::Refusal};

/// The default type of a Service.
const CLUSTER_IP: &str = "ClusterIP";
const LOAD_BALANCER: &str = "LoadBalancer";
const TCP: &str = "TCP";

/// The addresses of the Service's load balancer, at the Service's port.
pub(super) fn load_balancer(
    source: &EndpointSource,
    fact: ServiceFact<'_>,
) -> Result<Endpoint, Refusal> {
    let (reference, service) = named(source, fact)?;
    let name = shown(reference);
    let kind = kind(service);
    if kind != LOAD_BALANCER {
        let message = format!(
            "Service {name} is of type {kind}: source Service needs one of type {LOAD_BALANCER}"
        );
        return Err(Refusal::new(reason::SERVICE_TYPE_MISMATCH, message));
    }
    let port = number(port(reference, service)?.port, &name)?;
    let balancer = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    let mut collected = Collected::default();
    for ingress in balancer.iter().flat_map(|of| of.ingress.iter().flatten()) {
        if let Some(ip) = &ingress.ip {
            collected.ip(ip);
        }
        if let Some(hostname) = &ingress.hostname {
            collected.hostname(hostname);
        }
    }
    let remedy = "does a controller for its load balancer class run?";
    collected.at(port, &format!("Service {name}"), remedy)
}

/// The Service that the source names, and how it is.
pub(super) fn named<'a>(
    source: &'a EndpointSource,
    fact: ServiceFact<'a>,
) -> Result<(&'a ServiceReference, &'a Service), Refusal> {
    let Some(reference) = &source.service else {
        let message = "the source of the endpoint needs a Service: set endpoint.service";
        return Err(Refusal::new(reason::INVALID_SOURCE, message));
    };
    match fact {
        ServiceFact::Found(service) => Ok((reference, service)),
        ServiceFact::NotFound => {
            let message = format!(
                "Service {} does not exist: create it, or correct endpoint.service",
                shown(reference)
            );
            Err(Refusal::new(reason::SERVICE_NOT_FOUND, message))
        }
        ServiceFact::Unlisted => {
            let message = "the agent does not know the Services of its cluster yet: if it stays so, may its ServiceAccount list them?";
            Err(Refusal::new(reason::APPLYING, message))
        }
    }
}

/// The port that the source names: traffic routes take HTTP, so one of protocol TCP.
pub(super) fn port<'a>(
    reference: &ServiceReference,
    service: &'a Service,
) -> Result<&'a ServicePort, Refusal> {
    let ports: Vec<_> = ports(service).collect();
    let is_named = |port: &&&ServicePort| match &reference.port {
        PortReference::Number(number) => port.port == *number,
        PortReference::Name(name) => port.name.as_ref() == Some(name),
    };
    ports.iter().find(is_named).copied().ok_or_else(|| {
        let named = |port: &&ServicePort| match &port.name {
            Some(name) => format!("{name} ({})", port.port),
            None => port.port.to_string(),
        };
        let names: Vec<_> = ports.iter().map(named).collect();
        let message = format!(
            "Service {} has no TCP port {}; it has {}: correct endpoint.service.port",
            shown(reference),
            reference.port,
            names.join(", ")
        );
        Refusal::new(reason::SERVICE_PORT_NOT_FOUND, message)
    })
}

fn ports(service: &Service) -> impl Iterator<Item = &ServicePort> {
    let ports = service
        .spec
        .iter()
        .flat_map(|spec| spec.ports.iter().flatten());
    ports.filter(|port| port.protocol.as_deref().unwrap_or(TCP) == TCP)
}

/// A port's number; the API server takes no other.
pub(super) fn number(port: i32, name: &str) -> Result<u16, Refusal> {
    u16::try_from(port).map_err(|_error| {
        let message = format!("Service {name} has port {port}, which is none");
        Refusal::new(reason::SERVICE_PORT_NOT_FOUND, message)
    })
}

/// The type of a Service.
pub(super) fn kind(service: &Service) -> &str {
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    kind.unwrap_or(CLUSTER_IP)
}

pub(super) fn shown(reference: &ServiceReference) -> String {
    format!("{}/{}", reference.namespace, reference.name)
}
