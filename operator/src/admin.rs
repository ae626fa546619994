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
