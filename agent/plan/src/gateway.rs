//! Which listener admits a placement's traffic, and where it is reached. Judges the Gateway as it is; writes nothing.

use crds::{
    reason,
    v1alpha1::{GatewayReference, ServerPlacement},
};
use gateway_api::gateways::{Gateway, GatewayListeners};

use crate::{
    GatewayFact, PlacementInput,
    endpoint::{Collected, Endpoint},
};

/// The protocol that traffic routes speak; TLS towards members is not there yet.
const HTTP: &str = "HTTP";
/// The default type of a Gateway's address (Gateway API, `AddressType`).
const IP_ADDRESS: &str = "IPAddress";
/// The type of one that is a DNS name.
const HOSTNAME: &str = "Hostname";

/// Why something can't be done: a reason for programs, a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// CamelCase, of [`crds::reason`].
    pub reason: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Refusal {
    /// Both of them.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

/// The listener that admits the traffic.
#[derive(Clone, Debug)]
pub struct Listener<'a> {
    /// The Gateway that it is of.
    pub reference: &'a GatewayReference,
    /// The same, as it is.
    pub gateway: &'a Gateway,
    /// The listener's name.
    pub name: &'a str,
    /// Its port.
    pub port: u16,
}

/// The Gateway that a placement uses: its own as a whole, or the default.
pub fn effective_gateway<'a>(
    placement: &'a ServerPlacement,
    default: Option<&'a GatewayReference>,
) -> Option<&'a GatewayReference> {
    placement.spec.gateway.as_ref().or(default)
}

pub(crate) fn effective<'a>(input: &PlacementInput<'a>) -> Option<&'a GatewayReference> {
    effective_gateway(input.placement, input.default_gateway)
}

/// The listener of the Gateway that the placement uses, or why there is none: the one that is named, else the first of
/// protocol HTTP without a hostname.
pub fn listener<'a>(input: &PlacementInput<'a>) -> Result<Listener<'a>, Refusal> {
    let Some(reference) = effective(input) else {
        let message = "no Gateway is named: set spec.gateway of the MemberCluster, or the agent's default gateway";
        return Err(Refusal::new(reason::GATEWAY_NOT_SET, message));
    };
    let gateway = match input.gateway {
        GatewayFact::Found(gateway) => gateway,
        GatewayFact::ApiMissing => {
            let message = "the Gateway API is not installed in this cluster: install its CRDs, version 1.1 or later";
            return Err(Refusal::new(reason::GATEWAY_API_MISSING, message));
        }
        GatewayFact::NotFound => {
            let message = format!("Gateway {} does not exist", shown(reference));
            return Err(Refusal::new(reason::GATEWAY_NOT_FOUND, message));
        }
    };
    let listener = chosen(reference, gateway)?;
    let port = u16::try_from(listener.port).map_err(|_error| {
        let message = format!(
            "listener {} of Gateway {} has port {}",
            listener.name,
            shown(reference),
            listener.port
        );
        Refusal::new(reason::NO_HTTP_LISTENER, message)
    })?;
    Ok(Listener {
        reference,
        gateway,
        name: &listener.name,
        port,
    })
}

/// The named listener; without a name, the first that can take a route, so that one for a single hostname in front of
/// it is no obstacle.
fn chosen<'a>(
    reference: &GatewayReference,
    gateway: &'a Gateway,
) -> Result<&'a GatewayListeners, Refusal> {
    let listeners = &gateway.spec.listeners;
    if let Some(name) = &reference.listener {
        let named = listeners.iter().find(|listener| &listener.name == name);
        let Some(listener) = named else {
            let names: Vec<&str> = listeners.iter().map(|one| one.name.as_str()).collect();
            let message = format!(
                "Gateway {} has no listener {name}; it has {}",
                shown(reference),
                names.join(", ")
            );
            return Err(Refusal::new(reason::LISTENER_NOT_FOUND, message));
        };
        return usable(reference, listener);
    }
    let judged = listeners.iter().map(|listener| usable(reference, listener));
    // The refusal that is nearest to a usable listener explains most.
    judged
        .min_by_key(|verdict| match verdict {
            Ok(_) => 0,
            Err(refusal) if refusal.reason == reason::LISTENER_HOSTNAME_MISMATCH => 1,
            Err(_) => 2,
        })
        .unwrap_or_else(|| {
            let message = format!("Gateway {} has no listener", shown(reference));
            Err(Refusal::new(reason::NO_HTTP_LISTENER, message))
        })
}

fn usable<'a>(
    reference: &GatewayReference,
    listener: &'a GatewayListeners,
) -> Result<&'a GatewayListeners, Refusal> {
    let GatewayListeners {
        name,
        protocol,
        hostname,
        ..
    } = listener;
    let gateway = shown(reference);
    if protocol != HTTP {
        let message = format!(
            "listener {name} of Gateway {gateway} speaks {protocol}: traffic routes need one of protocol HTTP"
        );
        return Err(Refusal::new(reason::NO_HTTP_LISTENER, message));
    }
    match hostname.as_deref() {
        None | Some("") => Ok(listener),
        Some(hostname) => {
            let message = format!(
                "listener {name} of Gateway {gateway} is for {hostname} only: traffic routes need one without a hostname"
            );
            Err(Refusal::new(reason::LISTENER_HOSTNAME_MISMATCH, message))
        }
    }
}

/// Where the listener is reached: the Gateway's own addresses, and no other source.
pub(crate) fn endpoint(input: &PlacementInput<'_>) -> Result<Endpoint, Refusal> {
    let listener = listener(input)?;
    let status = listener.gateway.status.iter();
    let mut collected = Collected::default();
    for address in status.flat_map(|status| status.addresses.iter().flatten()) {
        match address.r#type.as_deref().unwrap_or(IP_ADDRESS) {
            IP_ADDRESS => collected.ip(&address.value),
            HOSTNAME => collected.hostname(&address.value),
            _ => collected.other(&address.value),
        }
    }
    let whose = format!("Gateway {}", shown(listener.reference));
    collected.at(listener.port, &whose, "look at its conditions")
}

fn shown(reference: &GatewayReference) -> String {
    format!("{}/{}", reference.namespace, reference.name)
}
