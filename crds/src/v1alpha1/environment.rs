//! Environment variables of model servers.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// An environment variable with a value that is written down.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Variable {
    /// Its name.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[-._a-zA-Z][-._a-zA-Z0-9]*$")
    )]
    pub name: String,

    /// Its value. `$(…)` stands for the same as in a profile's `args`.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub value: String,
}

/// An environment variable: a value, or where the member cluster has it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.value), has(self.secretKeyRef), has(self.configMapKeyRef)].filter(given, given).size() == 1").message("give one of value, secretKeyRef and configMapKeyRef"))]
pub struct ServerVariable {
    /// Its name.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[-._a-zA-Z][-._a-zA-Z0-9]*$")
    )]
    pub name: String,

    /// Its value, taken as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub value: Option<String>,

    /// A key of a Secret in the server's namespace of each member cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyReference>,

    /// A key of a ConfigMap in the server's namespace of each member cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyReference>,
}

/// A key of a Secret or a ConfigMap in a member cluster.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyReference {
    /// Name of the Secret or ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// An object of the same namespace, by name.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalReference {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}
