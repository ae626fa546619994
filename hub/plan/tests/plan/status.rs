//! The status: columns, clusters worst first, bounds.

use crds::{
    condition::State,
    v1alpha1::{ClusterState, Published, ServerState},
};
use hub_plan::facts::{ClusterFacts, Membership, Step};

use crate::given::{cluster, healthy, server, serving, step};

#[test]
fn columns_tell_how_much_is_ready_and_what_is_worst_where() {
    let mut given = healthy();
    let summary = given.plan().status.summary;
    assert_eq!(
        (
            summary.clusters.text.as_str(),
            summary.replicas.text.as_str()
        ),
        ("2/2", "4/4")
    );
    assert_eq!(summary.reason, "Serving");

    given.placement("west").replicas.ready = 0;
    given.fail("west", Step::Health, "CrashLoop", "exit code 1");
    let status = given.plan().status;
    assert_eq!(
        (
            status.summary.clusters.text.as_str(),
            status.summary.replicas.text.as_str()
        ),
        ("1/2", "2/4")
    );
    assert_eq!(status.summary.reason, "CrashLoop (west)");
    assert_eq!(status.summary.reasons.len(), 1);
    assert_eq!(status.state, ServerState::Degraded);
}

#[test]
fn clusters_come_worst_first() {
    let mut given = healthy();
    given.server = server(&[("east", 1), ("west", 1), ("north", 1), ("south", 1)]);
    given.clusters.insert(
        cluster("north"),
        ClusterFacts {
            membership: Membership::Joined,
            ..ClusterFacts::default()
        },
    );
    given
        .clusters
        .insert(cluster("south"), serving("203.0.113.4"));
    given.placement("south").replicas.ready = 0;
    given.fail("south", Step::Health, "CrashLoop", "exit code 1");
    given.placement("west").replicas.ready = 1;
    given
        .placement("west")
        .steps
        .insert(Step::Health, step(State::Unknown, "Starting", "1 of 2"));
    let clusters = given.plan().status.clusters;
    let states: Vec<_> = clusters
        .iter()
        .map(|status| (status.cluster_id.as_str(), status.state))
        .collect();
    assert_eq!(
        states,
        [
            ("south", ClusterState::Failed),
            ("north", ClusterState::Silent),
            ("west", ClusterState::Degraded),
            ("east", ClusterState::Serving),
        ]
    );
}

#[test]
fn an_entry_says_where_its_cluster_admits_traffic() {
    let mut given = healthy();
    let addresses = (1..=6)
        .map(|number| format!("203.0.113.{number}"))
        .collect();
    given.cluster("west").endpoint.as_mut().unwrap().addresses = addresses;
    let status = given.plan().status;
    let endpoint = status.clusters[1].endpoint.as_ref().unwrap();
    assert_eq!(
        (
            endpoint.addresses.len(),
            endpoint.address_count,
            endpoint.port
        ),
        (4, 6, 80)
    );
    assert_eq!(endpoint.published, Published::Ready);
}

#[test]
fn a_server_that_no_cluster_serves_is_failed_only_if_a_person_has_to_act() {
    let mut given = healthy();
    for name in ["east", "west"] {
        given.placement(name).replicas.ready = 0;
        given
            .placement(name)
            .steps
            .insert(Step::Health, step(State::Unknown, "Starting", "0 of 2"));
    }
    assert_eq!(given.plan().status.state, ServerState::Creating);
    for name in ["east", "west"] {
        given.fail(name, Step::Health, "CrashLoop", "exit code 1");
    }
    assert_eq!(given.plan().status.state, ServerState::Failed);
}

#[test]
fn a_thousand_clusters_fit_into_a_bounded_status() {
    let mut given = healthy();
    let names: Vec<_> = (0..1000)
        .map(|number| format!("cluster-{number}-{}", "x".repeat(40)))
        .collect();
    let targets: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
    given.server = server(&targets);
    given.clusters = names
        .iter()
        .map(|name| (cluster(name), serving("203.0.113.1")))
        .collect();
    for name in &names {
        given.fail(name, Step::Health, &"R".repeat(100), &"m".repeat(5000));
    }
    let status = given.plan().status;
    assert_eq!(status.clusters.len(), 100);
    assert_eq!(status.summary.clusters.total, 1000);
    assert_eq!(status.summary.reasons[0].clusters, 1000);
    let size = serde_json::to_vec(&status).unwrap().len();
    assert!(size < 256 << 10, "{size} bytes");
}

#[test]
fn since_stands_while_the_state_does() {
    let mut given = healthy();
    let before = given.plan().status.clusters[0].since.clone();
    let later = k8s_openapi::jiff::Timestamp::from_second(2_000).unwrap();
    assert_eq!(
        hub_plan::plan(&given.facts(), later).status.clusters[0].since,
        before
    );
    given.lose("east");
    let moved = hub_plan::plan(&given.facts(), later).status.clusters[0].clone();
    assert_eq!((moved.cluster_id.as_str(), moved.since.0), ("east", later));
}
