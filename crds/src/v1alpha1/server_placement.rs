//! `ServerPlacement`: what one member cluster runs for one server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    accelerator::PlacementAccelerator,
    endpoint::EndpointSource,
    environment::{LocalReference, ServerVariable},
    inference_server::{Disruption, MODEL_URI, MODEL_URI_IS, ModelSpec, Resources, Spreading},
    member_cluster::GatewayReference,
    runtime_profile::RuntimeProfileSpec,
};

/// What one member cluster runs for one server. The agent writes it as the hub sends it, and reconciles it with the
/// hub away as well. Fields that this version does not know are kept.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
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

    /// The accelerator that each replica needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerator: Option<PlacementAccelerator>,

    /// Replicas in this cluster.
    #[schemars(range(min = 0, max = 10_000))]
    pub replicas: u32,

    /// How replicas spread over nodes.
    #[serde(default, skip_serializing_if = "Spreading::is_preferred")]
    pub spreading: Spreading,

    /// How many replicas may be away while nodes are drained. One when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption: Option<Disruption>,

    /// Labels of the nodes that may run replicas.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub node_selector: BTreeMap<String, String>,

    /// Taints of nodes that replicas tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub tolerations: Vec<Toleration>,

    /// Secrets to pull images with, in this namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub image_pull_secrets: Vec<LocalReference>,

    /// The Gateway that admits traffic. Defaults to the one that the agent's chart names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayReference>,

    /// Where the endpoint comes from. The addresses of the Gateway when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointSource>,
}

/// A RuntimeProfile of the hub, by name and content, and what the server has beside it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRuntime {
    /// The profile's name in the hub.
    #[schemars(length(min = 1, max = 253))]
    pub profile: String,
    /// The revision of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    pub revision: Option<String>,

    /// What the profile says as of that revision.
    pub content: RuntimeProfileSpec,

    /// The image. Beats all of the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub image: Option<String>,

    /// Arguments after those of the profile, taken as they stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 2048)))]
    pub args: Vec<String>,

    /// Environment variables. One of the same name beats the profile's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    #[schemars(length(max = 64))]
    pub env: Vec<ServerVariable>,
}

/// A model, as one cluster is to serve it. What the hub's `ModelConfigProvider` says.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// Where the model is, such as `s3://models/llama-3` or `hf://org/name`.
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new(MODEL_URI).message(MODEL_URI_IS))]
    pub uri: String,

    /// The name that clients ask for. Defaults to the InferenceServer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,

    /// What rolled the model out, where that is not the InferenceServer's own specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub deployment: Option<String>,

    /// How far the model is on its way into the traffic.
    #[serde(default, skip_serializing_if = "ModelPhase::is_serving")]
    pub phase: ModelPhase,
}

/// How far a model is on its way into the traffic.
#[derive(
    JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum ModelPhase {
    /// It is to be loaded, and no traffic leads to it yet.
    Staged,
    /// It is to be loaded, and takes the traffic.
    #[default]
    Serving,
}

impl ModelPhase {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands over a reference"
    )]
    fn is_serving(&self) -> bool {
        *self == Self::Serving
    }
}

/// What an InferenceServer's own specification names is to be served, and nobody else rolls it out.
impl From<ModelSpec> for Model {
    fn from(spec: ModelSpec) -> Self {
        Self {
            uri: spec.uri,
            name: spec.name,
            deployment: None,
            phase: ModelPhase::Serving,
        }
    }
}
