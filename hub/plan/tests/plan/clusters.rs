//! How each cluster is: what follows from its reports, its silence, its absence.

use crds::{
    condition::State,
    v1alpha1::{ClusterState, ProbePolicy, Replicas, WhenSilent},
};
use hub_plan::{
    clusters::{Part, judge},
    facts::{ClusterFacts, Membership, Refusal, Step},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    given::{Given, cluster, healthy, lost, now, server, serving, silent, step, west},
    shown::verdict,
};

/// A healthy world, of which west is so.
fn with_west(facts: ClusterFacts) -> Given {
    let mut given = healthy();
    *given.cluster("west") = facts;
    given
}

/// What each step of west came to, if all came to the same.
fn every_step(given: &Given) -> String {
    let steps: Vec<_> = west(given)
        .open
        .iter()
        .map(|(_, facts)| verdict(facts))
        .collect();
    assert_eq!(steps, vec![steps[0].clone(); 4]);
    steps[0].clone()
}

fn state(given: &Given) -> (ClusterState, String) {
    let west = west(given);
    (west.state, west.reason)
}

fn at(addresses: &[&str]) -> Given {
    let mut given = healthy();
    given.cluster("west").endpoint.as_mut().unwrap().addresses = addresses
        .iter()
        .map(|address| (*address).to_owned())
        .collect();
    given
}

fn invited() -> ClusterFacts {
    ClusterFacts {
        membership: Membership::Invited,
        ..ClusterFacts::default()
    }
}

#[test]
fn clusters_are_judged_in_the_order_of_their_names() {
    let mut given = healthy();
    given
        .clusters
        .insert(cluster("north"), serving("203.0.113.7"));
    let names: Vec<_> = judge(&given.facts(), given.now)
        .iter()
        .map(|cluster| cluster.name.to_string())
        .collect();
    assert_eq!(names, ["east", "north", "west"]);
}

#[test]
fn a_cluster_has_the_weight_of_its_own_target() {
    let mut given = healthy();
    given.server = server(&[("east", 3), ("west", 5)]);
    let weights: Vec<_> = judge(&given.facts(), given.now)
        .iter()
        .map(|cluster| cluster.weight)
        .collect();
    assert_eq!(weights, [Some(3), Some(5)]);
}

#[test]
fn a_cluster_that_serves_says_so() {
    let west = west(&healthy());
    assert_eq!(west.state, ClusterState::Serving);
    assert_eq!(
        (west.reason.as_str(), west.message.as_str()),
        ("Serving", "all replicas serve")
    );
}

#[test]
fn no_request_reaches_a_model_server_without_an_accepted_route() {
    let mut given = healthy();
    given.placement("west").route_accepted = false;
    assert!(!west(&given).routable);
}

#[test]
fn no_request_reaches_a_model_server_without_a_ready_replica() {
    let mut given = healthy();
    given.placement("west").replicas.ready = 0;
    assert!(!west(&given).routable);
    given.placement("west").replicas.ready = 1;
    assert!(west(&given).routable);
}

#[test]
fn no_request_reaches_a_cluster_without_an_address() {
    assert!(!west(&at(&[])).routable);
    assert!(!west(&at(&["127.0.0.1"])).routable);
}

#[test]
fn a_cluster_that_reports_nothing_of_a_placement_is_not_routable_whatever_it_was() {
    let mut given = healthy();
    given.cluster("west").placement = None;
    assert!(!west(&given).routable);
}

#[test]
fn a_silent_cluster_is_as_routable_as_it_was() {
    let mut given = with_west(silent());
    assert!(west(&given).routable);
    given.observed.slices.clear();
    assert!(!west(&given).routable);
}

#[test]
fn a_cluster_that_does_not_exist_is_told_with_the_command_that_makes_it() {
    assert_eq!(
        every_step(&with_west(ClusterFacts::default())),
        "False ClusterNotFound: there is no MemberCluster west: create it with `kubectl inferfleet join west`"
    );
}

