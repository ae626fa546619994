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
