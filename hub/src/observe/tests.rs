//! Whom a change concerns.

use crds::v1alpha1::{ClusterState, ClusterStatus, InferenceServerStatus};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::*;

/// The server `team/llama` with targets `east` and `west`, whose status names these clusters.
fn server(named: &[&str]) -> Arc<InferenceServer> {
    let mut server = crate::contract::server("team", "llama");
    let named = named.iter().map(|name| ClusterStatus {
        cluster_id: (*name).to_owned(),
        state: ClusterState::Removing,
        reason: String::new(),
        message: String::new(),
        replicas: crds::v1alpha1::Replicas::default(),
        endpoint: None,
        since: Time(Timestamp::UNIX_EPOCH),
    });
    server.status = Some(InferenceServerStatus {
        clusters: named.collect(),
        ..InferenceServerStatus::default()
    });
    Arc::new(server)
}

#[test]
fn a_cluster_concerns_the_servers_that_target_it_and_those_that_have_something_left_there() {
    let wakeups = Wakeups::default();
    let (removing, done) = (server(&["north", "east"]), server(&["east"]));
    let steps = [
        (None, Some(&removing)),
        (Some(&removing), Some(&done)),
        (Some(&done), None),
    ];
    let mut seen = Vec::new();
    for (before, after) in steps {
        wakeups.server_changed(&Change { before, after });
        let count = |name| (wakeups.targeting(name).len(), wakeups.concerned(name).len());
        seen.push(["east", "west", "north"].map(count));
    }
    let expected = [
        [(1, 1), (1, 1), (0, 1)],
        [(1, 1), (1, 1), (0, 0)],
        [(0, 0), (0, 0), (0, 0)],
    ];
    assert_eq!(seen, expected);
}
