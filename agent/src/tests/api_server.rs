//! An API server that takes what it is given: server-side apply as if there were one applier, no watches.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    body::to_bytes,
    extract::{Request, State},
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;

#[derive(Clone, Default)]
pub(super) struct ApiServer {
    inner: Arc<Mutex<Inner>>,
    /// How often it was written to.
    pub(super) written: Arc<watch::Sender<u64>>,
}

#[derive(Default)]
struct Inner {
    version: u64,
    writes: Vec<String>,
    refused: BTreeMap<String, u16>,
    hanging: Option<String>,
    losing: Option<String>,
    /// Secrets and ServerPlacements, by the end of their path.
    kept: BTreeMap<String, Value>,
}

impl ApiServer {
    pub(super) fn client(&self) -> Client {
        let router = Router::new().fallback(answer).with_state(self.clone());
        Client::new(router, "default")
    }

    /// From now on objects of this kind get this answer; 200 takes them again.
    pub(super) fn refuse(&self, kind: &str, code: u16) {
        self.inner
            .lock()
            .unwrap()
            .refused
            .insert(kind.to_owned(), code);
    }

    /// From now on reads of what it keeps get this answer; 200 answers them again.
    pub(super) fn refuse_reads(&self, code: u16) {
        self.refuse("reads", code);
    }

    /// From now on writes of objects of this kind are never answered.
    pub(super) fn hang(&self, kind: &str) {
        self.inner.lock().unwrap().hanging = Some(kind.to_owned());
    }

    /// From now on writes of objects of this kind come about, and their answers are lost.
    pub(super) fn lose_answers(&self, kind: &str) {
        self.inner.lock().unwrap().losing = Some(kind.to_owned());
    }

    fn hangs(&self, body: &Value) -> bool {
        let hanging = self.inner.lock().unwrap().hanging.clone();
        hanging.is_some_and(|kind| body["kind"] == kind)
    }

    /// The Secret of that name, as it was written last.
    pub(super) fn secret(&self, name: &str) -> Option<Secret> {
        let path = format!("secrets/{name}");
        let secret = self.inner.lock().unwrap().kept.get(&path).cloned();
        secret.map(|secret| serde_json::from_value(secret).unwrap())
    }

    /// The writes since the last call.
    pub(super) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.lock().unwrap().writes)
    }
}

impl Inner {
    fn refusal(&self, of: &str) -> Option<u16> {
        let refusal = self.refused.get(of).copied();
        refusal.filter(|code| *code != 200)
    }
}

async fn answer(State(server): State<ApiServer>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if server.hangs(&body) {
        std::future::pending::<()>().await;
    }
    let mut inner = server.inner.lock().unwrap();
    let path: Vec<&str> = parts.uri.path().rsplit('/').collect();
    if parts.method == Method::GET && path.get(1) == Some(&"namespaces") {
        // Somebody else's.
        return Json(json!({"metadata": {"name": path[0], "uid": "theirs"}})).into_response();
    }
    let end = format!("{}/{}", path[1], path[0]);
    if parts.method == Method::GET {
        if let Some(code) = inner.refusal("reads") {
            return failure(code);
        }
        let kept = inner.kept.get(&end);
        return kept.map_or_else(|| failure(404), |kept| Json(kept).into_response());
    }
    if parts.method == Method::DELETE {
        let uid = body["preconditions"]["uid"].as_str().unwrap();
        let policy = body["propagationPolicy"].as_str().unwrap();
        let line = format!("DELETE {} {} uid={uid} {policy}", path[1], path[0]);
        inner.writes.push(line);
        return Json(json!({"kind": "Status", "status": "Success"})).into_response();
    }
    // A merge patch names no kind.
    let Some(kind) = body["kind"].as_str().map(str::to_owned) else {
        let line = format!("MERGE {} {} {}", path[1], path[0], body["metadata"]);
        inner.writes.push(line);
        return Json(json!({"metadata": {"name": path[0]}})).into_response();
    };
    if let Some(code) = inner.refusal(&kind) {
        return failure(code);
    }
    let name = body["metadata"]["name"].as_str().unwrap();
    inner.writes.push(format!("{} {kind} {name}", parts.method));
    inner.version += 1;
    let version = inner.version;
    let object = stored(body, version);
    if ["Secret", "ServerPlacement"].contains(&kind.as_str()) {
        inner.kept.insert(end, object.clone());
    }
    server.written.send_replace(version);
    if inner.losing.as_ref() == Some(&kind) {
        return failure(504);
    }
    Json(object).into_response()
}

fn failure(code: u16) -> Response {
    let reason = if code == 404 { "NotFound" } else { "Forbidden" };
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": reason});
    (StatusCode::from_u16(code).unwrap(), Json(status)).into_response()
}

/// The object as it comes back: with identity, and owned by its applier as a whole.
fn stored(mut object: Value, version: u64) -> Value {
    let owned = |value: &Value| -> Value {
        let names = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name);
        names.map(|name| (format!("f:{name}"), json!({}))).collect()
    };
    let mut fields = owned(&object);
    fields["f:metadata"] = owned(&object["metadata"]);
    let metadata = &mut object["metadata"];
    if metadata["uid"].is_null() {
        metadata["uid"] = json!(format!("uid-{version}"));
    }
    metadata["resourceVersion"] = json!(version.to_string());
    metadata["generation"] = json!(1);
    metadata["managedFields"] = json!([{
        "manager": "inferfleet-agent", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields,
    }]);
    object
}
