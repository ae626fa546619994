//! Every path of the server, and the header that says who answered.

use std::path::PathBuf;

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use crate::{args::Pod, drain::Drain, kserve, models::Models, openai};

/// On every response: UID of the Pod that answered.
pub const POD_UID_HEADER: HeaderName = HeaderName::from_static("x-echo-pod-uid");

/// The path of liveness: answers as long as the process does.
const LIVE: &str = "/v2/health/live";
/// The path of readiness: 503 while draining, or while the model list can't be read.
const READY: &str = "/v2/health/ready";

/// All that an answer is made of besides its request.
#[derive(Clone, Debug)]
pub struct Server {
    pod: Pod,
    pub(crate) models: Models,
    drain: Drain,
}

impl Server {
    /// A server that is `pod` and serves the models listed in `model_config`.
    pub fn new(pod: Pod, model_config: Option<PathBuf>) -> Self {
        Self {
            pod,
            models: Models::new(model_config),
            drain: Drain::default(),
        }
    }

    /// What its shutdown waits for.
    pub fn drain(&self) -> Drain {
        self.drain.clone()
    }

    /// Who answers, as JSON.
    pub(crate) fn who(&self) -> Value {
        json!(self.pod)
    }
}

/// The server's paths.
pub fn router(server: Server) -> Router {
    let health = Router::new()
        .route(LIVE, get(async || StatusCode::OK))
        .route(READY, get(ready));
    let served = Router::new()
        .route("/", get(index))
        .route("/v2", get(kserve::server))
        .route("/v2/models/{model}", get(kserve::model))
        .route("/v2/models/{model}/ready", get(kserve::model_ready))
        .route("/v2/models/{model}/infer", post(kserve::infer))
        .route("/v1/models", get(openai::models))
        .route("/v1/completions", post(openai::completions))
        .route("/v1/chat/completions", post(openai::chat))
        // Probes are not counted: they go on while the process drains.
        .layer(middleware::from_fn_with_state(server.clone(), count));
    health
        .merge(served)
        .layer(middleware::from_fn_with_state(server.clone(), sign))
        .with_state(server)
}

async fn index(State(server): State<Server>) -> Response {
    match server.models.read().await {
        Ok(models) => Json(json!({ "pod": server.who(), "models": models })).into_response(),
        Err(error) => unavailable(&error),
    }
}

async fn ready(State(server): State<Server>) -> Response {
    if server.drain.has_begun() {
        return unavailable("the server is ending");
    }
    match server.models.read().await {
        Ok(_models) => StatusCode::OK.into_response(),
        Err(error) => unavailable(&error),
    }
}

/// The answer of a server that can't do its work now.
pub(crate) fn unavailable(error: &str) -> Response {
    let body = Json(json!({ "error": error }));
    (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

async fn count(State(server): State<Server>, request: Request, next: Next) -> Response {
    let _in_flight = server.drain.enter();
    next.run(request).await
}

async fn sign(State(server): State<Server>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if let Ok(uid) = HeaderValue::from_str(&server.pod.uid) {
        response.headers_mut().insert(POD_UID_HEADER, uid);
    }
    response
}
