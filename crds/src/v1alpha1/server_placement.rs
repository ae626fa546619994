//! `ServerPlacement`: what one member cluster runs for one server.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{
    endpoint::EndpointSource,
    inference_server::{Model, Resources},
    member_cluster::GatewayReference,
    runtime_profile::RuntimeProfileSpec,
};

/// What one member cluster runs for one server. The agent writes it as the hub sends it, and reconciles it with the
/// hub away as well. Fields that this version does not know are kept.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "inferfleet.io",
    version = "v1alpha1",
    kind = "ServerPlacement",
    doc = "What this cluster runs for one InferenceServer of the hub. Written by the agent.",
    plural = "serverplacements",
    shortname = "spl",
    category = "inferfleet",
    namespaced,
    derive = "PartialEq",
    printcolumn = r#"{"name":"Runtime","type":"string","jsonPath":".spec.runtime.profile"}"#,
    printcolumn = r#"{"name":"Replicas","type":"integer","jsonPath":".spec.replicas"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
#[serde(rename_all = "camelCase")]
pub struct ServerPlacementSpec {
    /// What serves the model.
    pub runtime: PlacementRuntime,

    /// The model to serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,

    /// Compute resources of one replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// Replicas in this cluster.
    #[schemars(range(min = 0, max = 10_000))]
    pub replicas: u32,

    /// The Gateway that admits traffic. Defaults to the one that the agent's chart names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayReference>,

    /// Where the endpoint comes from. The addresses of the Gateway when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointSource>,
}

/// A RuntimeProfile of the hub, by name and content.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRuntime {
    /// The profile's name in the hub.
    #[schemars(length(min = 1, max = 253))]
    pub profile: String,
    /// The profile's content.
    pub content: RuntimeProfileSpec,
}
