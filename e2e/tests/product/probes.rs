//! Whether the hub reaches the model servers at an endpoint, and what it makes of that.

use crds::condition::{AVAILABLE, ENDPOINT_PUBLISH};
use crds::v1alpha1::{ClusterState, InferenceServer, ProbePolicy};
use e2e::installed::{condition, is_true};
use serde_json::json;

use super::endpoints::{agents, state_of, until_stands};
use super::{alone, namespace, server, shared};

#[tokio::test]
async fn an_endpoint_that_has_to_be_reached_takes_traffic_once_the_hub_has_reached_it() {
    let fleet = shared().await;
    namespace(&fleet, "probed").await;
    let mut wanted = server("probed", &["east", "west"]);
    wanted.spec.endpoints.probe = ProbePolicy::Required;
    // Nobody is there (RFC 5737).
    let nobody = json!({"source": "Static", "addresses": ["203.0.113.66"], "port": 80});
    wanted.spec.cluster_targets[1].endpoint = Some(serde_json::from_value(nobody).unwrap());
    fleet.apply(&wanted).await.unwrap();
    until_stands(&fleet, "probed", "east", Some("ready")).await;
    let unreached = |server: &InferenceServer| {
        condition(server, ENDPOINT_PUBLISH)
            .is_some_and(|condition| condition.reason == "EndpointUnreachable")
    };
    let seen = fleet
        .server_until("probed", "hello", unreached)
        .await
        .unwrap();
    let status = seen.status.unwrap();
    assert!(is_true(&status.conditions, AVAILABLE));
    let west = status.clusters.iter().find(|of| of.cluster_id == "west");
    let message = &west.unwrap().message;
    assert!(message.contains("203.0.113.66"), "{message}");
    // It never led anywhere: so it is not published at all.
    until_stands(&fleet, "probed", "west", None).await;

    wanted.spec.cluster_targets[1].endpoint = None;
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("probed", "hello").await.unwrap();
    until_stands(&fleet, "probed", "west", Some("ready")).await;
}

#[tokio::test]
async fn an_endpoint_that_answers_is_kept_though_its_agent_can_not_be_heard() {
    let fleet = alone().await;
    namespace(&fleet, "kept").await;
    let mut wanted = server("kept", &["east", "west"]);
    wanted.spec.endpoints.grace_seconds = 1;
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("kept", "hello").await.unwrap();
    agents(&fleet, "west", 0).await;
    let kept = |server: &InferenceServer| {
        let said = condition(server, ENDPOINT_PUBLISH);
        state_of(server, "west") == Some(ClusterState::Silent)
            && said.is_some_and(|said| said.message.contains("since it answers"))
    };
    let seen = fleet.server_until("kept", "hello", kept).await.unwrap();
    assert!(is_true(&seen.status.unwrap().conditions, AVAILABLE));
    until_stands(&fleet, "kept", "west", Some("ready")).await;
    agents(&fleet, "west", 1).await;
    fleet.connected("west").await.unwrap();
    fleet.ready("kept", "hello").await.unwrap();
}