#[test]
fn a_cluster_that_never_joined_is_told_with_what_is_to_be_installed() {
    assert_eq!(
        every_step(&with_west(invited())),
        "Unknown ClusterNotJoined: no agent of west has enrolled: install its chart with the values of `kubectl inferfleet join west`"
    );
}

#[test]
fn a_cluster_that_cannot_be_heard_is_told_with_where_to_look() {
    assert_eq!(
        every_step(&with_west(silent())),
        "Unknown ClusterNotConnected: the agent of west has no session, or has not reported in it: look at its Pod"
    );
}

#[test]
fn a_refused_value_is_told_in_the_agents_words_in_every_step() {
    let mut given = healthy();
    given.cluster("west").refusal = Some(Refusal {
        reason: "NamespaceMissing".to_owned(),
        message: "there is no namespace team".to_owned(),
    });
    assert_eq!(
        every_step(&given),
        "False NamespaceMissing: there is no namespace team"
    );
}

#[test]
fn silence_is_told_before_an_older_refusal() {
    let mut given = with_west(silent());
    given.cluster("west").refusal = Some(Refusal {
        reason: "NamespaceMissing".to_owned(),
        message: String::new(),
    });
    assert!(every_step(&given).starts_with("Unknown ClusterNotConnected"));
}

#[test]
fn a_report_on_an_older_value_says_nothing_of_this_generation() {
    let mut given = healthy();
    given.placement("west").current = false;
    assert_eq!(
        every_step(&given),
        "Unknown Applying: the agent of west has not yet reported on this generation"
    );
}

#[test]
fn a_step_of_which_an_agent_says_nothing_is_on_its_way() {
    let mut given = healthy();
    given.placement("west").steps.remove(&Step::ModelConfig);
    let states: Vec<_> = west(&given)
        .open
        .iter()
        .map(|(of, facts)| (*of, facts.state))
        .collect();
    assert_eq!(states, [(Step::ModelConfig, State::Unknown)]);
}

#[test]
fn replicas_are_those_of_the_last_report_and_none_without_one() {
    let mut given = healthy();
    given.placement("west").replicas = Replicas {
        wanted: 5,
        ready: 3,
    };
    assert_eq!(
        west(&given).replicas,
        Replicas {
            wanted: 5,
            ready: 3
        }
    );
    given.cluster("west").placement = None;
    assert_eq!(west(&given).replicas, Replicas::default());
}

#[test]
fn the_first_failed_step_in_their_order_is_the_worst() {
    let mut given = at(&["127.0.0.1", "203.0.113.2"]);
    assert_eq!(west(&given).reason, "AddressRefused");
    for (of, reason) in [
        (Step::Health, "D"),
        (Step::TrafficRoute, "C"),
        (Step::ModelConfig, "B"),
        (Step::Backend, "A"),
    ] {
        given.fail("west", of, reason, "");
        assert_eq!(west(&given).reason, reason);
    }
}

#[test]
fn a_failure_is_worse_than_what_is_on_its_way_before_it() {
    let mut given = healthy();
    let steps = &mut given.placement("west").steps;
    steps.insert(Step::Backend, step(State::Unknown, "Applying", ""));
    steps.insert(
        Step::Health,
        step(State::False, "CrashLoopBackOff", "exit code 1"),
    );
    let west = west(&given);
    assert_eq!(
        (west.reason.as_str(), west.message.as_str()),
        ("CrashLoopBackOff", "exit code 1")
    );
}

#[test]
fn a_cluster_that_fails_while_it_is_routable_is_degraded() {
    let mut given = healthy();
    given.fail("west", Step::Health, "CrashLoopBackOff", "");
    assert_eq!(
        state(&given),
        (ClusterState::Degraded, "CrashLoopBackOff".to_owned())
    );
}

