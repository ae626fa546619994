//! What a field manager has applied of an object: the object cut down to the fields of its `managedFields` entry, whose
//! form the structured-merge-diff project describes.

use serde_json::{Map, Value};

/// The part of `value` that `fields` names. A name without fields below it is a whole value.
pub(super) fn owned(value: &Value, fields: &Value) -> Value {
    let Some(fields) = fields.as_object().filter(|fields| has_parts(fields)) else {
        return value.clone();
    };
    match value {
        Value::Object(object) => Value::Object(members(object, fields)),
        Value::Array(elements) => Value::Array(items(elements, fields)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// A dot says that the value itself is owned, not what of it.
fn has_parts(fields: &Map<String, Value>) -> bool {
    fields.keys().any(|key| key != ".")
}

fn members(object: &Map<String, Value>, fields: &Map<String, Value>) -> Map<String, Value> {
    let named = fields.iter().filter_map(|(key, below)| {
        let name = key.strip_prefix("f:")?;
        Some((name.to_owned(), owned(object.get(name)?, below)))
    });
    named.collect()
}

/// In the order of the list: elements by key (`k:`), values of sets (`v:`).
fn items(elements: &[Value], fields: &Map<String, Value>) -> Vec<Value> {
    let item = |element: &Value| {
        fields.iter().find_map(|(key, below)| {
            if let Some(text) = key.strip_prefix("v:") {
                let value: Value = serde_json::from_str(text).ok()?;
                return (value == *element).then_some(value);
            }
            let keys: Map<String, Value> = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
            let is_it = keys
                .iter()
                .all(|(name, value)| element.get(name) == Some(value));
            is_it.then(|| owned(element, below))
        })
    };
    elements.iter().filter_map(item).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_another_wrote_is_left_out() {
        let object = json!({
            "metadata": {"name": "hello", "labels": {"ours": "1", "theirs": "2"}, "finalizers": ["a", "b"]},
            "spec": {"clusterIP": "10.0.0.1", "ports": [
                {"port": 80, "protocol": "TCP", "name": "http", "targetPort": 80},
                {"port": 81, "protocol": "TCP"},
            ]},
        });
        let fields = json!({
            "f:metadata": {"f:labels": {"f:ours": {}}, "f:finalizers": {"v:\"b\"": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {
                ".": {}, "f:port": {}, "f:protocol": {}, "f:name": {},
            }}},
        });
        assert_eq!(
            owned(&object, &fields),
            json!({
                "metadata": {"labels": {"ours": "1"}, "finalizers": ["b"]},
                "spec": {"ports": [{"port": 80, "protocol": "TCP", "name": "http"}]},
            })
        );
    }

    #[test]
    fn a_value_without_parts_is_taken_whole() {
        let object = json!({"spec": {"list": [1, 2], "map": {"a": 1}}});
        let fields = json!({"f:spec": {"f:list": {}, "f:map": {".": {}}, "f:gone": {}}});
        assert_eq!(owned(&object, &fields), object);
    }
}
