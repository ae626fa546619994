//! What the answers to writes are taken for: from an API server that answers everything alike.

use axum::{Json, Router, http::StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

async fn deletion(answer: StatusCode) -> Result<(), Error> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": answer.as_u16(),
        "message": "so says the test", "reason": "Because",
    });
    let api = Router::new().fallback(move || std::future::ready((answer, Json(status.clone()))));
    let client = Client::new(api, "default");
    let key = ObjectKey::new("n", "a");
    let resource = ApiResource::erase::<ConfigMap>(&());
    delete(
        &client,
        &resource,
        &key,
        "uid-1",
        PropagationPolicy::Background,
    )
    .await
}

#[tokio::test]
async fn what_is_gone_already_is_deleted() {
    assert!(deletion(StatusCode::NOT_FOUND).await.is_ok());
}

#[tokio::test]
async fn a_conflict_deletes_nothing_and_is_tried_again() {
    let error = deletion(StatusCode::CONFLICT).await.unwrap_err();
    assert_eq!(error.retry(), Retry::Later);
    assert_eq!(error.sentence(), "delete ConfigMap n/a: so says the test");
}
