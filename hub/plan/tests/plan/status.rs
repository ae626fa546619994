//! The status: columns, clusters worst first, bounds.

use crds::{
    condition::State,
    v1alpha1::{ClusterState, ClusterStatus, Published, Replicas, ServerState},
};
use hub_plan::{
    facts::{ClusterFacts, Membership, PlacementFacts, Step},
    overrides::Missing,
};
use k8s_openapi::jiff::Timestamp;

use crate::given::{Given, cluster, healthy, lost, many, now, server, serving, silent, step};

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
    given.fail("west", Step::Health, "CrashLoopBackOff", "exit code 1");
    let status = given.plan().status;
    assert_eq!(
        (
            status.summary.clusters.text.as_str(),
            status.summary.replicas.text.as_str()
        ),
        ("1/2", "2/4")
    );
    assert_eq!(status.summary.reason, "CrashLoopBackOff (west)");
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
    given.fail("south", Step::Health, "CrashLoopBackOff", "exit code 1");
    given.placement("west").replicas.ready = 1;
    given.placement("west").steps.insert(
        Step::Health,
        step(State::Unknown, "StartingBackend", "1 of 2"),
    );
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
fn a_server_that_no_cluster_serves_is_failed_only_if_a_person_has_to_act() {
    let mut given = healthy();
    for name in ["east", "west"] {
        given.placement(name).replicas.ready = 0;
        given.placement(name).steps.insert(
            Step::Health,
            step(State::Unknown, "StartingBackend", "0 of 2"),
        );
    }
    assert_eq!(given.plan().status.state, ServerState::Creating);
    for name in ["east", "west"] {
        given.fail(name, Step::Health, "CrashLoopBackOff", "exit code 1");
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
        given.fail(name, Step::Health, &"R".repeat(100), &"𝄞".repeat(5000));
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
    assert_eq!(given.plan_at(later()).status.clusters[0].since, before);
    given.lose("east");
    let moved = given.plan_at(later()).status.clusters[0].clone();
    assert_eq!(
        (moved.cluster_id.as_str(), moved.since.0),
        ("east", later())
    );
}

fn later() -> Timestamp {
    Timestamp::from_second(2_000).unwrap()
}

/// The entry of one cluster.
fn entry(given: &Given, name: &str) -> ClusterStatus {
    let mut clusters = given.plan().status.clusters.into_iter();
    clusters.find(|status| status.cluster_id == name).unwrap()
}

#[test]
fn a_status_says_of_which_generation_it_speaks() {
    let mut given = healthy();
    given.server.metadata.generation = Some(8);
    assert_eq!(given.plan().status.observed_generation, 8);
}

#[test]
fn a_server_of_which_all_targets_serve_is_serving() {
    assert_eq!(healthy().plan().status.state, ServerState::Serving);
}

#[test]
fn a_server_of_which_enough_targets_serve_is_degraded() {
    let mut given = healthy();
    *given.cluster("west") = lost();
    assert_eq!(given.plan().status.state, ServerState::Degraded);
}

#[test]
fn a_server_that_cannot_be_carried_out_has_failed_unless_it_serves() {
    let mut given = healthy();
    given.profiles.runtime = Err(Missing::Profile);
    assert_eq!(given.plan().status.state, ServerState::Degraded);
    for name in ["east", "west"] {
        *given.placement(name) = PlacementFacts::default();
    }
    assert_eq!(given.plan().status.state, ServerState::Failed);
}

#[test]
fn a_server_of_which_one_target_fails_and_one_starts_is_being_created() {
    let mut given = healthy();
    given.fail("west", Step::Health, "CrashLoopBackOff", "exit code 1");
    given.placement("west").replicas.ready = 0;
    *given.placement("east") = PlacementFacts::default();
    assert_eq!(given.plan().status.state, ServerState::Creating);
}

#[test]
fn a_hundred_clusters_are_all_in_the_status_and_one_more_is_not() {
    assert_eq!(many(100).plan().status.clusters.len(), 100);
    let status = many(101).plan().status;
    assert_eq!(status.clusters.len(), 100);
    assert_eq!(status.summary.clusters.text, "101/101");
}

#[test]
fn a_former_target_is_never_cut_from_the_status() {
    let mut given = many(101);
    given.clusters.insert(cluster("z"), silent());
    assert_eq!(given.plan().status.clusters[0].cluster_id, "z");
}

#[test]
fn a_former_target_whose_part_is_gone_leaves_the_status() {
    let mut given = healthy();
    let mut former = silent();
    given.clusters.insert(cluster("north"), former.clone());
    assert_eq!(given.plan().status.clusters.len(), 3);
    former.gone = true;
    given.clusters.insert(cluster("north"), former);
    assert_eq!(given.plan().status.clusters.len(), 2);
}

#[test]
fn a_target_of_which_nothing_is_there_stays_in_the_status() {
    let mut given = healthy();
    given.cluster("west").gone = true;
    assert_eq!(entry(&given, "west").cluster_id, "west");
}

#[test]
fn clusters_that_are_equally_well_come_in_the_order_of_their_names() {
    let clusters = many(3).plan().status.clusters;
    let names: Vec<_> = clusters
        .iter()
        .map(|status| status.cluster_id.as_str())
        .collect();
    assert_eq!(names, ["c000", "c001", "c002"]);
}

#[test]
fn a_message_of_512_bytes_is_told_whole_and_a_longer_one_is_cut() {
    let mut given = healthy();
    for (letter, length, told) in [("m", 512, 512), ("m", 513, 512), ("€", 171, 170)] {
        given.fail(
            "west",
            Step::Health,
            "CrashLoopBackOff",
            &letter.repeat(length),
        );
        assert_eq!(entry(&given, "west").message, letter.repeat(told));
    }
}

#[test]
fn four_addresses_are_all_shown_and_the_fifth_is_counted() {
    let mut given = healthy();
    for (count, shown) in [(4, 4), (5, 4)] {
        let addresses = (1..=count).map(|number| format!("203.0.113.{number}"));
        given.cluster("west").endpoint.as_mut().unwrap().addresses = addresses.collect();
        let endpoint = entry(&given, "west").endpoint.unwrap();
        assert_eq!(
            (endpoint.addresses.len(), endpoint.address_count),
            (shown, count)
        );
        assert_eq!(
            (endpoint.addresses[3].as_str(), endpoint.port),
            ("203.0.113.4", 80)
        );
    }
}

#[test]
fn a_cluster_without_an_address_shows_no_endpoint() {
    let mut given = healthy();
    given.cluster("west").endpoint = None;
    assert_eq!(entry(&given, "west").endpoint, None);
}

#[test]
fn an_endpoint_is_published_as_ready_only_with_a_weight_and_a_cluster_that_works() {
    let published = |given: &Given| entry(given, "west").endpoint.unwrap().published;
    let mut given = healthy();
    given.server = server(&[("east", 1), ("west", 0)]);
    assert_eq!(published(&given), Some(Published::NotReady));
    given.server = server(&[("east", 1), ("west", 1)]);
    assert_eq!(published(&given), Some(Published::Ready));
    given.placement("west").replicas.ready = 0;
    assert_eq!(published(&given), Some(Published::NotReady));
}

#[test]
fn an_endpoint_that_never_led_anywhere_is_known_and_not_published() {
    let published = |given: &Given| entry(given, "south").endpoint.unwrap().published;
    let mut given = healthy();
    given.add_south(1);
    given.placement("south").replicas.ready = 0;
    given.apply();
    assert_eq!(published(&given), None);
    given.placement("south").replicas.ready = 1;
    assert_eq!(published(&given), None, "no slice has it yet");
    given.apply();
    assert_eq!(published(&given), Some(Published::Ready));
    given.placement("south").replicas.ready = 0;
    given.apply();
    assert_eq!(published(&given), Some(Published::NotReady));
}

#[test]
fn an_entry_has_the_clusters_replicas_and_its_words() {
    let mut given = healthy();
    given.placement("west").replicas = Replicas {
        wanted: 2,
        ready: 1,
    };
    given.fail("west", Step::Health, "CrashLoopBackOff", "exit code 1");
    let entry = entry(&given, "west");
    assert_eq!(
        entry.replicas,
        Replicas {
            wanted: 2,
            ready: 1
        }
    );
    assert_eq!(
        (entry.reason.as_str(), entry.message.as_str()),
        ("CrashLoopBackOff", "exit code 1")
    );
}

#[test]
fn nothing_in_the_status_of_an_unchanged_world_moves_with_time() {
    let given = healthy();
    let status = given.plan_at(later()).status;
    assert_eq!(Some(status), given.server.status);
}

#[test]
fn a_new_cluster_is_so_since_now() {
    let mut given = healthy();
    given.server = server(&[("east", 1), ("west", 1), ("north", 1)]);
    given.server.status = healthy().server.status;
    given
        .clusters
        .insert(cluster("north"), serving("203.0.113.7"));
    let clusters = given.plan_at(later()).status.clusters;
    let since: Vec<_> = clusters
        .iter()
        .map(|status| (status.cluster_id.as_str(), status.since.0))
        .collect();
    assert_eq!(
        since,
        [("east", now()), ("north", later()), ("west", now())]
    );
}
