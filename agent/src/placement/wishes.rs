//! The newest word of the hub on each key, as it is to be applied.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crds::{
    labels, reason,
    v1alpha1::{ServerPlacement, ServerPlacementSpec},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use operator::{ownership::Desired, wake::SharedWakes};
use proto::{
    Hash, PlacementKey,
    session::{AgentEvent, Refusal, Removal},
};
use serde::Serialize;

/// What a key is to be.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// A ServerPlacement of this value.
    Kept(Arc<Value>),
    /// None of this InferenceServer, with what it runs or without.
    Gone { uid: String, removal: Removal },
}

/// A value, as it is to be applied.
#[derive(Debug)]
pub(crate) struct Value {
    /// UID of the InferenceServer.
    pub(crate) uid: String,
    /// The hub's number.
    pub(crate) generation: u64,
    /// The body's.
    pub(crate) hash: Hash,
    /// The object, or why there can't be one.
    pub(crate) desired: Result<Desired, Refusal>,
}

/// The wishes by key. Bounded by the number of keys: a newer word takes the older one's place.
#[derive(Debug)]
pub(crate) struct Wishes {
    by_key: Mutex<BTreeMap<PlacementKey, Wish>>,
    wakes: SharedWakes<PlacementKey>,
}

impl Wishes {
    pub(crate) fn new(wakes: SharedWakes<PlacementKey>) -> Self {
        Self {
            by_key: Mutex::default(),
            wakes,
        }
    }

    /// Takes a word of the hub, if it is one on a key. Called under the machine's lock, in the order of the words.
    pub(crate) fn take(&self, event: AgentEvent) {
        let (key, wish) = match event {
            AgentEvent::Desired {
                key,
                uid,
                generation,
                hash,
                body,
            } => {
                let desired = desired(&key, &uid, generation, hash, &body);
                let value = Value {
                    uid,
                    generation,
                    hash,
                    desired,
                };
                (key, Wish::Kept(Arc::new(value)))
            }
            AgentEvent::Tombstone { key, uid, removal } => (key, Wish::Gone { uid, removal }),
            AgentEvent::Absent { key, uid } => {
                let removal = Removal::Delete;
                (key, Wish::Gone { uid, removal })
            }
            AgentEvent::Welcomed { .. }
            | AgentEvent::Rejected { .. }
            | AgentEvent::Certificate { .. } => return,
        };
        self.lock().insert(key.clone(), wish);
        self.wakes.wake(key);
    }

    pub(crate) fn get(&self, key: &PlacementKey) -> Option<Wish> {
        self.lock().get(key).cloned()
    }

    /// Nothing of this key and UID is left. A newer wish stays.
    pub(crate) fn fulfilled(&self, key: &PlacementKey, server: &str) {
        let mut by_key = self.lock();
        if matches!(by_key.get(key), Some(Wish::Gone { uid, .. }) if uid == server) {
            by_key.remove(key);
        }
    }

    /// Wakes the keys whose namespace appeared or went.
    pub(crate) fn namespace_changed(&self, namespace: &str) {
        let by_key = self.lock();
        let concerned = by_key.keys().filter(|key| key.namespace() == namespace);
        concerned.for_each(|key| self.wakes.wake(key.clone()));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PlacementKey, Wish>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A ServerPlacement whose specification is passed on as it came, with fields that this version does not know.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AsSent {
    api_version: Cow<'static, str>,
    kind: Cow<'static, str>,
    metadata: ObjectMeta,
    spec: serde_json::Value,
}

impl Resource for AsSent {
    type DynamicType = ();
    type Scope = <ServerPlacement as Resource>::Scope;

    fn kind(of: &()) -> Cow<'_, str> {
        ServerPlacement::kind(of)
    }

    fn group(of: &()) -> Cow<'_, str> {
        ServerPlacement::group(of)
    }

    fn version(of: &()) -> Cow<'_, str> {
        ServerPlacement::version(of)
    }

    fn plural(of: &()) -> Cow<'_, str> {
        ServerPlacement::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

