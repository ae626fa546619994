//! `InferenceServer`: what a user wants of the whole fleet.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::status::InferenceServerStatus;
use crate::Quantity;

/// One model server, run in every cluster that it targets and reached at one place in the hub.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "inferfleet.io",
    version = "v1alpha1",
    kind = "InferenceServer",
    doc = "A model server that runs in every cluster it targets and is reached at one place in the hub.",
    plural = "inferenceservers",
    shortname = "isvr",
    category = "inferfleet",
    namespaced,
    status = "InferenceServerStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Runtime","type":"string","jsonPath":".spec.runtime.profile"}"#,
    printcolumn = r#"{"name":"Clusters","type":"string","jsonPath":".status.summary.clusters.text","description":"Ready clusters of all targets."}"#,
    printcolumn = r#"{"name":"Replicas","type":"string","jsonPath":".status.summary.replicas.text","description":"Ready replicas of all wanted."}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.summary.reason","description":"The worst reason, and where."}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    validation = Rule::new("size(self.metadata.name) <= 53 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')").message("metadata.name must start with a letter and have at most 53 lower-case letters, digits and hyphens: Services are named after it"),
)]
#[serde(rename_all = "camelCase")]
pub struct InferenceServerSpec {
    /// The clusters that run this server. A MemberCluster may be created later than this object.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["clusterId".to_owned()]))]
    #[schemars(length(min = 1, max = 1000))]
    pub cluster_targets: Vec<ClusterTarget>,

    /// How many clusters must be routable for the condition Available.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub min_ready_clusters: u32,

    /// What serves the model.
    pub runtime: Runtime,

    /// The model to serve. Runtimes that need none may go without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,

    /// Compute resources of one replica, as in a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// Replicas in each cluster.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 10_000))]
    pub replicas: u32,
}

/// One cluster that runs the server.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTarget {
    /// Name of a MemberCluster.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("must be the name of a MemberCluster: lower-case letters, digits and hyphens, a letter or digit at both ends"))]
    pub cluster_id: String,

    /// Share of the traffic among the ready clusters, relative to the weights of the others; 0 means none.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 1000))]
    pub weight: u32,
}

/// What serves the model.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    /// Name of a RuntimeProfile in the hub.
    #[schemars(length(min = 1, max = 253))]
    pub profile: String,
}

/// The model to serve.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// Where the model is, such as `s3://models/llama-3` or `hf://org/name`.
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z][a-z0-9+.-]*://.+')").message("must be a URI with a scheme, such as s3://models/llama-3"))]
    pub uri: String,

    /// The name that clients ask for. Defaults to the InferenceServer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
}

/// Compute resources of one replica, as in a container.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// What is reserved, by resource name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub requests: BTreeMap<String, Quantity>,

    /// What may be used at most, by resource name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub limits: BTreeMap<String, Quantity>,
}

const fn one() -> u32 {
    1
}
