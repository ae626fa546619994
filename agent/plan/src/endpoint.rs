//! Where the cluster admits a placement's traffic, by the one source that the placement asks for. A source that gives
//! nothing is a reason; no other is taken in its place. Judges what is there; writes nothing.

mod nodes;
mod service;

use std::{collections::BTreeSet, net::IpAddr};

use crds::{
    names, reason,
    v1alpha1::{self, Source},
};

use crate::{
    PlacementInput,
    drivers::EndpointSource,
    gateway::{self, Refusal},
};

/// Where a cluster admits traffic for a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Sorted, each once.
    pub addresses: BTreeSet<IpAddr>,
    /// DNS names that lead to more of them: the hub resolves these.
    pub hostnames: BTreeSet<String>,
    /// The port of all of them.
    pub port: u16,
}

/// What a source gives, as text: some of it may be no address.
#[derive(Debug, Default)]
pub(crate) struct Collected<'a> {
    addresses: BTreeSet<IpAddr>,
    hostnames: BTreeSet<String>,
    others: Vec<&'a str>,
}

impl<'a> Collected<'a> {
    /// An IP address, or something that claims to be one.
    pub(crate) fn ip(&mut self, text: &'a str) {
        match text.parse() {
            Ok(address) => {
                self.addresses.insert(address);
            }
            Err(_) => self.others.push(text),
        }
    }

    /// A DNS name, or something that claims to be one.
    pub(crate) fn hostname(&mut self, text: &'a str) {
        let name = text.to_ascii_lowercase();
        if names::is_dns_name(&name) {
            self.hostnames.insert(name);
        } else {
            self.others.push(text);
        }
    }

    /// Either of them.
    pub(crate) fn either(&mut self, text: &'a str) {
        if names::is_dns_name(text) {
            self.hostname(text);
        } else {
            self.ip(text);
        }
    }

    /// What can't be an address.
    pub(crate) fn other(&mut self, text: &'a str) {
        self.others.push(text);
    }

    /// The endpoint, or why it is none. `whose` begins the sentence, `remedy` ends it where nothing at all was given.
    pub(crate) fn at(self, port: u16, whose: &str, remedy: &str) -> Result<Endpoint, Refusal> {
        if !(self.addresses.is_empty() && self.hostnames.is_empty()) {
            return Ok(Endpoint {
                addresses: self.addresses,
                hostnames: self.hostnames,
                port,
            });
        }
        let message = if self.others.is_empty() {
            format!("{whose} has no address yet: {remedy}")
        } else {
            format!(
                "{whose} has {} only: an IP address or a DNS name is needed",
                self.others.join(", ")
            )
        };
        Err(Refusal::new(reason::NO_ADDRESS, message))
    }
}

/// The one source that the placement asks for: what an agent takes that is given no other.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConfiguredSource;

impl EndpointSource for ConfiguredSource {
    fn resolve(&self, input: &PlacementInput<'_>) -> Result<Endpoint, Refusal> {
        let Some(source) = &input.placement.spec.endpoint else {
            return gateway::endpoint(input);
        };
        match source.source {
            Source::Gateway => gateway::endpoint(input),
            Source::Service => service::load_balancer(source, input.service),
            Source::NodePort => nodes::node_port(source, input.service, input.nodes),
            Source::Static => given(source),
        }
    }
}

/// The addresses that the placement itself gives.
fn given(source: &v1alpha1::EndpointSource) -> Result<Endpoint, Refusal> {
    let Some(port) = source.port.filter(|port| *port > 0) else {
        let message = "source Static needs a port: set endpoint.port";
        return Err(Refusal::new(reason::INVALID_SOURCE, message));
    };
    let mut collected = Collected::default();
    for address in &source.addresses {
        collected.either(&address.0);
    }
    collected.at(port, "source Static", "set endpoint.addresses")
}
