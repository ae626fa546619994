//! The chart's CRDs are what the types say.

use std::{fs, path::Path};

#[test]
fn the_charts_crds_are_what_the_types_generate() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/inferfleet-crds/templates");
    for (name, definition) in crds::definitions().unwrap() {
        let kept = fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap_or_default();
        let generated = crds::manifest(&definition).unwrap();
        assert!(
            kept == generated,
            "{name}.yaml is stale: run `cargo run -p crds --bin crdgen charts/inferfleet-crds/templates`"
        );
    }
}

#[test]
fn every_field_of_a_specification_is_described() {
    fn undescribed(path: &str, schema: &serde_json::Value, found: &mut Vec<String>) {
        let properties = schema
            .get("properties")
            .and_then(serde_json::Value::as_object);
        for (name, child) in properties.into_iter().flatten() {
            let path = format!("{path}.{name}");
            if child.get("description").is_none() {
                found.push(path.clone());
            }
            undescribed(&path, child, found);
            undescribed(&path, &child["items"], found);
        }
    }
    for (name, definition) in crds::definitions().unwrap() {
        let schema = serde_json::to_value(&definition.spec.versions[0].schema).unwrap();
        let mut found = Vec::new();
        undescribed(
            name,
            &schema["openAPIV3Schema"]["properties"]["spec"],
            &mut found,
        );
        undescribed(
            name,
            &schema["openAPIV3Schema"]["properties"]["status"],
            &mut found,
        );
        assert!(found.is_empty(), "no description: {found:?}");
    }
}

/// Kubernetes 1.31 takes such a text to be as long as a request, whatever its maxLength, and refuses a CRD for the rule's cost.
#[test]
fn no_rule_looks_at_what_may_be_a_number_or_a_text() {
    fn ruled(path: &str, schema: &serde_json::Value, found: &mut Vec<String>) {
        let has = |field| schema.get(field).is_some();
        if has("x-kubernetes-int-or-string") && has("x-kubernetes-validations") {
            found.push(path.to_owned());
        }
        let children = schema
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, child)| child.is_object());
        for (name, child) in children {
            ruled(&format!("{path}.{name}"), child, found);
        }
    }
    for (name, definition) in crds::definitions().unwrap() {
        let schema = serde_json::to_value(&definition.spec.versions[0].schema).unwrap();
        let mut found = Vec::new();
        ruled(name, &schema, &mut found);
        assert!(found.is_empty(), "a rule of an int-or-string: {found:?}");
    }
}
