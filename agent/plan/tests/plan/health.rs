//! Why replicas are not ready: what is said of their Pods.

mod any;
mod containers;
mod refusals;
mod table;
mod went;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::given::{World, pod};

/// One of two replicas is ready; these are the Pods.
fn with_pods(pods: Vec<Value>) -> World {
    let mut world = World::well();
    world.deployment.as_mut().unwrap()["status"]["readyReplicas"] = json!(1);
    world.pods = pods;
    world
}

/// A Pod with one container in this state.
fn container(restarts: i32, state: &Value, last: &Value) -> Value {
    json!({"containerStatuses": [{
        "name": "server", "image": "echo:1", "imageID": "", "ready": false, "restartCount": restarts,
        "state": state, "lastState": last,
    }]})
}

fn waiting(reason: &str, message: &str) -> Value {
    container(
        0,
        &json!({"waiting": {"reason": reason, "message": message}}),
        &Value::Null,
    )
}

fn crashed() -> Value {
    let last = json!({"terminated": {"exitCode": 139, "reason": "Error"}});
    container(
        4,
        &json!({"waiting": {"reason": "CrashLoopBackOff"}}),
        &last,
    )
}

fn unschedulable() -> Value {
    json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
    }]})
}

const PLAIN: &str = "Unknown StartingBackend: 1 of 2 replicas ready";

#[test]
fn a_pod_of_which_nothing_is_said_is_starting() {
    assert_eq!(with_pods(vec![pod("p", &json!({}))]).health(), PLAIN);
}

#[test]
fn what_a_pod_waits_for_is_told_in_the_kubelets_words() {
    let status = waiting("ContainerCreating", "for a volume");
    assert_eq!(
        with_pods(vec![pod("p", &status)]).health(),
        "Unknown StartingBackend: 1 of 2 replicas ready; Pod p, container server: waits: ContainerCreating: for a volume"
    );
}

#[test]
fn a_pod_that_waits_without_a_reason_is_told_as_waiting() {
    let status = container(
        0,
        &json!({"waiting": {"message": "for a volume"}}),
        &Value::Null,
    );
    assert_eq!(
        with_pods(vec![pod("p", &status)]).health(),
        "Unknown StartingBackend: 1 of 2 replicas ready; Pod p, container server: waits: for a volume"
    );
}

#[test]
fn the_first_pod_that_has_something_to_say_is_told() {
    let silent = container(
        0,
        &json!({"waiting": {"reason": "ContainerCreating"}}),
        &Value::Null,
    );
    let pods = vec![
        pod("a", &silent),
        pod("b", &waiting("PodInitializing", "init 1 of 2")),
    ];
    assert_eq!(
        with_pods(pods).health(),
        "Unknown StartingBackend: 1 of 2 replicas ready; Pod b, container server: waits: PodInitializing: init 1 of 2"
    );
}

#[test]
fn each_way_of_not_having_an_image_is_a_failure_to_pull() {
    for reason in [
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    ] {
        assert_eq!(
            with_pods(vec![pod("p", &waiting(reason, "no"))]).health(),
            format!(
                "False ImagePullBackOff: 1 of 2 replicas ready; Pod p, container server: can't have image echo:1: {reason}: no; correct the profile's image, or give the nodes access to it"
            )
        );
    }
}

#[test]
fn each_way_of_not_starting_a_container_is_a_failure_to_create_it() {
    let never_ran =
        json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": "no"}});
    let mut statuses = vec![container(1, &never_ran, &Value::Null)];
    for reason in [
        "CreateContainerConfigError",
        "CreateContainerError",
        "PostStartHookError",
        "PreCreateHookError",
        "PreStartHookError",
        "RunContainerError",
    ] {
        statuses.push(waiting(reason, "no"));
    }
    for status in statuses {
        let health = with_pods(vec![pod("p", &status)]).health();
        assert!(
            health.starts_with("False CreateContainerError: 1 of 2 replicas ready; Pod p, container server: can't be started: ")
                && health.ends_with("no; correct what it names"),
            "{health}"
        );
    }
}