#[test]
fn a_cluster_that_fails_and_is_not_routable_has_failed() {
    let mut given = healthy();
    given.fail("west", Step::Health, "CrashLoopBackOff", "");
    given.placement("west").replicas.ready = 0;
    assert_eq!(
        state(&given),
        (ClusterState::Failed, "CrashLoopBackOff".to_owned())
    );
}

#[test]
fn a_cluster_that_is_on_its_way_is_provisioning() {
    let mut given = healthy();
    *given.placement("west") = hub_plan::facts::PlacementFacts::default();
    assert_eq!(
        state(&given),
        (ClusterState::Provisioning, "Applying".to_owned())
    );
}

#[test]
fn a_cluster_that_does_not_exist_or_has_not_joined_is_waited_for() {
    assert_eq!(
        state(&with_west(ClusterFacts::default())),
        (ClusterState::Waiting, "ClusterNotFound".to_owned())
    );
    assert_eq!(
        state(&with_west(invited())),
        (ClusterState::Waiting, "ClusterNotJoined".to_owned())
    );
}

#[test]
fn a_cluster_that_cannot_be_heard_for_long_is_silent_though_it_may_serve() {
    let mut given = with_west(lost());
    given.server.spec.endpoints.when_silent = WhenSilent::Keep;
    assert!(west(&given).routable);
    assert_eq!(
        state(&given),
        (ClusterState::Silent, "ClusterNotConnected".to_owned())
    );
}

#[test]
fn a_cluster_that_is_no_target_is_removing_its_part() {
    let mut given = healthy();
    given.server = server(&[("east", 1)]);
    let west = west(&given);
    assert_eq!((west.weight, west.state), (None, ClusterState::Removing));
    assert_eq!(
        (west.reason.as_str(), west.message.as_str()),
        ("Removing", "west is removing its part")
    );
}

#[test]
fn every_cluster_of_a_server_under_deletion_is_removing_its_part() {
    let mut given = healthy();
    given.server.metadata.deletion_timestamp = Some(Time(now()));
    for cluster in judge(&given.facts(), given.now) {
        assert_eq!(cluster.state, ClusterState::Removing);
    }
}

#[test]
fn a_former_target_that_cannot_be_heard_says_when_its_part_goes() {
    let mut given = with_west(silent());
    given.server = server(&[("east", 1)]);
    let west = west(&given);
    assert_eq!(west.reason, "ClusterNotConnected");
    assert_eq!(
        west.message,
        "west can't be heard; its part is removed when it comes back"
    );
}

#[test]
fn a_former_target_that_never_joined_is_not_told_as_silent() {
    for facts in [ClusterFacts::default(), invited()] {
        let mut given = with_west(facts);
        given.server = server(&[("east", 1)]);
        assert_eq!(west(&given).reason, "Removing");
    }
}

#[test]
fn a_part_is_gone_when_its_member_says_so_or_nobody_is_left_who_could() {
    for (membership, said, gone) in [
        (Membership::Joined, false, false),
        (Membership::Joined, true, true),
        (Membership::Invited, false, true),
        (Membership::Absent, false, true),
    ] {
        let given = with_west(ClusterFacts {
            membership,
            gone: said,
            ..ClusterFacts::default()
        });
        assert_eq!(
            west(&given).part == Part::Gone,
            gone,
            "{membership:?} {said}"
        );
    }
}

#[test]
fn what_a_probe_said_is_forgotten_once_nobody_asks() {
    let mut given = healthy();
    let reached = west(&given).endpoint;
    for cluster in &mut given.server.status.as_mut().unwrap().clusters {
        cluster.reason = "EndpointUnreachable".to_owned();
    }
    given.server.spec.endpoints.probe = ProbePolicy::Warn;
    assert_eq!(west(&given).endpoint.reason, "EndpointUnreachable");
    given.server.spec.endpoints.probe = ProbePolicy::Off;
    assert_eq!(west(&given).endpoint, reached);
}
