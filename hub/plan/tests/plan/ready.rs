//! The conditions over all clusters: who is told, who is counted, and in which words.

use crds::condition::{State, Verdict};
use hub_plan::{facts::Step, overrides::Missing};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::given::{Given, cluster, condition, healthy, now, server, serving, silent, step};

/// `Status Reason: message` of one condition.
fn told(given: &Given, kind: &str) -> String {
    let conditions = given.plan().status.conditions;
    let found = conditions
        .iter()
        .find(|condition| condition.type_ == kind)
        .unwrap();
    format!("{} {}: {}", found.status, found.reason, found.message)
}

/// Both clusters start.
fn starting() -> Given {
    let mut given = healthy();
    for name in ["east", "west"] {
        let starting = step(State::Unknown, "StartingBackend", "0 of 2");
        given.placement(name).steps.insert(Step::Health, starting);
    }
    given
}

#[test]
fn each_step_says_what_it_is_when_it_is_done() {
    for (kind, message) in [
        (
            "Validation",
            "True Valid: revision 1 of RuntimeProfile echo serves it",
        ),
        (
            "BackendProvision",
            "True Provisioned: every target has its Deployment and Service",
        ),
        (
            "EndpointPublish",
            "True Provisioned: the endpoint of every target is published",
        ),
        (
            "TrafficRouteProvision",
            "True Provisioned: every target's gateway accepts the traffic route",
        ),
        (
            "ModelConfigProvision",
            "True Provisioned: every target has its model list",
        ),
        (
            "HealthCheck",
            "True Provisioned: every wanted replica is ready",
        ),
        ("Ready", "True Serving: all 2 clusters serve"),
    ] {
        assert_eq!(told(&healthy(), kind), message);
    }
}

#[test]
fn conditions_come_in_their_order() {
    let conditions = healthy().plan().status.conditions;
    let kinds: Vec<_> = conditions
        .iter()
        .map(|condition| condition.type_.as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "Ready",
            "Available",
            "Validation",
            "BackendProvision",
            "EndpointPublish",
            "DiscoveryRouteProvision",
            "TrafficRouteProvision",
            "ModelConfigProvision",
            "HealthCheck",
        ]
    );
}

#[test]
fn a_step_that_one_cluster_fails_is_told_with_its_name() {
    let mut given = healthy();
    given.fail(
        "west",
        Step::Backend,
        "NameConflict",
        "Service team/llama exists",
    );
    assert_eq!(
        told(&given, "BackendProvision"),
        "False NameConflict: west: Service team/llama exists"
    );
}

#[test]
fn of_several_clusters_the_first_by_name_is_told_and_the_others_counted() {
    assert_eq!(
        told(&starting(), "HealthCheck"),
        "Unknown StartingBackend: east: 0 of 2 (1 more clusters are not done)"
    );
}

#[test]
fn clusters_that_are_on_their_way_are_not_counted_among_those_that_fail() {
    let mut given = starting();
    given.fail("west", Step::Health, "CrashLoopBackOff", "exit code 1");
    assert_eq!(
        told(&given, "HealthCheck"),
        "False CrashLoopBackOff: west: exit code 1"
    );
}

#[test]
fn a_former_target_says_nothing_of_how_the_server_is() {
    let mut given = healthy();
    given.clusters.insert(cluster("north"), silent());
    assert_eq!(told(&given, "Ready"), "True Serving: all 2 clusters serve");
    assert_eq!(
        told(&given, "Available"),
        "True Serving: 2 of 2 clusters are routable; minReadyClusters is 1"
    );
}

#[test]
fn not_ready_is_told_by_the_step_that_keeps_it_from_being_so() {
    let mut given = healthy();
    given.fail("west", Step::Health, "CrashLoopBackOff", "exit code 1");
    assert_eq!(
        told(&given, "Ready"),
        "False CrashLoopBackOff: HealthCheck: west: exit code 1"
    );
}

#[test]
fn of_several_failed_steps_the_first_in_their_order_is_told() {
    let mut given = healthy();
    given.fail("west", Step::Health, "CrashLoopBackOff", "exit code 1");
    given.fail("east", Step::ModelConfig, "ApplyRefused", "no");
    assert_eq!(
        told(&given, "Ready"),
        "False ApplyRefused: ModelConfigProvision: east: no"
    );
}

#[test]
fn a_step_that_fails_is_told_before_one_that_is_on_its_way() {
    let mut given = healthy();
    let pending = step(State::Unknown, "Applying", "not yet");
    given.placement("east").steps.insert(Step::Backend, pending);
    assert_eq!(
        told(&given, "Ready"),
        "Unknown Applying: BackendProvision: east: not yet"
    );
    given.fail("west", Step::Health, "CrashLoopBackOff", "exit code 1");
    assert_eq!(
        told(&given, "Ready"),
        "False CrashLoopBackOff: HealthCheck: west: exit code 1"
    );
}

