//! An API server for tests: it keeps what is applied, and refuses what a test tells it to. It has no watch: `caches` are filled
//! from what it holds. And a log that is read.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Json, Router,
    body::to_bytes,
    extract::Request,
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};
use crds::{
    labels,
    v1alpha1::{InferenceServer, RuntimeProfile, RuntimeProfileSpec},
};
use hub_plan::revisions::{self, Pins};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use crate::observe::Caches;

/// Where an API server has what the hub writes of the namespace `team`.
pub(crate) const SERVICES: &str = "/api/v1/namespaces/team/services";
pub(crate) const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/team/endpointslices";
pub(crate) const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/team/httproutes";
pub(crate) const MEMBERS: &str = "/apis/inferfleet.io/v1alpha1/memberclusters";
pub(crate) const PROFILES: &str = "/apis/inferfleet.io/v1alpha1/runtimeprofiles";
pub(crate) const RECORDS: &str = "/apis/apps/v1/namespaces/inferfleet/controllerrevisions";
pub(crate) const SERVERS: &str = "/apis/inferfleet.io/v1alpha1/namespaces/team/inferenceservers";

/// A server that is held by the hub, and pinned to that revision of its profile.
pub(crate) fn held(mut server: InferenceServer, revision: i64) -> InferenceServer {
    server.metadata.finalizers = Some(vec![labels::CLEANUP.to_owned()]);
    let pins = Pins {
        runtime: [(server.spec.runtime.profile.clone(), revision)].into(),
        ..Pins::default()
    };
    let pins = (labels::PROFILE_REVISIONS.to_owned(), pins.text().unwrap());
    server.metadata.annotations = Some([pins].into());
    server
}

/// Clones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeApi(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    /// By path.
    objects: BTreeMap<String, Value>,
    version: u64,
    /// What was told of it.
    events: Vec<Value>,
    /// Method, and the end of the path.
    refused: Vec<(Method, &'static str, StatusCode)>,
}

impl FakeApi {
    /// Has to be called within a runtime.
    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let serve = move |request: Request| {
            let api = api.clone();
            async move { api.answer(request).await }
        };
        Client::new(Router::new().fallback(serve), "default")
    }

    /// From now on it refuses what goes to a path of that end.
    pub(crate) fn refuse(&self, method: Method, end: &'static str, code: StatusCode) {
        self.held(|held| held.refused.push((method, end, code)));
    }

    /// It refuses nothing any more.
    pub(crate) fn relent(&self) {
        self.held(|held| held.refused.clear());
    }

    /// The names of what it holds, in the order of their paths.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |path: &String| path.rsplit('/').next().map(str::to_owned);
        self.held(|held| held.objects.keys().filter_map(name).collect())
    }

    /// All that it holds, by path.
    pub(crate) fn objects(&self) -> BTreeMap<String, Value> {
        self.held(|held| held.objects.clone())
    }

    /// Reason and note of each event.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let said = |event: &Value| (text(&event["reason"]), text(&event["note"]));
        self.held(|held| held.events.iter().map(said).collect())
    }

    /// Puts a RuntimeProfile there that says as little as can be.
    pub(crate) fn put_profile(&self, name: &str) -> RuntimeProfileSpec {
        let spec = json!({
            "images": [{"image": "echo:1"}],
            "ports": [{"name": "http", "port": 8080}],
            "probes": {"readiness": {"path": "/ready"}},
        });
        let profile = json!({
            "apiVersion": "inferfleet.io/v1alpha1", "kind": "RuntimeProfile", "metadata": {"name": name},
            "spec": spec,
        });
        self.put(&format!("{PROFILES}/{name}"), profile);
        serde_json::from_value(spec).unwrap()
    }

    /// The same, recorded as its revision 1.
    pub(crate) fn put_recorded_profile(&self, name: &str) {
        let spec = self.put_profile(name);
        let record = revisions::record("inferfleet", name, 1, &spec).unwrap();
        let object = record.metadata.name.clone().unwrap();
        let record = serde_json::to_value(record).unwrap();
        self.put(&format!("{RECORDS}/{object}"), record);
    }

    /// Puts a MemberCluster there that has joined.
    pub(crate) fn put_member(&self, name: &str, metadata: &Value) {
        let mut record = json!({
            "apiVersion": "inferfleet.io/v1alpha1", "kind": "MemberCluster", "metadata": {"name": name}, "spec": {},
            "status": {"enrollment": {
                "clusterUid": "u", "tokenSha256": "0", "keySha256": "0", "at": "2026-01-01T00:00:00Z",
            }},
        });
        merge(&mut record["metadata"], metadata);
        self.put(&format!("{MEMBERS}/{name}"), record);
    }

    /// The object of that name.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        let end = format!("/{name}");
        self.held(|held| {
            let mut objects = held.objects.iter();
            let found = objects.find(|(path, _)| path.ends_with(&end));
            found.map(|(_, object)| object.clone())
        })
    }

    /// Puts an object of a server there, as if it had been there for ever.
    pub(crate) fn put_owned(&self, server: &InferenceServer, base: &str, mut object: Value) {
        object["metadata"]["namespace"] = "team".into();
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "inferfleet.io/v1alpha1", "kind": "InferenceServer",
            "name": server.metadata.name, "uid": server.metadata.uid, "controller": true,
        }]);
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.put(&format!("{base}/{name}"), object.clone());
    }

    /// The same of any object.
    pub(crate) fn put(&self, path: &str, mut object: Value) {
        self.held(|held| {
            held.stamp(path, &mut object);
            held.objects.insert(path.to_owned(), object);
        });
    }

    /// Somebody else has applied the object of that name.
    pub(crate) fn disown(&self, name: &str) {
        let end = format!("/{name}");
        self.held(|held| {
            let mut objects = held.objects.iter_mut();
            let found = objects.find(|(path, _)| path.ends_with(&end));
            let (_, object) = found.unwrap();
            object["metadata"]["managedFields"][0]["manager"] = "somebody".into();
        });
    }

    /// What a watch would have brought of all that it holds.
    pub(crate) fn caches(&self) -> Caches {
        let caches = Caches::default();
        for object in self.held(|held| held.objects.values().cloned().collect::<Vec<_>>()) {
            match object["kind"].as_str().unwrap() {
                "Service" => caches
                    .services
                    .note(serde_json::from_value(object).unwrap()),
                "EndpointSlice" => caches.slices.note(serde_json::from_value(object).unwrap()),
                "HTTPRoute" => caches.routes.note(serde_json::from_value(object).unwrap()),
                "InferenceServer" => caches.servers.note(serde_json::from_value(object).unwrap()),
                "MemberCluster" => caches.members.note(serde_json::from_value(object).unwrap()),
                "RuntimeProfile" => {
                    let profile: RuntimeProfile = serde_json::from_value(object).unwrap();
                    let (name, spec) = (profile.name_any(), profile.spec.clone());
                    caches.shelve(|shelves| shelves.runtimes.say(&name, Some(spec)));
                    caches.profiles.note(profile);
                }
                "ControllerRevision" => {
                    let record: ControllerRevision = serde_json::from_value(object).unwrap();
                    caches
                        .shelve(|shelves| shelves.take(&record, true))
                        .unwrap();
                    caches.records.note(record);
                }
                other => panic!("the fake knows no {other}"),
            }
        }
        caches
    }

    fn held<T>(&self, look: impl FnOnce(&mut Held) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path();
        self.held(|held| held.take(&parts.method, path, body))
    }
}

