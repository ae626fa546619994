//! Accelerators: as data (`AcceleratorProfile`), as a server asks for them, and as a placement is told of them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::environment::Variable;

/// An accelerator as data: adding one needs no code.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "inferfleet.io",
    version = "v1alpha1",
    kind = "AcceleratorProfile",
    doc = "An accelerator as data.",
    plural = "acceleratorprofiles",
    shortname = "accp",
    category = "inferfleet",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Vendor","type":"string","jsonPath":".spec.vendor"}"#,
    printcolumn = r#"{"name":"Resource","type":"string","jsonPath":".spec.resourceName"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    validation = Rule::new("size(self.metadata.name) <= 63").message("metadata.name must have at most 63 characters: its revisions are labelled with it"),
)]
#[serde(rename_all = "camelCase")]
pub struct AcceleratorProfileSpec {
    /// The vendor: runtimes have an image for each.
    #[schemars(length(min = 1, max = 63))]
    pub vendor: String,

    /// The extended resource that its device plugin offers, such as `nvidia.com/gpu`.
    pub resource_name: ResourceName,

    /// Labels of the nodes that have it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub node_selector: BTreeMap<String, String>,

    /// The RuntimeClass that its Pods need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class: Option<RuntimeClass>,

    /// Taints of its nodes that its Pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub tolerations: Vec<Toleration>,

    /// Environment variables of its Pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub env: Vec<Variable>,

    /// Groups that own its device files, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub supplemental_groups: Vec<i64>,

    /// The only counts that one Pod may have; any when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(range(min = 1, max = 1024)))]
    pub counts: Vec<u32>,
}

/// The RuntimeClass that Pods with an accelerator need.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeClass {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// What a cluster without it means: IfPresent, that Pods need none there; Required, that the server can't run there.
    #[serde(default)]
    pub policy: RuntimeClassPolicy,
}

/// What a cluster without a RuntimeClass means.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuntimeClassPolicy {
    /// Pods need none there.
    #[default]
    IfPresent,
    /// The server can't run there.
    Required,
}

/// The accelerator that each replica needs.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.profile) || has(self.resourceName)").message("name the accelerator: profile is an AcceleratorProfile, resourceName an extended resource such as nvidia.com/gpu"))]
pub struct Accelerator {
    /// Name of an AcceleratorProfile in the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub profile: Option<String>,

    /// The extended resource, such as `nvidia.com/gpu`. Beats the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<ResourceName>,

    /// How many of it each replica has.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1024))]
    pub count: u32,

    /// The RuntimeClass of the Pods, whatever the profile says; empty for none. A cluster has to have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub runtime_class_name: Option<String>,
}

/// The accelerator that each replica needs, with what its profile says.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementAccelerator {
    /// What the server asks for.
    #[serde(flatten)]
    pub wanted: Accelerator,

    /// The revision of the AcceleratorProfile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    pub revision: Option<String>,

    /// What the AcceleratorProfile says as of that revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<AcceleratorProfileSpec>,
}

/// Name of an extended resource, such as `nvidia.com/gpu`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceName(pub String);

impl ResourceName {
    /// The domain of its owner, such as `nvidia.com`.
    pub fn domain(&self) -> &str {
        self.0.split_once('/').map_or("", |(domain, _)| domain)
    }
}

impl JsonSchema for ResourceName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ResourceName".into()
    }

    fn inline_schema() -> bool {
        true
    }

    /// By a pattern, which costs nothing of the budget for rules. `kubernetes.io` is no vendor's.
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "minLength": 3,
            "maxLength": 317,
            "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        })
    }
}

const fn one() -> u32 {
    1
}