#[test]
fn a_crash_is_told_with_its_exit_code_and_restarts() {
    assert_eq!(
        with_pods(vec![pod("p", &crashed())]).health(),
        "False CrashLoopBackOff: 1 of 2 replicas ready; Pod p, container server: ended with exit code 139, 4 restarts: Error; its log says more: kubectl logs --previous"
    );
}

#[test]
fn what_a_container_left_as_its_last_words_is_told_rather_than_the_reason() {
    let ended = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": " no GPU\n"}});
    assert_eq!(
        with_pods(vec![pod("p", &container(1, &ended, &Value::Null))]).health(),
        "False CrashLoopBackOff: 1 of 2 replicas ready; Pod p, container server: ended with exit code 1, 1 restarts: no GPU; its log says more: kubectl logs --previous"
    );
}

#[test]
fn the_newest_end_of_a_container_is_told() {
    let ended = |code: i32| json!({"terminated": {"exitCode": code, "reason": "Error"}});
    let health = with_pods(vec![pod("p", &container(3, &ended(2), &ended(1)))]).health();
    assert!(health.contains("exit code 2, 3 restarts"), "{health}");
}

#[test]
fn a_first_end_with_an_error_is_a_crash() {
    let ended = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
    assert_eq!(
        with_pods(vec![pod("p", &container(0, &ended, &Value::Null))]).health(),
        "False CrashLoopBackOff: 1 of 2 replicas ready; Pod p, container server: ended with exit code 3, 0 restarts: Error; its log says more: kubectl logs --previous"
    );
}

#[test]
fn an_init_container_that_ended_well_is_no_crash() {
    let mut status = container(0, &json!({"terminated": {"exitCode": 0}}), &Value::Null);
    status["initContainerStatuses"] = status["containerStatuses"].take();
    assert_eq!(with_pods(vec![pod("p", &status)]).health(), PLAIN);
}

#[test]
fn a_server_that_ends_well_again_and_again_is_a_crash() {
    let last = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
    let health = with_pods(vec![pod("p", &container(2, &Value::Null, &last))]).health();
    assert!(
        health.contains("ended with exit code 0, 2 restarts: Completed"),
        "{health}"
    );
}

#[test]
fn an_init_container_is_told_before_those_that_wait_for_it() {
    let mut status = waiting("PodInitializing", "waits for init");
    let init = waiting("ContainerCreating", "for a volume");
    status["initContainerStatuses"] = init["containerStatuses"].clone();
    let health = with_pods(vec![pod("p", &status)]).health();
    let init = "Pod p, init container server: waits: ContainerCreating: for a volume";
    assert!(health.ends_with(init), "{health}");
}

#[test]
fn a_pod_that_no_node_can_take_is_told_in_the_schedulers_words() {
    assert_eq!(
        with_pods(vec![pod("p", &unschedulable())]).health(),
        "False Unschedulable: 1 of 2 replicas ready; Pod p: no node can take it: 0/3 nodes are available: 3 Insufficient cpu; add nodes, or ask for less"
    );
}

#[test]
fn a_scheduler_without_words_still_says_that_no_node_can_take_the_pod() {
    let mut status = unschedulable();
    status["conditions"][0]["message"] = Value::Null;
    assert_eq!(
        with_pods(vec![pod("p", &status)]).health(),
        "False Unschedulable: 1 of 2 replicas ready; Pod p: no node can take it; add nodes, or ask for less"
    );
}

#[test]
fn a_pod_that_is_held_back_or_scheduled_is_not_unschedulable() {
    let mut gated = unschedulable();
    gated["conditions"][0]["reason"] = json!("SchedulingGated");
    gated["conditions"][0]["message"] = json!("Scheduling is blocked");
    assert_eq!(
        with_pods(vec![pod("p", &gated)]).health(),
        format!("{PLAIN}; Pod p is not scheduled: SchedulingGated: Scheduling is blocked")
    );
    let mut scheduled = unschedulable();
    scheduled["conditions"][0]["status"] = json!("True");
    assert_eq!(with_pods(vec![pod("p", &scheduled)]).health(), PLAIN);
}

