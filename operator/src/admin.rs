//! The admin endpoint: `/healthz`, `/readyz`, `/metrics`. For probes and scrapers; it shows no object.

use std::sync::Arc;

use axum::{Router, http::StatusCode, routing::get};
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::net::TcpListener;

/// Serves until it is dropped. `ready` says what keeps the process from being ready; `None`: nothing.
///
/// # Errors
/// When the listener fails.
pub async fn serve<F>(
    listener: TcpListener,
    registry: Arc<Registry>,
    ready: F,
) -> std::io::Result<()>
where
    F: Fn() -> Option<&'static str> + Clone + Send + Sync + 'static,
{
    axum::serve(listener, router(registry, ready)).await
}

fn router<F>(registry: Arc<Registry>, ready: F) -> Router
where
    F: Fn() -> Option<&'static str> + Clone + Send + Sync + 'static,
{
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route(
            "/readyz",
            get(async move || match ready() {
                None => (StatusCode::OK, "ok"),
                Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
            }),
        )
        .route(
            "/metrics",
            get(async move || {
                let mut text = String::new();
                match encode(&mut text, &registry) {
                    Ok(()) => (StatusCode::OK, text),
                    Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
                }
            }),
        )
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use prometheus_client::metrics::gauge::Gauge;
    use tower::ServiceExt;

    use super::*;

    async fn get(ready: Option<&'static str>, path: &str) -> (StatusCode, String) {
        let mut registry = Registry::default();
        registry.register("answers", "Of this test", Gauge::<i64>::default());
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = router(Arc::new(registry), move || ready)
            .oneshot(request)
            .await
            .unwrap();
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 16)
            .await
            .unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_process_is_alive_before_it_is_ready_and_says_what_it_waits_for() {
        assert_eq!(get(Some("caches"), "/healthz").await.0, StatusCode::OK);
        let waiting = get(Some("caches"), "/readyz").await;
        assert_eq!(
            waiting,
            (StatusCode::SERVICE_UNAVAILABLE, "caches".to_owned())
        );
        assert_eq!(get(None, "/readyz").await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn metrics_are_open_metrics_text() {
        let (status, text) = get(None, "/metrics").await;
        assert_eq!(status, StatusCode::OK);
        assert!(
            text.contains("answers 0") && text.ends_with("# EOF\n"),
            "{text}"
        );
    }
}