fn desired(
    key: &PlacementKey,
    uid: &str,
    generation: u64,
    hash: Hash,
    body: &[u8],
) -> Result<Desired, Refusal> {
    let invalid = |field: String, message: String| Refusal {
        reason: reason::INVALID_PLACEMENT.to_owned(),
        field,
        message,
    };
    let mut reader = serde_json::Deserializer::from_slice(body);
    let _readable: ServerPlacementSpec = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| invalid(error.path().to_string(), error.inner().to_string()))?;
    let unreadable = |error: serde_json::Error| invalid(String::new(), error.to_string());
    let spec = serde_json::from_slice(body).map_err(unreadable)?;
    let annotations = [
        (labels::SERVER_UID, uid.to_owned()),
        (labels::GENERATION, generation.to_string()),
        (labels::HASH, hash.to_string()),
    ];
    Desired::new(&AsSent {
        api_version: ServerPlacement::api_version(&()),
        kind: ServerPlacement::kind(&()),
        metadata: ObjectMeta {
            name: Some(key.name().to_owned()),
            namespace: Some(key.namespace().to_owned()),
            labels: Some([(labels::MANAGED_BY.to_owned(), labels::AGENT.to_owned())].into()),
            annotations: Some(
                annotations
                    .map(|(name, value)| (name.to_owned(), value))
                    .into(),
            ),
            ..ObjectMeta::default()
        },
        spec,
    })
    .map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use operator::wake::Wakes;
    use serde_json::json;

    use super::*;

    fn key() -> PlacementKey {
        PlacementKey::new("team-a", "llama").unwrap()
    }

    fn event(body: &str) -> AgentEvent {
        AgentEvent::Desired {
            key: key(),
            uid: "u".to_owned(),
            generation: 7,
            hash: Hash::of(body.as_bytes()),
            body: body.to_owned().into(),
        }
    }

    fn kept(body: &str) -> Arc<Value> {
        let wishes = Wishes::new(Arc::new(Wakes::default()));
        wishes.take(event(body));
        match wishes.get(&key()) {
            Some(Wish::Kept(value)) => value,
            other => panic!("{other:?}"),
        }
    }

    fn spec() -> serde_json::Value {
        json!({"replicas": 1, "runtime": {"profile": "echo", "content": {
            "images": [{"image": "echo"}], "ports": [{"name": "http", "port": 1}], "probes": {"readiness": {"path": "/"}},
        }}})
    }

    #[test]
    fn a_field_that_this_agent_does_not_know_is_kept() {
        let mut body = spec();
        body["later"] = json!({"a": 1});
        let value = kept(&body.to_string());
        let shown = format!("{:?}", value.desired.as_ref().unwrap());
        assert!(shown.contains("later"), "{shown}");
        assert!(shown.contains("inferfleet.io/generation"), "{shown}");
    }

    #[test]
    fn a_body_that_cannot_be_read_is_refused_with_its_path() {
        let mut body = spec();
        body["runtime"]["content"]["ports"][0]["port"] = json!("eighty");
        let value = kept(&body.to_string());
        let refusal = value.desired.as_ref().unwrap_err();
        assert_eq!(
            (refusal.reason.as_str(), refusal.field.as_str()),
            ("InvalidPlacement", "runtime.content.ports[0].port")
        );
        let trailing = kept(&format!("{} {{", spec()));
        assert_eq!(
            trailing.desired.as_ref().unwrap_err().reason,
            "InvalidPlacement"
        );
    }

    #[test]
    fn a_removal_that_is_done_takes_no_newer_wish_with_it() {
        let wishes = Wishes::new(Arc::new(Wakes::default()));
        let gone = |uid: &str| AgentEvent::Tombstone {
            key: key(),
            uid: uid.to_owned(),
            removal: Removal::Delete,
        };
        wishes.take(gone("u"));
        wishes.fulfilled(&key(), "other");
        assert!(wishes.get(&key()).is_some());
        wishes.fulfilled(&key(), "u");
        assert!(wishes.get(&key()).is_none());
        wishes.take(event(&spec().to_string()));
        wishes.fulfilled(&key(), "u");
        assert!(wishes.get(&key()).is_some());
    }
}
