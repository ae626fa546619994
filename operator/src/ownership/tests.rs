//! Objects as the API server gives them back: which have to be written again.

use k8s_openapi::{
    api::core::v1::{ConfigMap, Service},
    apimachinery::pkg::apis::meta::v1::{FieldsV1, Time},
    jiff::Timestamp,
};
use serde_json::json;

use super::*;

fn service() -> Desired {
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "a", "namespace": "n", "labels": {"x": "y", "z": "y"}},
        "spec": {"ports": [{"name": "http", "port": 80}], "selector": {"app": "a"}, "externalIPs": []}
    }))
    .unwrap();
    Desired::new(&service).unwrap()
}

fn live(desired: &Desired, fields: Value) -> ObjectMeta {
    ObjectMeta {
        annotations: Some([(APPLIED_HASH.to_owned(), desired.hash.clone())].into()),
        managed_fields: Some(vec![ManagedFieldsEntry {
            manager: Some("us".to_owned()),
            operation: Some("Apply".to_owned()),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        }]),
        ..ObjectMeta::default()
    }
}

fn all_ours() -> Value {
    json!({
        "f:metadata": {"f:labels": {"f:x": {}, "f:z": {}}, "f:annotations": {format!("f:{APPLIED_HASH}"): {}}},
        "f:spec": {
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}},
            "f:selector": {},
            "f:externalIPs": {}
        }
    })
}

#[test]
fn an_object_whose_fields_are_all_still_ours_is_not_written() {
    let desired = service();
    assert!(!desired.differs_from(&live(&desired, all_ours()), "us"));
}

#[test]
fn an_object_of_another_content_is_written() {
    let mut live = live(&service(), all_ours());
    live.annotations = Some([(APPLIED_HASH.to_owned(), "other".to_owned())].into());
    assert!(service().differs_from(&live, "us"));
}

#[test]
fn a_field_that_another_hand_took_over_is_written() {
    let desired = service();
    for path in [
        "/f:metadata/f:labels/f:x",
        "/f:spec/f:selector",
        "/f:spec/f:ports/k:{\"port\":80,\"protocol\":\"TCP\"}/f:name",
    ] {
        let mut fields = all_ours();
        let (parent, name) = path.rsplit_once('/').unwrap();
        fields
            .pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(name)
            .unwrap();
        assert!(
            desired.differs_from(&live(&desired, fields), "us"),
            "{path}"
        );
    }
}

#[test]
fn what_another_manager_owns_does_not_count() {
    let desired = service();
    // Neither as ours
    assert!(desired.differs_from(&live(&desired, all_ours()), "them"));
    // nor as what is to be put right: a field of theirs beside ours, and one of ours that they own as well.
    let mut live = live(&desired, all_ours());
    let fields = json!({
        "f:metadata": {"f:labels": {"f:x": {}, "f:theirs": {}}, "f:annotations": {"f:theirs": {}}},
        "f:spec": {"f:type": {}, "f:ports": {"k:{\"port\":81,\"protocol\":\"TCP\"}": {"f:port": {}}}},
    });
    live.managed_fields.as_mut().unwrap().insert(
        0,
        ManagedFieldsEntry {
            manager: Some("them".to_owned()),
            operation: Some("Apply".to_owned()),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        },
    );
    assert!(!desired.differs_from(&live, "us"));
}

#[test]
fn of_what_others_wrote_only_the_newest_time_is_kept_and_only_beside_a_write_of_ours() {
    let desired = service();
    let entry = |manager: &str, subresource: Option<&str>, second: i64| ManagedFieldsEntry {
        manager: Some(manager.to_owned()),
        operation: Some("Update".to_owned()),
        subresource: subresource.map(str::to_owned),
        time: Some(Time(Timestamp::from_second(second).unwrap())),
        fields_v1: Some(FieldsV1(all_ours())),
        ..ManagedFieldsEntry::default()
    };
    let mut object = Service {
        metadata: live(&desired, all_ours()),
        ..Service::default()
    };
    let ours = object.metadata.managed_fields.clone().unwrap();
    object.metadata.managed_fields = Some(vec![
        entry("them", None, 3),
        ours[0].clone(),
        entry("us", None, 2),
        entry("their-controller", Some("status"), 4),
    ]);
    trim_metadata(&mut object, "us");
    let theirs = ManagedFieldsEntry {
        fields_v1: None,
        ..entry("them", None, 3)
    };
    let kept = Some(vec![ours[0].clone(), theirs]);
    assert_eq!(object.metadata.managed_fields, kept);
    trim_metadata(&mut object, "us");
    assert_eq!(object.metadata.managed_fields, kept, "trimmed once more");
    assert!(is_applied_by(&object.metadata, "us"));
    assert!(!is_applied_by(&object.metadata, "them"));
    assert!(!desired.differs_from(&object.metadata, "us"));

    object.metadata.managed_fields = Some(vec![entry("them", None, 3), entry("us", None, 2)]);
    trim_metadata(&mut object, "us");
    assert_eq!(object.metadata.managed_fields, Some(Vec::new()));
    assert!(!is_applied_by(&object.metadata, "us"));
}

#[test]
fn items_of_a_set_are_owned_by_value() {
    let fields = json!({"v:\"a\"": {}, "v:\"b\"": {}});
    assert!(covers(&fields, &json!(["a", "b"])));
    assert!(!covers(&fields, &json!(["a", "c"])));
}

#[test]
fn the_same_content_has_the_same_hash() {
    assert_eq!(service().hash, service().hash);
    let other = Desired::new(&ConfigMap::default()).unwrap();
    assert_ne!(service().hash, other.hash);
}

#[test]
fn what_nobody_controls_is_an_orphan_if_we_applied_it_and_did_not_let_it_go() {
    let ours = live(&service(), all_ours());
    assert!(is_orphan(&ours, "us"));
    assert!(!is_orphan(&ours, "them"));
    let let_go = ObjectMeta {
        annotations: None,
        ..ours.clone()
    };
    assert!(!is_orphan(&let_go, "us"));
    let owner = |controller| OwnerReference {
        controller: Some(controller),
        ..OwnerReference::default()
    };
    for (controller, expected) in [(true, false), (false, true)] {
        let owned = ObjectMeta {
            owner_references: Some(vec![owner(controller)]),
            ..ours.clone()
        };
        assert_eq!(is_orphan(&owned, "us"), expected);
    }
}
