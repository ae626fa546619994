//! One verdict per step, over all clusters.

use crds::condition::State;
use hub_plan::facts::{ClusterFacts, Membership, Refusal, Step};

use crate::given::{Given, condition, healthy, step};

const STEPS: [&str; 7] = [
    "Validation",
    "BackendProvision",
    "EndpointPublish",
    "DiscoveryRouteProvision",
    "TrafficRouteProvision",
    "ModelConfigProvision",
    "HealthCheck",
];

#[test]
fn a_healthy_server_is_ready_and_every_step_is_done() {
    let status = healthy().plan().status;
    for kind in STEPS {
        assert!(
            condition(&status, kind).starts_with("True "),
            "{kind}: {}",
            condition(&status, kind)
        );
    }
    assert_eq!(condition(&status, "Ready"), "True Serving");
    assert_eq!(condition(&status, "Available"), "True Serving");
    assert!(
        status
            .conditions
            .iter()
            .all(|condition| condition.observed_generation == Some(3))
    );
}

#[test]
fn each_member_step_has_its_own_condition() {
    for (of, kind) in [
        (Step::Backend, "BackendProvision"),
        (Step::TrafficRoute, "TrafficRouteProvision"),
        (Step::ModelConfig, "ModelConfigProvision"),
        (Step::Health, "HealthCheck"),
    ] {
        let mut given = healthy();
        given.fail("west", of, "Broken", "it broke");
        let status = given.plan().status;
        for other in STEPS {
            let expected = if other == kind {
                "False Broken"
            } else {
                "True "
            };
            assert!(
                condition(&status, other).starts_with(expected),
                "{kind} {other}: {}",
                condition(&status, other)
            );
        }
        assert_eq!(condition(&status, "Ready"), "False Broken");
    }
}

#[test]
fn a_failure_in_one_cluster_is_worse_than_progress_in_another() {
    let mut given = healthy();
    given.placement("east").steps.insert(
        Step::Health,
        step(
            State::Unknown,
            "StartingBackend",
            "1 of 2 replicas are ready",
        ),
    );
    assert_eq!(
        condition(&given.plan().status, "HealthCheck"),
        "Unknown StartingBackend"
    );
    given.fail("west", Step::Health, "CrashLoopBackOff", "exit code 1");
    assert_eq!(
        condition(&given.plan().status, "HealthCheck"),
        "False CrashLoopBackOff"
    );
}

