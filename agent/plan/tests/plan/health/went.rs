//! Pods that have lost their place: told until there is a ready one in it.

use serde_json::{Value, json};

use super::table::{loops, runs, unheard};
use crate::given::{World, pod};

const PLAIN: &str = "Unknown StartingBackend: 1 of 2 replicas ready";

/// One of two replicas is ready; these are the Pods.
fn told(pods: Vec<Value>) -> String {
    let mut world = World::well();
    world.deployment.as_mut().unwrap()["status"]["readyReplicas"] = json!(1);
    world.pods = pods;
    world.health()
}

fn target(status: &str, reason: &str) -> Value {
    json!({
        "type": "DisruptionTarget", "status": status, "reason": reason, "message": "so it is",
        "lastTransitionTime": "2026-01-01T00:05:00Z",
    })
}

/// A Pod that is being deleted, with these conditions.
fn leaving(conditions: &Value) -> Value {
    let mut pod = pod("gone", &json!({"conditions": conditions}));
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:07:00Z");
    pod
}

/// A Pod that its node has ended or not begun.
fn failed(reason: &str, message: &str) -> Value {
    let mut status = loops("Error", 137, "");
    status["phase"] = json!("Failed");
    status["reason"] = json!(reason);
    status["message"] = json!(message);
    let mut pod = pod("gone", &status);
    pod["metadata"]["creationTimestamp"] = json!("2026-01-01T00:04:00Z");
    pod
}

/// A Pod that is ready, made at this time.
fn ready(made: &str) -> Value {
    let mut pod = pod(
        "ready",
        &json!({"conditions": [{"type": "Ready", "status": "True"}]}),
    );
    pod["metadata"]["creationTimestamp"] = json!(made);
    pod
}

#[test]
fn each_way_of_being_thrown_out_is_an_eviction() {
    for reason in [
        "DeletionByPodGC",
        "DeletionByTaintManager",
        "EvictionByEvictionAPI",
        "TerminationByKubelet",
    ] {
        assert_eq!(
            told(vec![leaving(&json!([target("True", reason)]))]),
            format!(
                "Unknown Evicted: 1 of 2 replicas ready; Pod gone was evicted: {reason}: so it is; another takes its place"
            )
        );
    }
}

#[test]
fn who_was_to_be_thrown_out_and_was_not_is_not_told() {
    let spared = leaving(&json!([target("False", "PreemptionByScheduler")]));
    assert_eq!(told(vec![spared]), PLAIN);
}

#[test]
fn a_pod_that_its_node_ended_or_turned_down_is_told_by_its_node_and_not_by_its_containers() {
    for (reason, message) in [
        ("Evicted", "The node was low on resource: memory. "),
        (
            "UnexpectedAdmissionError",
            "Pod was rejected: Allocate failed due to no healthy devices present",
        ),
    ] {
        assert_eq!(
            told(vec![failed(reason, message)]),
            format!(
                "Unknown Evicted: 1 of 2 replicas ready; Pod gone: its node gave it up: {reason}: {}; another takes its place",
                message.trim_end_matches(". ")
            )
        );
    }
}

#[test]
fn a_pod_that_is_over_for_no_known_reason_gives_none() {
    let mut over = failed("", "");
    over["status"]["reason"] = Value::Null;
    assert_eq!(told(vec![over.clone()]), PLAIN);
    over["status"]["phase"] = json!("Succeeded");
    assert_eq!(told(vec![over]), PLAIN);
}

#[test]
fn an_eviction_is_told_until_a_pod_that_was_made_after_it_is_ready() {
    let evicted = leaving(&json!([target("True", "EvictionByEvictionAPI")]));
    let is_told = |other: Value| told(vec![evicted.clone(), other]).contains("Evicted");
    assert!(is_told(ready("2026-01-01T00:04:59Z")));
    assert!(!is_told(ready("2026-01-01T00:05:00Z")));
    let mut leaves = ready("2026-01-01T00:06:00Z");
    leaves["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:07:00Z");
    assert!(is_told(leaves));
    let mut rises = ready("2026-01-01T00:06:00Z");
    rises["status"]["conditions"][0]["status"] = json!("False");
    assert!(is_told(rises));
}

#[test]
fn what_a_node_turned_down_counts_from_when_it_was_made() {
    let is_told = |other: Value| told(vec![failed("OutOfcpu", "no"), other]).contains("Evicted");
    assert!(is_told(ready("2026-01-01T00:03:59Z")));
    assert!(!is_told(ready("2026-01-01T00:04:00Z")));
}

#[test]
fn a_pod_whose_node_is_lost_is_told_as_such_also_on_its_way_out() {
    let mut lost = pod(
        "lost",
        &json!({"reason": "NodeLost", "message": "Node n is unresponsive"}),
    );
    let expected = "Unknown NodeNotReady: 1 of 2 replicas ready; Pod lost: its containers were ready when its node was last heard: Node n is unresponsive; is the node Ready? kubectl get nodes";
    assert_eq!(told(vec![lost.clone()]), expected);
    lost["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:07:00Z");
    assert_eq!(told(vec![lost]), expected);
}

#[test]
fn a_pod_on_its_way_out_whose_containers_are_still_ready_has_not_lost_its_node() {
    let mut pod = pod("p", &unheard());
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:07:00Z");
    assert_eq!(told(vec![pod]), PLAIN);
}

#[test]
fn a_readiness_gate_is_told_and_not_taken_for_a_lost_node() {
    let mut status = unheard();
    status["conditions"][0]["reason"] = json!("ReadinessGatesNotReady");
    status["conditions"][0]["message"] = json!("the status of pod readiness gate \"lb\" is False");
    assert_eq!(
        told(vec![pod("p", &status)]),
        format!(
            "{PLAIN}; Pod p waits for a readiness gate: the status of pod readiness gate \"lb\" is False"
        )
    );
}

#[test]
fn a_pod_without_ready_containers_has_not_lost_its_node() {
    let told = told(vec![pod("p", &runs(false))]);
    assert!(told.starts_with("Unknown ModelLoading"), "{told}");
}