#[test]
fn a_missing_profile_is_told_with_both_ways_out() {
    let mut given = healthy();
    given.profiles.runtime = Err(Missing::Profile);
    assert_eq!(
        told(&given, "Validation"),
        "False RuntimeProfileNotFound: there is no RuntimeProfile echo: create it, or name another in spec.runtime.profile"
    );
}

#[test]
fn a_refused_namespace_is_told_before_a_missing_profile() {
    let mut given = healthy();
    given.profiles.runtime = Err(Missing::Profile);
    given.server.metadata.namespace = Some("cluster".to_owned());
    assert_eq!(
        told(&given, "Validation"),
        "False NamespaceRefused: namespace cluster can have no InferenceServer: /cluster/... are the paths between hub and members"
    );
}

#[test]
fn a_namespace_that_only_begins_like_the_refused_one_may_have_servers() {
    let mut given = healthy();
    given.server.metadata.namespace = Some("cluster-a".to_owned());
    assert!(told(&given, "Validation").starts_with("True Valid"));
}

#[test]
fn what_became_of_a_step_is_what_the_status_says() {
    let given = healthy();
    let plan = hub_plan::plan(&given.facts(), given.now);
    let mut steps = plan.steps.clone();
    let publish = steps.iter_mut().find(|step| step.kind == "EndpointPublish");
    *publish.unwrap() = Verdict::no("EndpointPublish", "ApplyRefused", "Service llama: no");
    let status = plan.status(&given.server, &steps, given.now);
    assert_eq!(condition(&status, "EndpointPublish"), "False ApplyRefused");
    assert_eq!(condition(&status, "Ready"), "False ApplyRefused");
    assert_eq!(
        condition(&status, "DiscoveryRouteProvision"),
        "True Provisioned"
    );
    assert_eq!(status.summary.reason, "ApplyRefused");
}

#[test]
fn available_says_how_many_are_routable_and_how_many_are_asked_for() {
    let mut given = healthy();
    given.server.spec.min_ready_clusters = 2;
    given.placement("west").replicas.ready = 0;
    assert_eq!(
        told(&given, "Available"),
        "False TooFewReadyClusters: 1 of 2 clusters are routable; minReadyClusters is 2"
    );
}

#[test]
fn as_many_routable_clusters_as_are_asked_for_are_enough() {
    let mut given = healthy();
    given.server.spec.min_ready_clusters = 1;
    given.placement("west").replicas.ready = 0;
    assert_eq!(
        told(&given, "Available"),
        "True Serving: 1 of 2 clusters are routable; minReadyClusters is 1"
    );
}

#[test]
fn a_cluster_that_cannot_be_heard_counts_as_it_was_last_published() {
    let mut given = healthy();
    given.server.spec.min_ready_clusters = 2;
    *given.cluster("west") = silent();
    assert!(told(&given, "Available").starts_with("True"));
}

#[test]
fn a_routable_cluster_of_weight_zero_counts() {
    let mut given = healthy();
    given.server = server(&[("east", 1), ("west", 0)]);
    given.server.spec.min_ready_clusters = 2;
    assert!(told(&given, "Available").starts_with("True"));
}

#[test]
fn a_server_on_its_way_out_says_whom_it_waits_for() {
    let mut given = healthy();
    given.server.metadata.deletion_timestamp = Some(Time(now()));
    assert_eq!(
        told(&given, "Ready"),
        "False Deleting: waits for 2 clusters: east keeps its part until HTTPRoute llama-discovery-0 is gone"
    );
    given.observed.routes.clear();
    assert_eq!(
        told(&given, "Ready"),
        "False Deleting: waits for 2 clusters: east is removing its part"
    );
    given.cluster("east").gone = true;
    assert_eq!(
        told(&given, "Ready"),
        "False Deleting: waits for one cluster: west is removing its part"
    );
    given.cluster("west").gone = true;
    assert_eq!(
        told(&given, "Ready"),
        "False Deleting: every member has confirmed that its part is gone"
    );
}

#[test]
fn a_server_on_its_way_out_waits_for_former_targets_too() {
    let mut given = healthy();
    given
        .clusters
        .insert(cluster("north"), serving("203.0.113.7"));
    given.server.metadata.deletion_timestamp = Some(Time(now()));
    assert!(told(&given, "Ready").starts_with("False Deleting: waits for 3 clusters"));
}
