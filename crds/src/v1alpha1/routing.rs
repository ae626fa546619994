//! How clients reach an `InferenceServer` at the hub's Gateway.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// How clients reach the server at the hub's Gateway.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Routing {
    /// The Gateways of the hub that the discovery routes attach to. Defaults to the one that the hub's chart names. One that is
    /// named without a listener is named with all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub parent_refs: Vec<RouteParent>,

    /// Host names of the server's own. There it is served at `/` as well; the path `/<namespace>/<name>/` needs none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 253)))]
    #[x_kube(validation = Rule::new("self.all(name, name.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))").message("each must be a DNS name in lower case, such as llama.example.com or *.example.com"))]
    pub hostnames: Vec<String>,

    /// How long a request may take. As the Gateway does by itself when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<RouteTimeouts>,

    /// Headers of requests, on their way to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<HeaderFilter>,

    /// Headers of responses, on their way to the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<HeaderFilter>,

    /// Further paths. Without hostnames each lies below `/<namespace>/<name>/`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["path".to_owned()]))]
    #[schemars(length(max = 128))]
    pub rules: Vec<RoutingRule>,
}

/// A Gateway of the hub.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteParent {
    /// Its namespace. The InferenceServer's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("must be the name of a namespace: lower-case letters, digits and hyphens, a letter or digit at both ends"))]
    pub namespace: Option<String>,

    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// One listener of it; all that accept the route when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be the name of a listener: lower-case letters, digits, hyphens and dots, a letter or digit at both ends of what is between dots"))]
    pub section_name: Option<String>,
}

/// How long a request may take (Gateway API, HTTPRouteTimeouts). Needs a Gateway API that has the field: 1.2 or later.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.request) || !has(self.backendRequest) || duration(self.request) == duration('0s') || duration(self.backendRequest) <= duration(self.request)").message("backendRequest must not be longer than request, unless that is 0s"))]
pub struct RouteTimeouts {
    /// From the request's first byte to the response's last, such as 30s; 0s is without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 24))]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$')").message("must be a Gateway API duration, such as 30s or 1m30s"))]
    pub request: Option<String>,

    /// The same for one attempt at a member cluster, and so no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 24))]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$')").message("must be a Gateway API duration, such as 30s or 1m30s"))]
    pub backend_request: Option<String>,
}

/// What becomes of headers (Gateway API, HTTPHeaderFilter). It stands in each of the sixteen rules of an HTTPRoute, and that has to
/// fit into a write (etcd takes 1.5 MiB).
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.set) ? self.set.map(header, size(header.name) + size(header.value)).sum() : 0) + (has(self.add) ? self.add.map(header, size(header.name) + size(header.value)).sum() : 0) + (has(self.remove) ? self.remove.map(name, size(name)).sum() : 0) <= 8192").message("set, add and remove must not have more than 8192 characters in all"))]
pub struct HeaderFilter {
    /// Set to these values, whatever they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    #[schemars(length(max = 16))]
    pub set: Vec<Header>,

    /// Added to what is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    #[schemars(length(max = 16))]
    pub add: Vec<Header>,

    /// Taken away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 256)))]
    pub remove: Vec<String>,
}

/// A header.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Its name.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9!#$%&\\'*+.^_|~-]+$')").message("must be the name of a header"))]
    pub name: String,

    /// Its value.
    #[schemars(length(min = 1, max = 4096))]
    pub value: String,
}

/// One more path to the server.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoutingRule {
    /// The beginning of the paths that clients ask for, in whole elements: `/chat` is `/chat` and `/chat/…`.
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = Rule::new("self.matches('^/([A-Za-z0-9._~!$&()*+,;=:@-]+(/[A-Za-z0-9._~!$&()*+,;=:@-]+)*)?$')").message("must be an absolute path without an empty element and without a slash at its end"))]
    #[x_kube(validation = Rule::new("!self.matches('/[.][.]?(/|$)')").message("must not have . or .. as an element"))]
    pub path: String,

    /// What takes its place at the runtime, such as `/v1/chat`.
    #[serde(default = "root")]
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = Rule::new("self.matches('^/([A-Za-z0-9._~!$&()*+,;=:@-]+(/[A-Za-z0-9._~!$&()*+,;=:@-]+)*)?$')").message("must be an absolute path without an empty element and without a slash at its end"))]
    #[x_kube(validation = Rule::new("!self.matches('/[.][.]?(/|$)')").message("must not have . or .. as an element"))]
    pub to: String,

    /// How long a request may take here. As for the other paths when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<RouteTimeouts>,
}

fn root() -> String {
    "/".to_owned()
}
