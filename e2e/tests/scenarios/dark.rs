//! Members that are gone as far as anybody can tell: a cluster that dies while the hub restarts, and black holes.

use crds::v1alpha1::{ClusterState, InferenceServer, ProbePolicy, WhenSilent};
use e2e::Cut;
use e2e::installed::NAMESPACE;

use super::record::{Change, Record};
use super::{HUB, MEMBERS, alone, connected, namespace, serve, server, status_of, until_server};

#[tokio::test]
async fn a_cluster_that_dies_while_the_hub_restarts_keeps_its_slice_for_its_grace() {
    let fleet = alone().await;
    let (hub, north) = (fleet.hub(), fleet.member("north").unwrap());
    namespace(&fleet, "died").await;
    let mut wanted = server("died", &MEMBERS);
    // Agents that lost the hub dial again after up to 30 s: who is well has to be back within it.
    wanted.spec.endpoints.grace_seconds = 35;
    wanted.spec.endpoints.when_silent = WhenSilent::Drop;
    // The restart makes the hub suspect itself until the others have been back for a grace.
    wanted.spec.endpoints.drop_after_seconds = 100;
    // Its gateway still answers: only the link to its agent is cut.
    wanted.spec.endpoints.probe = ProbePolicy::Off;
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("died", "hello").await.unwrap();
    let record = Record::start(hub, "died").await;

    // Nobody tells the hub: it has not been there.
    north.cut_link(Cut::BothWays).await.unwrap();
    let killed = hub.kill_pod_process(NAMESPACE, &HUB).await.unwrap();
    assert_eq!(killed, 1);
    for name in ["east", "west"] {
        connected(&fleet, name, true).await;
    }
    let changes = record.until(|changes| changes.len() >= 2).await;
    let stands = |change: &Change| {
        let endpoints = change.endpoints.as_ref();
        endpoints.map(|endpoints| endpoints.iter().map(|(_, how)| *how).collect::<Vec<_>>())
    };
    let seen: Vec<_> = changes
        .iter()
        .map(|change| (change.cluster.as_str(), stands(change)))
        .collect();
    // Nothing at all within the grace; then the policy, step by step.
    assert_eq!(seen, [("north", Some(vec!["down"])), ("north", None)]);
    let silent = |server: &InferenceServer| {
        serve(server, &["east", "west"], 1)
            && status_of(server, "north").is_some_and(|status| status.state == ClusterState::Silent)
    };
    until_server(&fleet, "died", silent).await;

    north.restore_link().await.unwrap();
    connected(&fleet, "north", true).await;
    let changes = record
        .until(|changes| changes.last().is_some_and(Change::all_ready))
        .await;
    assert!(changes.iter().all(|change| change.cluster == "north"));
    fleet.ready("died", "hello").await.unwrap();
}

#[tokio::test]
async fn a_member_behind_a_black_hole_is_named_while_the_others_converge() {
    let fleet = alone().await;
    let west = fleet.member("west").unwrap();
    namespace(&fleet, "hole").await;
    let mut wanted = server("hole", &MEMBERS);
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("hole", "hello").await.unwrap();

    // Its API server takes what the agent writes, and never answers: the agent gives up after half a minute.
    west.pause_api_server().await.unwrap();
    wanted.spec.replicas = 2;
    fleet.apply(&wanted).await.unwrap();
    let named = |server: &InferenceServer| {
        serve(server, &["east", "north"], 2)
            && status_of(server, "west").is_some_and(|status| status.reason == "ApplyFailed")
    };
    let seen = until_server(&fleet, "hole", named).await;
    let said = status_of(&seen, "west").unwrap();
    assert!(said.message.contains("hole/hello"), "{}", said.message);
    assert_eq!(seen.status.as_ref().unwrap().summary.clusters.text, "2/3");
    west.resume_api_server().await.unwrap();
    fleet.ready("hole", "hello").await.unwrap();

    // Nothing at all comes from the whole cluster.
    west.cut_link(Cut::BothWays).await.unwrap();
    wanted.spec.replicas = 1;
    fleet.apply(&wanted).await.unwrap();
    let others = |server: &InferenceServer| serve(server, &["east", "north"], 1);
    let seen = until_server(&fleet, "hole", others).await;
    let said = status_of(&seen, "west").unwrap();
    assert_eq!(said.reason, "Applying", "its silence is not noticed yet");
    let named = |server: &InferenceServer| {
        status_of(server, "west").is_some_and(|status| status.reason == "ClusterNotConnected")
    };
    until_server(&fleet, "hole", named).await;
    west.restore_link().await.unwrap();
    fleet.connected("west").await.unwrap();
    fleet.ready("hole", "hello").await.unwrap();
}
