//! What is ours in an object, and whether it has to be written again. Pure.
//!
//! Each applied object carries the hash of what was applied, and the API server's `managedFields` say which fields
//! are still as we set them: whoever changes one takes it over (server-side apply). So an object is as we want it when
//! the hash is the one of what we want, and our `managedFields` entry covers every field of it. Values are never
//! compared: defaults and quantities that the API server normalises don't look like drift.

#[cfg(test)]
mod tests;

use aws_lc_rs::digest;
use crds::{labels, metadata::is_of_object};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    ManagedFieldsEntry, ObjectMeta, OwnerReference,
};
use kube::{Resource, ResourceExt, api::ApiResource};
use serde::Serialize;
use serde_json::Value;

use crate::cache::ObjectKey;

/// Annotation of each applied object: SHA-256 of what was applied, hexadecimal.
pub const APPLIED_HASH: &str = "inferfleet.io/applied-hash";

/// An object as it is to be, ready to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Where the API server keeps its kind.
    pub resource: ApiResource,
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its controller's UID; whoever else owns an object of this name keeps it.
    pub owner: Option<String>,
    hash: String,
    value: Value,
}

impl Desired {
    /// The object, with the hash of itself.
    ///
    /// # Errors
    /// When it can't be written as JSON.
    pub fn new<K>(object: &K) -> Result<Self, serde_json::Error>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let mut value = serde_json::to_value(object)?;
        let hash = hexadecimal(&serde_json::to_vec(&value)?);
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            let annotations = metadata
                .entry("annotations")
                .or_insert_with(|| Value::Object(serde_json::Map::new()));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(APPLIED_HASH.to_owned(), Value::String(hash.clone()));
            }
        }
        Ok(Self {
            resource: ApiResource::erase::<K>(&()),
            key: ObjectKey::of(object),
            owner: controller(object.meta()).map(|owner| owner.uid.clone()),
            hash,
            value,
        })
    }

    /// What it says of a field beside its metadata.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.value.get(name)
    }

    /// The document to apply, with more metadata: a UID or a version as a precondition.
    pub(crate) fn document(&self, field: &'static str, precondition: &str) -> Value {
        let mut value = self.value.clone();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert(field.to_owned(), Value::String(precondition.to_owned()));
        }
        value
    }

    /// Has the live object to be written again by `manager`?
    pub fn differs_from(&self, live: &ObjectMeta, manager: &str) -> bool {
        let applied = live
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(APPLIED_HASH));
        applied != Some(&self.hash) || !self.is_covered_by(live, manager)
    }

    fn is_covered_by(&self, live: &ObjectMeta, manager: &str) -> bool {
        let entries = live.managed_fields.as_deref().unwrap_or_default();
        let Some(fields) = entries
            .iter()
            .find(|entry| is_apply_of(entry, manager))
            .and_then(|entry| entry.fields_v1.as_ref())
        else {
            return false;
        };
        let Some(document) = self.value.as_object() else {
            return false;
        };
        document.iter().all(|(name, value)| match name.as_str() {
            // Identity is nobody's field.
            "apiVersion" | "kind" => true,
            "metadata" => value
                .as_object()
                .into_iter()
                .flatten()
                .all(|(name, value)| {
                    matches!(name.as_str(), "name" | "namespace")
                        || fields
                            .0
                            .get("f:metadata")
                            .is_some_and(|fields| covers_field(fields, name, value))
                }),
            _ => covers_field(&fields.0, name, value),
        })
    }
}