#[test]
fn a_cluster_that_does_not_exist_or_can_not_be_heard_says_so_in_every_member_step() {
    for (facts, expected) in [
        (ClusterFacts::default(), "False ClusterNotFound"),
        (
            ClusterFacts {
                membership: Membership::Invited,
                ..ClusterFacts::default()
            },
            "Unknown ClusterNotJoined",
        ),
        (
            ClusterFacts {
                membership: Membership::Joined,
                silent_since: Some(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
                ..ClusterFacts::default()
            },
            "Unknown ClusterNotConnected",
        ),
    ] {
        let mut given = healthy();
        *given.cluster("west") = facts;
        let status = given.plan().status;
        for kind in [
            "BackendProvision",
            "TrafficRouteProvision",
            "ModelConfigProvision",
            "HealthCheck",
            "Ready",
        ] {
            assert_eq!(condition(&status, kind), expected, "{kind}");
        }
        assert_eq!(condition(&status, "Available"), "True Serving");
    }
}

#[test]
fn a_value_that_the_agent_refuses_is_a_failure_with_its_reason() {
    let mut given = healthy();
    given.cluster("west").refusal = Some(Refusal {
        reason: "NamespaceMissing".to_owned(),
        message: "there is no namespace team".to_owned(),
    });
    assert_eq!(
        condition(&given.plan().status, "BackendProvision"),
        "False NamespaceMissing"
    );
}

#[test]
fn a_report_on_an_older_value_does_not_make_this_generation_ready() {
    let mut given = healthy();
    given.placement("west").current = false;
    let plan = given.plan();
    assert_eq!(condition(&plan.status, "Ready"), "Unknown Applying");
    assert_eq!(condition(&plan.status, "Available"), "True Serving");
    // It still serves: its endpoint stays ready.
    assert_eq!(plan.slices, healthy().plan().slices);
}

#[test]
fn a_model_that_can_not_be_said_fails_the_step_of_models_alone() {
    let mut given = healthy();
    given.cluster("west").model_refusal = Some(Refusal {
        reason: "ModelUnknown".to_owned(),
        message: "the registry has no such model".to_owned(),
    });
    let status = given.plan().status;
    for kind in STEPS {
        let expected = if kind == "ModelConfigProvision" {
            "False ModelUnknown"
        } else {
            "True"
        };
        assert!(condition(&status, kind).starts_with(expected), "{kind}");
    }
}

#[test]
fn a_cluster_that_is_closed_to_the_namespace_says_so_and_serves_what_it_has() {
    let mut given = healthy();
    let before = given.plan().slices;
    given.cluster("west").closed = Some(Refusal {
        reason: "NamespaceNotAllowed".to_owned(),
        message: "MemberCluster west takes no servers of namespace team".to_owned(),
    });
    let plan = given.plan();
    assert_eq!(
        condition(&plan.status, "BackendProvision"),
        "False NamespaceNotAllowed"
    );
    assert_eq!(plan.status.summary.reason, "NamespaceNotAllowed (west)");
    assert_eq!(plan.slices, before);
}

/// `Status Reason: message` of EndpointPublish.
fn publish(given: &Given) -> String {
    let conditions = given.plan().status.conditions;
    let mut conditions = conditions.iter();
    let found = conditions.find(|condition| condition.type_ == "EndpointPublish");
    let found = found.unwrap();
    format!("{} {}: {}", found.status, found.reason, found.message)
}

/// South is new, knows its endpoint, and has no replica yet.
fn south_starts() -> Given {
    let mut given = healthy();
    given.add_south(1);
    let south = given.placement("south");
    south.replicas.ready = 0;
    let starting = step(State::Unknown, "StartingBackend", "0 of 2 replicas ready");
    south.steps.insert(Step::Health, starting);
    given
}

#[test]
fn nothing_is_called_published_before_the_first_ready_replica() {
    let mut given = south_starts();
    given.apply();
    let waits = "Unknown NotRoutable: south: nothing of south is published before";
    assert_eq!(publish(&given), format!("{waits} a replica is ready there"));
    given.placement("south").replicas.ready = 1;
    given.placement("south").route_accepted = false;
    let route = format!("{waits} its gateway accepts the traffic route");
    assert_eq!(publish(&given), route);
    given.placement("south").route_accepted = true;
    assert!(publish(&given).starts_with("True Provisioned"));
}

#[test]
fn what_was_published_stays_so_without_a_ready_replica() {
    let mut given = south_starts();
    given.placement("south").replicas.ready = 1;
    given.apply();
    given.placement("south").replicas.ready = 0;
    given.apply();
    assert!(publish(&given).starts_with("True Provisioned"));
}

#[test]
fn who_waits_for_replicas_is_told_why_they_are_not_ready() {
    let given = south_starts();
    let status = given.plan().status;
    assert_eq!(condition(&status, "Ready"), "Unknown StartingBackend");
    assert_eq!(status.summary.reason, "StartingBackend (south)");
}

#[test]
fn who_waits_for_a_replica_is_told_after_who_has_no_endpoint() {
    let mut given = south_starts();
    given.cluster("west").endpoint = None;
    assert!(publish(&given).starts_with("Unknown Applying: west: "));
}

#[test]
fn without_replicas_nothing_is_to_be_published_and_nobody_waits_for_it() {
    let mut given = south_starts();
    given.server.spec.replicas = 0;
    let none = step(State::True, "ScaledToZero", "nothing runs");
    given.placement("south").steps.insert(Step::Health, none);
    let said = "south: replicas is 0 and none has served: nothing is published";
    assert_eq!(publish(&given), format!("True ScaledToZero: {said}"));
    assert_eq!(condition(&given.plan().status, "Ready"), "True Serving");
}

#[test]
fn a_cluster_that_is_to_have_no_replicas_is_waited_for_by_nobody() {
    let mut given = south_starts();
    given.server.spec.cluster_targets[0].overrides = Some(crds::v1alpha1::Overrides {
        replicas: Some(0),
        ..crds::v1alpha1::Overrides::default()
    });
    let none = step(State::True, "ScaledToZero", "nothing runs");
    given.placement("south").steps.insert(Step::Health, none);
    assert!(publish(&given).starts_with("True ScaledToZero: south: "));
}
