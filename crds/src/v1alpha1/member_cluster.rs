//! `MemberCluster`: a cluster that may join the fleet.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::MemberEndpoint, inference_server::DeletionPolicy};

/// A cluster that may join the fleet.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "inferfleet.io",
    version = "v1alpha1",
    kind = "MemberCluster",
    doc = "A cluster that may join the fleet.",
    plural = "memberclusters",
    shortname = "mcl",
    category = "inferfleet",
    status = "MemberClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name":"Joined","type":"string","jsonPath":".status.conditions[?(@.type==\"Joined\")].status"}"#,
    printcolumn = r#"{"name":"Connected","type":"string","jsonPath":".status.conditions[?(@.type==\"Connected\")].status"}"#,
    printcolumn = r#"{"name":"Servers","type":"integer","jsonPath":".status.servers","description":"InferenceServers that target it."}"#,
    printcolumn = r#"{"name":"Kubernetes","type":"string","jsonPath":".status.kubernetesVersion"}"#,
    printcolumn = r#"{"name":"Agent","type":"string","jsonPath":".status.agentVersion"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    validation = Rule::new("size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("metadata.name must be a DNS label of at most 63 lower-case letters, digits and hyphens: labels carry it"),
)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterSpec {
    /// The namespaces of the hub whose InferenceServers may target the cluster. All when absent.
    #[serde(default, skip_serializing_if = "AllowedNamespaces::is_default")]
    pub namespaces: AllowedNamespaces,

    /// The Gateway that admits traffic there. Defaults to the one that the agent's chart names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayReference>,

    /// Where its endpoint comes from. The addresses of its Gateway when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<MemberEndpoint>,

    /// What becomes of what the cluster runs when this object is deleted. An agent that can't be reached is not waited for.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,

    /// The token that lets one agent join, as `kubectl inferfleet join` made it. Only its hash is here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join_token: Option<JoinToken>,
}

/// Namespaces of the hub, as a Gateway's listener says whose routes it takes. What runs already is left as it is when they change.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.from == 'Selector') == has(self.selector)").message("selector goes with from: Selector, and from: Selector needs one"))]
pub struct AllowedNamespaces {
    /// All, those that selector picks (Selector), or none (None).
    #[serde(default)]
    pub from: NamespacesFrom,
    /// Picks namespaces by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

impl AllowedNamespaces {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Which namespaces.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamespacesFrom {
    /// Every one.
    #[default]
    All,
    /// Those that a selector picks.
    Selector,
    /// No one.
    None,
}

/// One listener of a Gateway.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayReference {
    /// Namespace of the Gateway.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Name of the Gateway.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Name of the listener. Its first HTTP listener without a hostname when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub listener: Option<String>,
}

/// A one-time token, hashed.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinToken {
    /// SHA-256 of the token, hexadecimal.
    #[schemars(length(min = 64, max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9a-f]{64}$')").message("must be the SHA-256 of the token in 64 hexadecimal digits"))]
    pub sha256: String,
    /// From then on the token opens nothing.
    pub expires_at: Time,
}

/// How the cluster is.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterStatus {
    /// The enrollment that holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrollment: Option<Enrollment>,
    /// InferenceServers that target the cluster.
    #[serde(default)]
    pub servers: u32,
    /// While this object is being deleted: the placements that are left there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placements_left: Option<u32>,
    /// InferenceServers whose part there was not confirmed to be gone when they were deleted: the agent is told when it is
    /// back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub released: Vec<Released>,
    /// The agent's version, as of its last session.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub agent_version: String,
    /// The version of the cluster's API server, as of its last session.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub kubernetes_version: String,
    /// Joined and Connected.
    #[serde(default)]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A deleted InferenceServer of which the cluster may still hold a part.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Released {
    /// Its namespace.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(max = 53))]
    pub name: String,
    /// Its UID: another of the same name is not meant.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// What is to become of the part.
    pub policy: DeletionPolicy,
}

/// Who joined, and with what.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Enrollment {
    /// UID of the cluster's kube-system namespace. Another cluster needs a new token.
    #[schemars(length(max = 64))]
    pub cluster_uid: String,
    /// SHA-256 of the token that was used, hexadecimal.
    #[schemars(length(max = 64))]
    pub token_sha256: String,
    /// SHA-256 of the first public key that used the token (its SubjectPublicKeyInfo), hexadecimal. No other key can.
    #[schemars(length(max = 64))]
    pub key_sha256: String,
    /// When.
    pub at: Time,
}
