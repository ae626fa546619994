//! Where a cluster admits traffic: the one source that its endpoint comes from.

use std::fmt;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Where an endpoint comes from. One source only: while it gives nothing, there is a reason, and no other source is taken.
#[derive(
    JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum Source {
    /// The addresses of the Gateway, and the port of its listener.
    #[default]
    Gateway,
    /// The load balancer of a Service, and the Service's port.
    Service,
    /// Every node that is Ready and not cordoned, by its InternalIP, and the node port of a Service.
    NodePort,
    /// The addresses and the port that are given here.
    Static,
}

/// The source of an endpoint, with what that source needs.
#[derive(
    KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(self.source in ['Service', 'NodePort']) || has(self.service)").message("source Service and source NodePort need service: the namespace, name and port of a Service in the member cluster"))]
#[x_kube(validation = Rule::new("self.source != 'Static' || (has(self.addresses) && size(self.addresses) > 0 && has(self.port))").message("source Static needs addresses and port"))]
pub struct EndpointSource {
    /// Where the endpoint comes from: Gateway takes the addresses of the Gateway and the port of its listener; Service the
    /// load balancer of a Service; NodePort the InternalIP of every node that is Ready and not cordoned, at the node port of a
    /// Service; Static what is given in addresses and port. No other source is taken while this one gives nothing.
    #[serde(default)]
    pub source: Source,

    /// The Service in the member cluster that source Service or NodePort takes: it leads to the cluster's Gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceReference>,

    /// What source Static publishes: IPv4 addresses, IPv6 addresses and DNS names, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub addresses: Vec<Address>,

    /// The port of those addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
}

impl EndpointSource {
    /// The source with what it needs and nothing else; `None` for the default, so that who names it and who names none want
    /// the same.
    pub fn effective(&self) -> Option<Self> {
        let only = Self {
            source: self.source,
            ..Self::default()
        };
        match self.source {
            Source::Gateway => None,
            Source::Service | Source::NodePort => Some(Self {
                service: self.service.clone(),
                ..only
            }),
            Source::Static => Some(Self {
                addresses: self.addresses.clone(),
                port: self.port,
                ..only
            }),
        }
    }
}

/// How a cluster is reached: its source, and what of it is believed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberEndpoint {
    /// The source of the cluster's endpoint.
    #[serde(flatten)]
    pub source: EndpointSource,

    /// Addresses outside of these ranges are refused and reported. Any address is taken when there is none, but for those that
    /// can't lead from the hub to another cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub allowed_cidrs: Vec<Cidr>,
}

/// A port of a Service in a member cluster.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceReference {
    /// Namespace of the Service.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Name of the Service.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The Service's port, by name or number.
    pub port: PortReference,
}

/// A port, by number or name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PortReference {
    /// By number.
    Number(i32),
    /// By name.
    Name(String),
}

impl fmt::Display for PortReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl JsonSchema for PortReference {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PortReference".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A port of a Service, by name or number.",
            "x-kubernetes-int-or-string": true,
            "minimum": 1,
            "maximum": 65_535,
            "minLength": 1,
            "maxLength": 63,
        })
    }
}

/// An IP address or a DNS name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Address(pub String);

impl JsonSchema for Address {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Address".into()
    }

    fn inline_schema() -> bool {
        true
    }

    /// By a pattern: a rule over a hundred addresses in each of a thousand targets is beyond the budget. The last label of a
    /// name begins with a letter, so that a mistyped IPv4 address is no name.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": 1,
            "maxLength": 253,
            "pattern": concat!(
                r"^(((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])",
                r"|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]+",
                r"|([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.)*[a-z]([-a-z0-9]{0,61}[a-z0-9])?)$",
            ),
        })
    }
}

/// A range of IP addresses, such as 203.0.113.0/24.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cidr(pub String);

impl JsonSchema for Cidr {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cidr".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": 1,
            "maxLength": 43,
            "x-kubernetes-validations": [{
                "rule": "isCIDR(self)",
                "message": "must be a range of IP addresses, such as 203.0.113.0/24 or 2001:db8::/32",
            }],
        })
    }
}
