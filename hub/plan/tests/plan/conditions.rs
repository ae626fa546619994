//! One verdict per step, over all clusters.

use crds::condition::State;
use hub_plan::facts::{ClusterFacts, Membership, Refusal, Step};

use crate::given::{condition, healthy, step};

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
        step(State::Unknown, "Starting", "1 of 2 replicas are ready"),
    );
    assert_eq!(
        condition(&given.plan().status, "HealthCheck"),
        "Unknown Starting"
    );
    given.fail("west", Step::Health, "CrashLoop", "exit code 1");
    assert_eq!(
        condition(&given.plan().status, "HealthCheck"),
        "False CrashLoop"
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