#[test]
fn what_cannot_run_at_all_is_told_before_what_runs_badly() {
    let (crash, image, node) = (
        pod("a", &crashed()),
        pod("b", &waiting("ErrImagePull", "no")),
        pod("c", &unschedulable()),
    );
    let health = with_pods(vec![crash.clone(), image.clone(), node]).health();
    assert!(health.starts_with("False Unschedulable"), "{health}");
    let health = with_pods(vec![crash, image]).health();
    assert!(health.starts_with("False ImagePullBackOff"), "{health}");
}

#[test]
fn pods_that_the_api_server_refuses_are_told_before_those_that_exist() {
    let mut world = with_pods(vec![pod("p", &crashed())]);
    world.deployment.as_mut().unwrap()["status"]["conditions"] =
        json!([{"type": "ReplicaFailure", "status": "True", "message": "no"}]);
    assert_eq!(
        world.health(),
        "False PodCreateFailed: 1 of 2 replicas ready; the API server refuses Pods: no"
    );
}

#[test]
fn a_refusal_of_pods_without_words_is_told_all_the_same() {
    let world = World::with_status(json!({
        "observedGeneration": 3, "conditions": [{"type": "ReplicaFailure", "status": "True"}],
    }));
    assert_eq!(
        world.health(),
        "False PodCreateFailed: 0 of 2 replicas ready; the API server refuses Pods: no message"
    );
}

#[test]
fn a_refusal_of_pods_that_has_passed_is_none() {
    let world = World::with_status(json!({
        "observedGeneration": 3,
        "conditions": [
            {"type": "ReplicaFailure", "status": "False"}, {"type": "Progressing", "status": "True"},
        ],
    }));
    assert_eq!(
        world.health(),
        "Unknown StartingBackend: 0 of 2 replicas ready"
    );
}

#[test]
fn a_ready_pod_that_once_crashed_gives_no_reason() {
    let mut status = crashed();
    status["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    assert_eq!(with_pods(vec![pod("p", &status)]).health(), PLAIN);
    status["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    assert!(
        with_pods(vec![pod("p", &status)])
            .health()
            .starts_with("False CrashLoopBackOff")
    );
}

#[test]
fn a_pod_counts_only_under_the_deployments_own_replica_set() {
    for (field, value) in [
        ("name", json!("llama-2-abc")),
        ("name", json!("llama-xyz")),
        ("kind", json!("StatefulSet")),
        ("controller", json!(false)),
        ("controller", Value::Null),
    ] {
        let mut other = pod("p", &crashed());
        other["metadata"]["ownerReferences"][0][field] = value;
        assert_eq!(with_pods(vec![other]).health(), PLAIN, "{field}");
    }
}

#[test]
fn a_pod_without_a_templates_hash_is_nobodys() {
    let mut other = pod("p", &crashed());
    other["metadata"]["labels"] = json!({"inferfleet.io/server": "llama"});
    other["metadata"]["ownerReferences"][0]["name"] = json!("llama-");
    assert_eq!(with_pods(vec![other]).health(), PLAIN);
}

#[test]
fn a_roll_out_that_crashes_is_told_while_the_older_replicas_serve() {
    let mut world = World::with_status(json!({
        "observedGeneration": 3, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 2,
    }));
    world.pods = vec![pod("p", &crashed())];
    assert!(
        world
            .health()
            .starts_with("False CrashLoopBackOff: 2 of 2 replicas ready; Pod p"),
        "{}",
        world.health()
    );
}

#[test]
fn a_pod_that_leaves_gives_no_reason() {
    let mut leaving = pod("p", &crashed());
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(with_pods(vec![leaving]).health(), PLAIN);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_first_pod_by_name_is_told_in_whatever_order_they_are_listed(
        pods in Just(vec![("a", 1), ("b", 2), ("c", 3)]).prop_shuffle(),
    ) {
        let pods = pods.into_iter().map(|(name, code)| {
            pod(name, &container(1, &json!({"terminated": {"exitCode": code}}), &Value::Null))
        });
        let health = with_pods(pods.collect()).health();
        prop_assert!(health.contains("Pod a, container server: ended with exit code 1, "), "{}", health);
    }
}