/// Lower-case hexadecimal SHA-256.
pub fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| {
        DIGITS
            .get(usize::from(nibble))
            .map_or('0', |digit| char::from(*digit))
    };
    let digest = digest::digest(&digest::SHA256, bytes);
    digest
        .as_ref()
        .iter()
        .flat_map(|byte: &u8| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// Has `manager` applied the object?
pub fn is_applied_by(live: &ObjectMeta, manager: &str) -> bool {
    live.managed_fields
        .iter()
        .flatten()
        .any(|entry| is_apply_of(entry, manager))
}

/// Has `manager` applied the object, and does nobody control it? Its controller was taken from it, or went without it. What was let
/// go, by [`crate::apply::disown`], has the hash no more and is none.
pub fn is_orphan(live: &ObjectMeta, manager: &str) -> bool {
    let annotations = live.annotations.as_ref();
    controller(live).is_none()
        && annotations.is_some_and(|annotations| annotations.contains_key(APPLIED_HASH))
        && is_applied_by(live, manager)
}

/// Is the object that of the server of this name, whose part the owner of this UID keeps? That controls it, or nobody does any more
/// and `manager` wrote it for a server of that name: the owner is to have it back.
pub fn belongs_to(live: &ObjectMeta, server: &str, owner: &str, manager: &str) -> bool {
    let name = live.labels.as_ref().and_then(|of| of.get(labels::SERVER));
    controller(live).is_some_and(|controller| controller.uid == owner)
        || (name.is_some_and(|name| name == server) && is_orphan(live, manager))
}

/// The owner that an object's `ownerReferences` call its controller.
pub fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
}

/// Drops from an object what no reconcile reads: the `managedFields` of other managers, and kubectl's copy of it. Of an object
/// of ours, who else wrote it last and when is kept, without the fields.
pub fn trim_metadata(object: &mut impl ResourceExt, manager: &str) {
    if let Some(entries) = object.meta_mut().managed_fields.take() {
        let (ours, others): (Vec<_>, Vec<_>) = entries
            .into_iter()
            .partition(|entry| is_apply_of(entry, manager));
        let newest = others
            .into_iter()
            .filter(|entry| !ours.is_empty() && is_of_object(entry))
            .max_by_key(|entry| entry.time.as_ref().map(|time| time.0))
            .map(|entry| ManagedFieldsEntry {
                manager: entry.manager,
                operation: entry.operation,
                time: entry.time,
                ..ManagedFieldsEntry::default()
            });
        object.meta_mut().managed_fields = Some(ours.into_iter().chain(newest).collect());
    }
    object
        .annotations_mut()
        .remove("kubectl.kubernetes.io/last-applied-configuration");
}

/// Of an object that is nothing of ours, keeps who it is and whether it goes.
pub fn strip_metadata(object: &mut impl ResourceExt) {
    let meta = std::mem::take(object.meta_mut());
    *object.meta_mut() = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        deletion_timestamp: meta.deletion_timestamp,
        ..ObjectMeta::default()
    };
}

fn is_apply_of(entry: &ManagedFieldsEntry, manager: &str) -> bool {
    entry.manager.as_deref() == Some(manager)
        && entry.operation.as_deref() == Some("Apply")
        && is_of_object(entry)
}

/// Does a `FieldsV1` node own the field `name` with all of `value`?
fn covers_field(fields: &Value, name: &str, value: &Value) -> bool {
    value.is_null()
        || fields
            .get(format!("f:{name}"))
            .is_some_and(|fields| covers(fields, value))
}

/// Does a `FieldsV1` node own all of `value`? An empty node is a leaf: it owns what is below as one.
fn covers(fields: &Value, value: &Value) -> bool {
    if fields.as_object().is_none_or(serde_json::Map::is_empty) {
        return true;
    }
    match value {
        Value::Object(members) => members
            .iter()
            .all(|(name, value)| covers_field(fields, name, value)),
        Value::Array(items) => items.iter().all(|item| covers_item(fields, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Items of a list map are owned as `k:{"name":"x"}`, those of a set as `v:"x"` (structured-merge-diff's `PathElement`).
fn covers_item(fields: &Value, item: &Value) -> bool {
    let Some(members) = item.as_object() else {
        return fields.get(format!("v:{item}")).is_some();
    };
    fields
        .as_object()
        .into_iter()
        .flatten()
        .any(|(element, below)| {
            let Some(keys) = element
                .strip_prefix("k:")
                .and_then(|keys| serde_json::from_str::<Value>(keys).ok())
            else {
                return false;
            };
            // A key that we left out was filled in by a default.
            let same = keys
                .as_object()
                .into_iter()
                .flatten()
                .all(|(name, value)| members.get(name).is_none_or(|member| member == value));
            same && covers(below, item)
        })
}
