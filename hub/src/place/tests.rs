//! From a server to what a member's session says.

use std::time::Duration;

use crds::v1alpha1::{Model, ModelPhase, ServerPlacementSpec};
use proto::{
    SessionId,
    v1::{Hello, hub_message::Body},
};

use super::*;
use crate::{
    apply::Applier,
    endpoints::DiscoverySlices,
    fake::{FakeApi, SERVERS},
    metrics::Metrics,
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

#[tokio::test]
async fn a_member_is_told_the_deployment_and_phase_of_its_model() {
    let api = FakeApi::default();
    let mut server = crate::contract::server("team", "llama");
    server.metadata.finalizers = Some(vec![labels::CLEANUP.to_owned()]);
    let server = serde_json::to_value(&server).unwrap();
    api.put(&format!("{SERVERS}/llama"), server);
    api.put_profile("echo");
    api.put_member("east", &serde_json::json!({}));
    let (caches, clock) = (api.caches(), Clock::start());
    let metrics = Arc::new(Metrics::new(clock));
    let applier = Arc::new(Applier::new(api.client(), clock, metrics));
    let publisher = Arc::new(DiscoverySlices::new(caches.clone(), applier, clock));
    let model = Model {
        uri: "s3://models/llama-3".to_owned(),
        name: None,
        deployment: Some("llama-7".to_owned()),
        phase: ModelPhase::Staged,
    };
    let models = Arc::new(RolledOut(model.clone()));
    let placer = Placer::new(caches, clock, publisher, models);
    placer.place(&ObjectKey::new("team", "llama"));
    let member = placer.member("east").unwrap();
    assert_eq!(told(&member).unwrap().model, Some(model));
}
