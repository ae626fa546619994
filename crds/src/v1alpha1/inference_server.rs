//! `InferenceServer`: what a user wants of the whole fleet.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    accelerator::Accelerator, endpoint::EndpointSource, environment::LocalReference,
    routing::Routing, runtime::Runtime, status::InferenceServerStatus,
};
use crate::Quantity;

/// One model server, run in every cluster that it targets and reached at one place in the hub.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    printcolumn = r#"{"name":"Revision","type":"string","jsonPath":".status.profileRevision","priority":1,"description":"The revision of the RuntimeProfile."}"#,
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
    pub model: Option<ModelSpec>,

    /// Compute resources of one replica, as in a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// The accelerator that each replica needs. None when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerator: Option<Accelerator>,

    /// Replicas in each cluster.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 10_000))]
    pub replicas: u32,

    /// How the replicas of a cluster spread over its nodes.
    #[serde(default, skip_serializing_if = "Spreading::is_preferred")]
    pub spreading: Spreading,

    /// How many replicas of a cluster may be away while its nodes are drained.
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

    /// Secrets to pull images with, in the server's namespace of each member cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub image_pull_secrets: Vec<LocalReference>,

    /// How clients reach the server at the hub's Gateway.
    #[serde(default)]
    pub routing: Routing,

    /// How long endpoints outlive what they lead to.
    #[serde(default)]
    pub endpoints: EndpointPolicy,

    /// What becomes of the model servers when this object is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,

    /// Empties every member cluster and keeps this object. Set it back to false to have all of it again.
    #[serde(default)]
    pub decommission: bool,
}

/// What becomes of what member clusters run when the object that asked for it is deleted.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeletionPolicy {
    /// It is deleted as well. A member that can't be reached is waited for.
    #[default]
    Delete,
    /// It is left running, without a sign of its origin. A member that can't be reached is not waited for: it is told when
    /// it comes back.
    Orphan,
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

    /// Clusters of a higher tier take traffic only while none of a lower one can.
    #[serde(default)]
    #[schemars(range(min = 0, max = 15))]
    pub tier: u32,

    /// Where the endpoint there comes from, for this server. Beats the MemberCluster's as a whole, but for its allowedCidrs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointSource>,

    /// What is other there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrides: Option<Overrides>,
}

impl ClusterTarget {
    /// A target with its share of the traffic, and nothing else of its own.
    pub fn new(cluster_id: impl Into<String>) -> Self {
        Self {
            cluster_id: cluster_id.into(),
            weight: 1,
            tier: 0,
            endpoint: None,
            overrides: None,
        }
    }
}

/// What one cluster has other than the server says. A field that is there beats the server's as a whole.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overrides {
    /// Beats spec.replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10_000))]
    pub replicas: Option<u32>,

    /// Beats spec.runtime.image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub image: Option<String>,

    /// Beats spec.resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// Beats spec.accelerator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerator: Option<Accelerator>,

    /// Beats spec.nodeSelector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 16))]
    pub node_selector: Option<BTreeMap<String, String>>,
}

/// How the replicas of a cluster spread over its nodes.
#[derive(
    JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum Spreading {
    /// Over as many nodes as there are; two share one where they have to.
    #[default]
    Preferred,
    /// No two of one revision share a node: those that have none wait.
    Required,
    /// As the scheduler likes.
    None,
}

impl Spreading {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands over a reference"
    )]
    pub(super) fn is_preferred(&self) -> bool {
        *self == Self::Preferred
    }
}

/// How many replicas of a cluster may be away while its nodes are drained.
#[derive(
    KubeSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// So many; 0: none, which keeps nodes from being drained.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 10_000))]
    pub max_unavailable: u32,
}

/// How long endpoints outlive what they lead to.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPolicy {
    /// What becomes of the endpoint of a cluster whose agent can't be heard: Keep leaves it as it is, Unready sends no
    /// traffic there after graceSeconds, Drop takes it away after dropAfterSeconds as well. Silence alone never takes the
    /// last cluster that serves, nor any when much of the fleet falls silent at once.
    pub when_silent: WhenSilent,

    /// Seconds of silence that change nothing.
    #[schemars(range(min = 1, max = 86_400))]
    pub grace_seconds: u32,

    /// Seconds of silence after which Drop takes the endpoint away; at least graceSeconds.
    #[schemars(range(min = 1, max = 604_800))]
    pub drop_after_seconds: u32,

    /// Whether the hub asks each endpoint, through the cluster's route, if it leads to the model servers: Off, never; Warn, and the
    /// status says so where it does not; Required, and it takes no traffic before it does, while what takes traffic already goes on.
    /// Unless this is Off, the endpoint of a cluster whose agent can't be heard is asked after graceSeconds, and kept while it
    /// answers; the first answer is waited for as long again at most.
    pub probe: ProbePolicy,

    /// Seconds that an endpoint takes no new traffic and goes on with the old, before it is taken away and its model servers
    /// are stopped.
    #[schemars(range(min = 0, max = 86_400))]
    pub drain_seconds: u32,
}

impl Default for EndpointPolicy {
    fn default() -> Self {
        Self {
            when_silent: WhenSilent::default(),
            probe: ProbePolicy::default(),
            grace_seconds: 40,
            drop_after_seconds: 600,
            drain_seconds: 30,
        }
    }
}

/// What becomes of the endpoint of a cluster whose agent can't be heard.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenSilent {
    /// It stays as it is.
    Keep,
    /// It takes no traffic after the grace.
    #[default]
    Unready,
    /// It takes no traffic after the grace, and is taken away later.
    Drop,
}

/// Whether the hub asks endpoints if they lead to model servers.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbePolicy {
    /// Never.
    Off,
    /// Yes, and the status says where one does not.
    #[default]
    Warn,
    /// Yes, and one takes no traffic before it does.
    Required,
}

/// What the URI of a model has to be.
pub(super) const MODEL_URI: &str = "self.matches('^[a-z][a-z0-9+.-]*://.+')";
pub(super) const MODEL_URI_IS: &str = "must be a URI with a scheme, such as s3://models/llama-3";

/// The model to serve, as a user names it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelSpec {
    /// Where the model is, such as `s3://models/llama-3` or `hf://org/name`.
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new(MODEL_URI).message(MODEL_URI_IS))]
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
