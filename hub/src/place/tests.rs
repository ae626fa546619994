//! From a server to what a member's session says.

use std::time::Duration;

use crds::v1alpha1::{Model, ModelPhase, Released, ServerPlacementSpec};
use proto::{
    SessionId,
    v1::{Hello, hub_message::Body},
};
use serde_json::json;

use super::*;
use crate::{
    apply::Applier,
    endpoints::DiscoverySlices,
    fake::{FakeApi, SERVERS, SLICES, held},
    metrics::Metrics,
    models::SpecifiedModel,
};

/// Serves what a registry has rolled out.
struct RolledOut(Model);

impl ModelConfigProvider for RolledOut {
    fn model(&self, _: &InferenceServer, _: &ClusterName) -> Result<Option<Model>, Refusal> {
        let Self(model) = self;
        Ok(Some(model.clone()))
    }
}

/// What the member is told to hold of the server `team/llama`.
fn told(member: &Member) -> Option<ServerPlacementSpec> {
    let (now, id) = (Duration::from_secs(1), SessionId(1));
    let hello = Hello {
        protocol_min: 1,
        protocol_max: 1,
        ..Hello::default()
    };
    let mut state = member.lock();
    state.machine.open(id, &hello, now).unwrap();
    let next = || state.machine.transmit(id, now);
    let bodies = std::iter::from_fn(next).filter_map(|message| message.body);
    let mut desired = bodies.filter_map(|body| {
        let Body::Desired(desired) = body else {
            return None;
        };
        Some(desired.body)
    });
    serde_json::from_slice(&desired.next()?).ok()
}

/// Of the server `team/llama` in what the API server holds.
fn placer(api: &FakeApi, models: Arc<dyn ModelConfigProvider>) -> Placer {
    let (caches, clock) = (api.caches(), Clock::start());
    let metrics = Arc::new(Metrics::new(clock));
    let applier = Arc::new(Applier::new(api.client(), clock, metrics));
    let publisher = Arc::new(DiscoverySlices::new(caches.clone(), applier, clock));
    Placer::new(caches, clock, publisher, models)
}

/// It knows what was there before the hub's start.
pub(crate) fn ready_placer(api: &FakeApi) -> Placer {
    let placer = placer(api, Arc::new(SpecifiedModel));
    placer.ready.store(true, Ordering::Release);
    placer
}

fn held_server() -> InferenceServer {
    held(crate::contract::server("team", "llama"), 1)
}

#[tokio::test]
async fn before_the_first_agent_is_heard_each_is_told_to_keep_what_is_published_of_it() {
    let api = FakeApi::default();
    let mut server = held_server();
    let targets = &mut server.spec.cluster_targets;
    targets.retain(|target| target.cluster_id != "west");
    api.put(
        &format!("{SERVERS}/llama"),
        serde_json::to_value(&server).unwrap(),
    );
    // Removed from the targets, and its drain is not over; no status names it.
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "llama-endpoints-west-ipv4-0", "labels": {
            "kubernetes.io/service-name": "llama-endpoints", "inferfleet.io/cluster": "west",
            "inferfleet.io/server": "llama", "app.kubernetes.io/managed-by": labels::HUB,
        }},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 80}],
        "endpoints": [{
            "addresses": ["203.0.113.2"], "conditions": {"ready": true, "serving": true, "terminating": false},
        }],
    });
    api.put_owned(&server, SLICES, slice);
    for name in ["west", "north"] {
        api.put_member(name, &json!({}));
    }
    let placer = placer(&api, Arc::new(SpecifiedModel));
    placer.place_all().await;
    let key = PlacementKey::new("team", "llama").unwrap();
    let is_known = |name| placer.member(name).unwrap().lock().machine.is_known(&key);
    assert!(is_known("west"));
    assert!(!is_known("north"), "nothing was ever there");
}

#[tokio::test]
async fn a_member_is_told_the_deployment_and_phase_of_its_model() {
    let api = FakeApi::default();
    let server = serde_json::to_value(held_server()).unwrap();
    api.put(&format!("{SERVERS}/llama"), server);
    api.put_recorded_profile("echo");
    api.put_member("east", &json!({}));
    let model = Model {
        uri: "s3://models/llama-3".to_owned(),
        name: None,
        deployment: Some("llama-7".to_owned()),
        phase: ModelPhase::Staged,
    };
    let models = Arc::new(RolledOut(model.clone()));
    let placer = placer(&api, models);
    placer.place(&ObjectKey::new("team", "llama"));
    let member = placer.member("east").unwrap();
    assert_eq!(told(&member).unwrap().model, Some(model));
}

#[tokio::test]
async fn what_an_older_server_of_its_name_has_left_in_a_cluster_holds_no_server() {
    let api = FakeApi::default();
    let mut server = held_server();
    let targets = &mut server.spec.cluster_targets;
    targets.retain(|target| target.cluster_id == "east");
    let stored = serde_json::to_value(&server).unwrap();
    api.put(&format!("{SERVERS}/llama"), stored);
    for name in ["east", "west"] {
        api.put_member(name, &json!({}));
    }
    let placer = placer(&api, Arc::new(SpecifiedModel));
    let west = placer.member("west").unwrap();
    // The agent of west is away, and is told of the older one when it comes back.
    let left = Released {
        namespace: "team".to_owned(),
        name: "llama".to_owned(),
        uid: "uid-of-the-older".to_owned(),
        policy: DeletionPolicy::Orphan,
    };
    placer.let_go(&west, &[left]);
    placer.place(&ObjectKey::new("team", "llama"));
    let clusters = placer.clusters(&server, &BTreeMap::new());
    let names: Vec<_> = clusters.keys().map(ClusterName::as_str).collect();
    assert_eq!(names, ["east"]);
    let key = PlacementKey::new("team", "llama").unwrap();
    let is_told = |uid| west.lock().machine.is_told(&key, uid);
    assert!(is_told("uid-of-the-older"));
    assert!(!is_told(server.metadata.uid.as_deref().unwrap()));
}

#[tokio::test]
async fn what_a_server_left_that_nobody_saw_go_is_taken_away_everywhere() {
    let api = FakeApi::default();
    let path = format!("{SERVERS}/llama");
    api.put(&path, serde_json::to_value(held_server()).unwrap());
    api.put_recorded_profile("echo");
    for name in ["east", "west"] {
        api.put_member(name, &json!({}));
    }
    let placer = placer(&api, Arc::new(SpecifiedModel));
    let key = ObjectKey::new("team", "llama");
    placer.place(&key);
    // Its finalizer was taken from it, and another came in its place: in east alone, where it can't be planned.
    let mut newer = held_server();
    newer.metadata.uid = Some("uid-of-the-newer".to_owned());
    newer.spec.runtime.profile = "none".to_owned();
    let targets = &mut newer.spec.cluster_targets;
    targets.retain(|target| target.cluster_id == "east");
    api.put(&path, serde_json::to_value(&newer).unwrap());
    let newer = serde_json::from_value(api.get("llama").unwrap()).unwrap();
    placer.caches.servers.note(newer);
    placer.place(&key);
    let placement = PlacementKey::new("team", "llama").unwrap();
    for name in ["east", "west"] {
        let member = placer.member(name).unwrap();
        let machine = &member.lock().machine;
        assert_eq!(machine.wanted_uid(&placement), None, "{name}");
        assert!(machine.is_going(&placement, "uid-of-llama", Removal::Delete));
        assert!(!machine.is_told(&placement, "uid-of-the-newer"));
    }
}
