//! The Open Inference Protocol, HTTP/REST (KServe v2): outputs are the inputs.
//! <https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md>

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    models::Model,
    routes::{Server, unavailable},
};

const MODEL_VERSION: &str = "1";

/// A tensor; its fields are passed through.
type Tensor = serde_json::Map<String, Value>;

#[derive(Debug, Deserialize)]
pub(crate) struct InferRequest {
    #[serde(default)]
    id: Option<String>,
    inputs: Vec<Tensor>,
}

pub(crate) async fn server(State(server): State<Server>) -> Response {
    Json(json!({
        "name": "echo",
        "version": env!("CARGO_PKG_VERSION"),
        "extensions": [],
        "pod": server.who(),
    }))
    .into_response()
}

pub(crate) async fn model(State(server): State<Server>, Path(name): Path<String>) -> Response {
    match find(&server, &name).await {
        Ok(model) => Json(json!({
            "name": model.name,
            "versions": [MODEL_VERSION],
            "platform": "echo",
            "inputs": [],
            "outputs": [],
        }))
        .into_response(),
        Err(refusal) => refusal,
    }
}

pub(crate) async fn model_ready(
    State(server): State<Server>,
    Path(name): Path<String>,
) -> Response {
    match find(&server, &name).await {
        Ok(model) => Json(json!({ "name": model.name, "ready": true })).into_response(),
        Err(refusal) => refusal,
    }
}

pub(crate) async fn infer(
    State(server): State<Server>,
    Path(name): Path<String>,
    Json(request): Json<InferRequest>,
) -> Response {
    let model = match find(&server, &name).await {
        Ok(model) => model,
        Err(refusal) => return refusal,
    };
    let mut answer = json!({
        "model_name": model.name,
        "model_version": MODEL_VERSION,
        "outputs": request.inputs,
        "pod": server.who(),
    });
    if let (Some(id), Some(fields)) = (request.id, answer.as_object_mut()) {
        fields.insert("id".to_owned(), Value::String(id));
    }
    Json(answer).into_response()
}

async fn find(server: &Server, name: &str) -> Result<Model, Response> {
    match server.models.find(name).await {
        Ok(Some(model)) => Ok(model),
        Ok(None) => {
            let error = json!({ "error": format!("model {name:?} is not in the model list") });
            Err((StatusCode::NOT_FOUND, Json(error)).into_response())
        }
        Err(error) => Err(unavailable(&error)),
    }
}
