//! The status of an `InferenceServer`: is it well, and if not, why.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Is the server well, and if not, why.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InferenceServerStatus {
    /// The generation of the specification that this status speaks of.
    #[serde(default)]
    pub observed_generation: i64,

    /// The whole server in one word.
    #[serde(default)]
    pub state: ServerState,

    /// The revision of the RuntimeProfile that the server has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    pub profile_revision: Option<String>,

    /// Counts over all clusters.
    #[serde(default)]
    pub summary: Summary,

    /// The clusters, worst first, at most 100.
    #[serde(default)]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["clusterId"]))]
    pub clusters: Vec<ClusterStatus>,

    /// Ready, Available, and one condition per step.
    #[serde(default)]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The whole server in one word.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServerState {
    /// Not enough targets serve yet, and nobody has to act.
    #[default]
    Creating,
    /// Every target serves.
    Serving,
    /// Enough targets serve, but not all.
    Degraded,
    /// A person has to act before anything serves.
    Failed,
    /// Members are being cleaned up.
    Deleting,
    /// Every member is empty, and this object is kept.
    Decommissioned,
}

/// Counts over all clusters.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Clusters that are ready.
    #[serde(default)]
    pub clusters: ClusterCounts,
    /// Replicas that are ready, over all clusters.
    #[serde(default)]
    pub replicas: ReplicaCounts,
    /// The worst reason, and where.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub reason: String,
    /// How many clusters give each reason, most frequent first.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub reasons: Vec<ReasonCount>,
}

/// Clusters that are ready.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCounts {
    /// All targets.
    pub total: u32,
    /// Those that are ready.
    pub ready: u32,
    /// `ready/total`, for columns.
    #[schemars(length(max = 32))]
    pub text: String,
}

/// Replicas that are ready, over all clusters.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaCounts {
    /// All that are wanted.
    pub wanted: u32,
    /// Those that are ready.
    pub ready: u32,
    /// `ready/wanted`, for columns.
    #[schemars(length(max = 32))]
    pub text: String,
}

/// How many clusters give one reason.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasonCount {
    /// The reason.
    #[schemars(length(max = 128))]
    pub reason: String,
    /// The clusters that give it.
    pub clusters: u32,
}

/// How one cluster is.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Name of the MemberCluster.
    #[schemars(length(max = 63))]
    pub cluster_id: String,
    /// The cluster in one word.
    pub state: ClusterState,
    /// The worst reason there.
    #[schemars(length(max = 128))]
    pub reason: String,
    /// A sentence for a person.
    #[serde(default)]
    #[schemars(length(max = 512))]
    pub message: String,
    /// Replicas there.
    #[serde(default)]
    pub replicas: Replicas,
    /// Where the cluster admits traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<ClusterEndpoint>,
    /// When the state began.
    pub since: Time,
}

/// One cluster in one word, worst first.
#[derive(
    JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum ClusterState {
    /// A person has to act.
    Failed,
    /// The agent can't be heard.
    Silent,
    /// The cluster has not joined.
    Waiting,
    /// On its way.
    Provisioning,
    /// Serves, but not with all replicas.
    Degraded,
    /// It takes no new traffic and goes on with the old, on its way out.
    Draining,
    /// On its way out.
    Removing,
    /// Serves.
    Serving,
}

/// Replicas in one cluster.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replicas {
    /// All that are wanted.
    pub wanted: u32,
    /// Those that are ready.
    pub ready: u32,
}

/// Where a cluster admits traffic.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterEndpoint {
    /// The first four addresses.
    #[schemars(length(max = 4))]
    pub addresses: Vec<String>,
    /// How many there are in all.
    pub address_count: u32,
    /// The port of all of them.
    pub port: u16,
    /// How they stand in the hub's EndpointSlices; absent while none of them is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
}

/// How an endpoint stands in the hub's EndpointSlices; absent while none of it is there.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Published {
    /// It takes traffic.
    Ready,
    /// It is known and takes none.
    NotReady,
    /// It goes on with the traffic that it has, and takes no new.
    Draining,
}
