//! Kubernetes quantities in our own schema.
//!
//! The `Quantity` of `k8s-openapi` is a bare string in a schema. Ours is int-or-string, as everywhere in Kubernetes,
//! and is checked by the API server.

use k8s_openapi::apimachinery::pkg::{api::resource, util::intstr::IntOrString};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A resource quantity: `500m`, `2`, `16Gi`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quantity(pub IntOrString);

impl Quantity {
    /// The type that Kubernetes' own kinds take.
    pub fn to_kubernetes(&self) -> resource::Quantity {
        resource::Quantity(match &self.0 {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::String(text) => text.clone(),
        })
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    /// The grammar of `resource.Quantity`, without the empty number. A pattern, though a rule would have a sentence of its own:
    /// Kubernetes 1.31 takes the text of an int-or-string to be as long as a request, and refuses the CRD for the rule's cost.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A resource quantity, such as 500m, 2 or 16Gi.",
            "x-kubernetes-int-or-string": true,
            "maxLength": 32,
            "pattern": "^[0-9]+([.][0-9]*)?([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$"
        })
    }
}
