//! A namespace that takes nothing new: it is being deleted, or gone.

use serde_json::{Value, json};

use super::*;
use crate::server::plugin::OwnSteps;

pub(super) fn own(
    publisher: &Arc<dyn Publisher>,
    routing: &Arc<dyn Routing>,
) -> Arc<dyn ServerPlugin> {
    Arc::new(OwnSteps::new(publisher, routing))
}

/// Status and reason of a condition of the server.
fn said(api: &FakeApi, kind: &str) -> Option<(String, String)> {
    let server = api.get("llama")?;
    let conditions = server["status"]["conditions"].as_array()?.clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == kind);
    found.map(|condition| (text(&condition["status"]), text(&condition["reason"])))
}

#[tokio::test]
async fn where_nothing_new_is_taken_a_condition_says_so_and_it_is_tried_by_the_back_off() {
    // 403 while it is being deleted (NamespaceTerminating), 404 when it is gone.
    for code in [StatusCode::FORBIDDEN, StatusCode::NOT_FOUND] {
        let api = api();
        api.put_recorded_profile("echo");
        api.refuse(Method::PATCH, "/llama-endpoints", code);
        let reconciler = reconciler(&api, own);
        let next = Arc::clone(&reconciler).reconcile(key()).await;
        // Retry waits longer each time; nothing else asks for another pass.
        assert_eq!(next, Next::Retry, "{code}");
        let refused = ("False".to_owned(), "ApplyRefused".to_owned());
        assert_eq!(said(&api, "EndpointPublish"), Some(refused), "{code}");
        assert!(api.get("llama-endpoints").is_none());

        api.relent();
        let next = reconciler.reconcile(key()).await;
        assert!(matches!(next, Next::Recheck { .. }), "{next:?}");
        assert!(api.get("llama-endpoints").is_some());
    }
}

#[tokio::test]
async fn a_finalizer_that_is_refused_is_in_the_status_and_not_in_the_log_alone() {
    for (deleted, kind) in [(false, "Validation"), (true, "Cleanup")] {
        let api = api();
        api.put_recorded_profile("echo");
        let mut server = api.get("llama").unwrap();
        if deleted {
            server["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        } else {
            server["metadata"]["finalizers"] = json!([]);
        }
        api.put(&format!("{SERVERS}/llama"), server);
        api.refuse(Method::PATCH, "/llama", StatusCode::FORBIDDEN);
        let reconciler = reconciler(&api, own);
        let next = Arc::clone(&reconciler).reconcile(key()).await;
        assert_eq!(next, Next::Retry, "{kind}");
        let refused = ("False".to_owned(), "ApplyRefused".to_owned());
        assert_eq!(said(&api, kind), Some(refused));
        let ready = said(&api, "Ready").unwrap();
        assert_eq!(ready.0, "False", "{kind}");
        assert!(api.get("llama-endpoints").is_none());

        api.relent();
        reconciler.reconcile(key()).await;
        let server = api.get("llama").unwrap();
        let held = server["metadata"]["finalizers"] != json!([]);
        assert_eq!(held, !deleted);
    }
}

#[tokio::test]
async fn a_server_that_goes_with_its_namespace_is_let_go_and_gets_nothing_new() {
    let api = api();
    api.put_recorded_profile("echo");
    let mut server = api.get("llama").unwrap();
    server["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    api.put(&format!("{SERVERS}/llama"), server);
    api.refuse(Method::PATCH, "/llama-endpoints", StatusCode::FORBIDDEN);
    reconciler(&api, own).reconcile(key()).await;
    let server = api.get("llama").unwrap();
    assert_eq!(server["metadata"]["finalizers"], json!([]));
    assert_eq!(api.names(), ["runtimeprofile-echo-1", "llama", "echo"]);
}
