//! Why Pods can't exist: who it is that refuses them.

use serde_json::json;

use crate::given::World;

/// The health of a server whose Deployment has one condition, without how many are ready.
fn told(kind: &str, status: &str, reason: &str, message: &str) -> String {
    let world = World::with_status(json!({"observedGeneration": 3, "conditions": [
        {"type": kind, "status": status, "reason": reason, "message": message},
    ]}));
    world.health().replacen("0 of 2 replicas ready; ", "", 1)
}

fn refused(message: &str) -> String {
    told("ReplicaFailure", "True", "FailedCreate", message)
}

fn forbidden(message: &str) -> String {
    refused(&format!("pods \"llama-abc-x\" is forbidden: {message}"))
}

#[test]
fn each_way_of_a_quota_to_refuse_is_told_as_such() {
    for message in [
        "exceeded quota: gpus, requested: pods=1, used: pods=8, limited: pods=8",
        "failed quota: memory: must specify limits.memory for: server",
        "insufficient quota to consume: requests.nvidia.com/gpu",
        "insufficient quota to match these scopes: [{PriorityClass In [high]}]",
    ] {
        let told = forbidden(message);
        assert!(told.starts_with("False QuotaExceeded: "), "{told}");
    }
}

#[test]
fn each_who_can_be_asked_about_pods_and_refuses_them_is_told_as_such() {
    for told in [
        forbidden("ValidatingAdmissionPolicy 'pins' with binding 'all' denied request: no digest"),
        forbidden("ValidatingAdmissionPolicy 'pins' denied request: no digest"),
        forbidden("image policy webhook backend denied one or more images: no digest"),
        refused("admission webhook \"w.example.com\" denied the request without explanation"),
        refused(
            "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: no endpoints",
        ),
        refused("policy 'defaults' with binding 'all' denied request: no digest"),
        refused("policy \"defaults\" denied request: no digest"),
    ] {
        assert!(told.starts_with("False AdmissionDenied: "), "{told}");
    }
}

#[test]
fn what_somebody_says_in_words_of_the_api_server_is_not_taken_for_it() {
    for told in [
        refused(
            "admission webhook \"w.example.com\" denied the request: pods \"p\" is forbidden: exceeded quota: none",
        ),
        forbidden(
            "ValidatingAdmissionPolicy 'pins' denied request: p is forbidden: violates PodSecurity",
        ),
    ] {
        assert!(told.starts_with("False AdmissionDenied: "), "{told}");
    }
    for message in [
        "maximum memory usage per Container is 1Gi, but limit is 2Gi: exceeded quota: none",
        "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c",
        "pod rejected: RuntimeClass \"nvidia\" has another overhead",
    ] {
        let told = forbidden(message);
        assert!(told.starts_with("False PodCreateFailed: "), "{told}");
    }
}

#[test]
fn a_replica_set_that_is_refused_is_told_by_who_refuses_it() {
    let answer = "replicasets.apps \"llama-abc\" is forbidden: exceeded quota: sets, requested: count/replicasets.apps=1, used: count/replicasets.apps=9, limited: count/replicasets.apps=9";
    let message = format!("Failed to create new replica set \"llama-abc\": {answer}");
    assert_eq!(
        told("Progressing", "False", "ReplicaSetCreateError", &message),
        format!(
            "False QuotaExceeded: the API server refuses the ReplicaSet: {answer}; raise the namespace's ResourceQuota, or ask for what it admits"
        )
    );
    let late = told("Progressing", "False", "ProgressDeadlineExceeded", &message);
    assert_eq!(late, "Unknown StartingBackend: 0 of 2 replicas ready");
}

#[test]
fn surplus_pods_that_can_not_be_deleted_are_no_refusal() {
    assert_eq!(
        told("ReplicaFailure", "True", "FailedDelete", "no"),
        "Unknown StartingBackend: 0 of 2 replicas ready"
    );
}

#[test]
fn a_long_answer_leaves_room_for_what_to_do() {
    let told = forbidden(&format!("exceeded quota: {}", "é".repeat(600)));
    assert!(told.len() <= 512, "{told}");
    let end = "é…; raise the namespace's ResourceQuota, or ask for what it admits";
    assert!(told.ends_with(end), "{told}");
}