impl Held {
    fn take(&mut self, method: &Method, path: &str, body: Value) -> Response {
        // Nothing but events is made by a POST.
        if *method == Method::POST {
            self.events.push(body.clone());
            return Json(body).into_response();
        }
        let mut refused = self.refused.iter();
        let refused = refused.find(|(of, end, _)| of == method && path.ends_with(end));
        if let Some((.., code)) = refused {
            return refusal(*code);
        }
        let path = path.trim_end_matches("/status");
        let there = self.objects.get(path).cloned();
        if *method == Method::PATCH {
            let new = body["metadata"]["resourceVersion"] == "1";
            if new && there.is_some() {
                return refusal(StatusCode::CONFLICT);
            }
            let mut object = there.unwrap_or_default();
            merge(&mut object, &body);
            self.stamp(path, &mut object);
            self.objects.insert(path.to_owned(), object.clone());
            return Json(object).into_response();
        }
        let Some(there) = there else {
            return refusal(StatusCode::NOT_FOUND);
        };
        if *method == Method::DELETE {
            let (asked, metadata) = (&body["preconditions"], &there["metadata"]);
            let version = &asked["resourceVersion"];
            let is_stale = !version.is_null() && *version != metadata["resourceVersion"];
            if asked["uid"] != metadata["uid"] || is_stale {
                return refusal(StatusCode::CONFLICT);
            }
            self.objects.remove(path);
        }
        Json(there).into_response()
    }

    /// Who it is, its next version, and that the hub has applied every field of it.
    fn stamp(&mut self, path: &str, object: &mut Value) {
        self.version += 1;
        let fields: serde_json::Map<String, Value> = object
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, _)| (format!("f:{field}"), json!({})))
            .collect();
        let mut fields = Value::Object(fields);
        fields["f:metadata"] =
            json!({"f:labels": {}, "f:annotations": {}, "f:ownerReferences": {}});
        let metadata = &mut object["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = format!("uid-of-{path}").into();
        }
        metadata["resourceVersion"] = (self.version + 1).to_string().into();
        metadata["managedFields"] = json!([{
            "manager": "inferfleet-hub", "operation": "Apply", "fieldsV1": fields,
        }]);
    }
}

/// As server-side apply and a merge do, as far as tests need it.
fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (field, value) in patch {
                merge(object.entry(field.clone()).or_insert(Value::Null), value);
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}

fn refusal(code: StatusCode) -> Response {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code.as_u16(),
        "message": "the test says no", "reason": "Because",
    });
    (code, Json(status)).into_response()
}

/// Keeps what is logged. Clones are one.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Until the guard is dropped, what this thread logs.
    pub(crate) fn follow(&self) -> DefaultGuard {
        let subscriber = tracing_subscriber::fmt().without_time();
        let subscriber = subscriber.json().with_writer(self.clone()).finish();
        tracing::subscriber::set_default(subscriber)
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let Self(log) = self;
        let log = String::from_utf8(log.lock().unwrap().clone()).unwrap();
        log.lines().map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
