//! What a server is held by, and pinned to.

use crds::labels;

use super::{namespaces::own, *};

#[tokio::test]
async fn a_server_is_pinned_with_its_finalizer_before_any_member_is_told_and_no_edit_moves_it() {
    let api = FakeApi::default();
    let server = crate::contract::server("team", "llama");
    let stored = serde_json::to_value(&server).unwrap();
    api.put(&format!("{SERVERS}/llama"), stored);
    api.put_recorded_profile("echo");
    api.put_member("east", &json!({}));
    let reconciler = reconciler(&api, own);
    let wanted = || {
        let east = reconciler.parts.placer.member("east").unwrap();
        let key = proto::PlacementKey::new("team", "llama").unwrap();
        east.lock().machine.wanted_uid(&key).map(str::to_owned)
    };
    // Neither of the two is there without the other, and nobody is told of what may be moved.
    api.refuse(Method::PATCH, "/llama", StatusCode::FORBIDDEN);
    Arc::clone(&reconciler).reconcile(key()).await;
    assert_eq!(wanted(), None);
    api.relent();
    Arc::clone(&reconciler).reconcile(key()).await;
    let metadata = || api.get("llama").unwrap()["metadata"].clone();
    assert_eq!(metadata()["finalizers"], json!([labels::CLEANUP]));
    let pins = json!(r#"{"runtime":{"echo":1}}"#);
    assert_eq!(metadata()["annotations"][labels::PROFILE_REVISIONS], pins);
    assert!(wanted().is_some());

    let caches = &reconciler.parts.caches;
    caches.shelve(|shelves| {
        let one = shelves.runtimes.entry("echo").unwrap().get(1).unwrap();
        let mut edited = one.as_ref().clone();
        edited.drain_seconds += 1;
        shelves.runtimes.put("echo", 2, Some(edited.clone()));
        shelves.runtimes.say("echo", Some(edited));
    });
    Arc::clone(&reconciler).reconcile(key()).await;
    assert_eq!(metadata()["annotations"][labels::PROFILE_REVISIONS], pins);
    assert_eq!(api.get("llama").unwrap()["status"]["profileRevision"], "1");
}
