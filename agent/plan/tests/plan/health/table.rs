//! The one reason why replicas are not ready: for each a Deployment or a Pod as an API server holds it, the worst first.

use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};

use crate::given::{World, pod};

/// What an API server holds of a server that is not well, and what is said of it.
pub(super) struct Recorded {
    /// Conditions of the Deployment.
    conditions: Vec<Value>,
    pods: Vec<Value>,
    /// Older replicas are left.
    older: i32,
    pub(super) said: &'static str,
}

fn refused(message: &str, said: &'static str) -> Recorded {
    let condition = json!({
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z",
    });
    Recorded {
        conditions: vec![condition],
        pods: Vec::new(),
        older: 0,
        said,
    }
}

fn shown(name: &str, status: &Value, said: &'static str) -> Recorded {
    Recorded {
        conditions: Vec::new(),
        pods: vec![pod(name, status)],
        older: 0,
        said,
    }
}

/// A Pod that is scheduled, and not ready since its start, with the server in this state.
pub(super) fn server(restarts: i32, started: bool, state: &Value, last: &Value) -> Value {
    json!({
        "phase": "Running", "hostIP": "192.0.2.7", "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady",
             "message": "containers with unready status: [server]", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "ContainersReady", "status": "False", "reason": "ContainersNotReady",
             "message": "containers with unready status: [server]", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ],
        "containerStatuses": [{
            "name": "server", "image": "echo:1", "imageID": "", "ready": false, "started": started,
            "restartCount": restarts, "state": state, "lastState": last,
        }],
    })
}

pub(super) fn waits(reason: &str, message: &str) -> Value {
    server(
        0,
        false,
        &json!({"waiting": {"reason": reason, "message": message}}),
        &json!({}),
    )
}

pub(super) fn loops(reason: &str, code: i32, message: &str) -> Value {
    let last = json!({"terminated": {
        "exitCode": code, "reason": reason, "message": message, "containerID": "containerd://1",
        "startedAt": "2026-01-01T00:01:00Z", "finishedAt": "2026-01-01T00:02:00Z",
    }});
    let back_off = "back-off 5m0s restarting failed container=server pod=d_team-a(1)";
    let state = json!({"waiting": {"reason": "CrashLoopBackOff", "message": back_off}});
    server(4, false, &state, &last)
}

pub(super) fn runs(started: bool) -> Value {
    server(
        0,
        started,
        &json!({"running": {"startedAt": "2026-01-01T00:00:05Z"}}),
        &json!({}),
    )
}

/// All containers are ready and the Pod is not, as the node controller leaves it.
pub(super) fn unheard() -> Value {
    let mut status = runs(true);
    status["containerStatuses"][0]["ready"] = json!(true);
    status["conditions"][0] =
        json!({"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:05:00Z"});
    status["conditions"][1] = json!({"type": "ContainersReady", "status": "True", "lastTransitionTime": "2026-01-01T00:00:06Z"});
    status
}

/// On its way out, by the condition that says why.
fn disrupted(name: &str, reason: &str, message: &str, said: &'static str) -> Recorded {
    let mut status = runs(true);
    status["conditions"].as_array_mut().unwrap().push(json!({
        "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:05:00Z",
    }));
    let mut recorded = shown(name, &status, said);
    recorded.pods[0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:07:00Z");
    recorded
}

/// Each reason, the worst first.
pub(super) fn table() -> Vec<Recorded> {
    let mut table = refusals();
    table.extend(failures());
    table.extend(on_their_way());
    table
}

fn refusals() -> Vec<Recorded> {
    vec![
        refused(
            "pods \"llama-abc-x\" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
            "False QuotaExceeded: the API server refuses Pods: pods \"llama-abc-x\" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8; raise the namespace's ResourceQuota, or ask for what it admits",
        ),
        refused(
            "admission webhook \"validation.gatekeeper.sh\" denied the request: [images] image echo:1 is not pinned",
            "False AdmissionDenied: the API server refuses Pods: admission webhook \"validation.gatekeeper.sh\" denied the request: [images] image echo:1 is not pinned; ask who keeps that webhook or policy",
        ),
        refused(
            "pods \"llama-abc-x\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"server\" must set securityContext.allowPrivilegeEscalation=false)",
            "False PolicyDenied: the API server refuses Pods: pods \"llama-abc-x\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"server\" must set securityContext.allowPrivilegeEscalation=false); the namespace's Pod Security level has to admit it",
        ),
        refused(
            "pods \"llama-abc-x\" is forbidden: pod rejected: RuntimeClass \"nvidia\" not found",
            "False RuntimeClassMissing: the API server refuses Pods: pods \"llama-abc-x\" is forbidden: pod rejected: RuntimeClass \"nvidia\" not found; install the RuntimeClass in the member cluster",
        ),
        refused(
            "pods \"llama-abc-\" is forbidden: error looking up service account team-a/llama: serviceaccount \"llama\" not found",
            "False PodCreateFailed: the API server refuses Pods: pods \"llama-abc-\" is forbidden: error looking up service account team-a/llama: serviceaccount \"llama\" not found",
        ),
    ]
}

fn failures() -> Vec<Recorded> {
    let unschedulable = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": "2026-01-01T00:00:00Z",
        "message": "0/3 nodes are available: 1 Insufficient memory, 2 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.",
    }]});
    vec![
        shown(
            "z-unschedulable",
            &unschedulable,
            "False Unschedulable: Pod z-unschedulable: no node can take it: 0/3 nodes are available: 1 Insufficient memory, 2 Insufficient nvidia.com/gpu; add nodes, or ask for less",
        ),
        shown(
            "y-image",
            &waits("ImagePullBackOff", "Back-off pulling image \"echo:1\""),
            "False ImagePullBackOff: Pod y-image, container server: can't have image echo:1: ImagePullBackOff: Back-off pulling image \"echo:1\"; correct the profile's image, or give the nodes access to it",
        ),
        shown(
            "x-config",
            &waits(
                "CreateContainerConfigError",
                "configmap \"llama-model-config\" not found",
            ),
            "False CreateContainerError: Pod x-config, container server: can't be started: CreateContainerConfigError: configmap \"llama-model-config\" not found; correct what it names",
        ),
        shown(
            "w-crash",
            &loops(
                "Error",
                1,
                "Traceback:\n  load()\n\nRuntimeError: no CUDA device\nexiting\n",
            ),
            "False CrashLoopBackOff: Pod w-crash, container server: ended with exit code 1, 4 restarts: load() | RuntimeError: no CUDA device | exiting; its log says more: kubectl logs --previous",
        ),
        shown(
            "v-memory",
            &loops("OOMKilled", 137, ""),
            "False OOMKilled: Pod v-memory, container server: was killed for its memory, exit code 137, 4 restarts: OOMKilled; raise its memory limit",
        ),
    ]
}

fn on_their_way() -> Vec<Recorded> {
    let mut was_ready = runs(true);
    was_ready["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T00:05:00Z");
    let mut draining = shown(
        "k",
        &json!({"conditions": [{"type": "Ready", "status": "True"}]}),
        "",
    );
    draining.older = 1;
    draining.said = "Unknown Draining: 1 of an older revision still to leave";
    vec![
        shown(
            "u-probe",
            &was_ready,
            "Unknown ProbeFailing: Pod u-probe, container server: was ready and is not any more, and runs since 2026-01-01T00:00:05Z; its log may say why",
        ),
        shown(
            "t-node",
            &unheard(),
            "Unknown NodeNotReady: Pod t-node: its containers were ready when its node at 192.0.2.7 was last heard; is the node Ready? kubectl get nodes",
        ),
        shown(
            "s-model",
            &runs(false),
            "Unknown ModelLoading: Pod s-model, container server: loads its model since 2026-01-01T00:00:05Z",
        ),
        disrupted(
            "r-evicted",
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
            "Unknown Evicted: Pod r-evicted was evicted: DeletionByTaintManager: Taint manager: deleting due to NoExecute taint; another takes its place",
        ),
        disrupted(
            "q-preempted",
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod",
            "Unknown Preempted: Pod q-preempted made room for one of higher priority: default-scheduler: preempting to accommodate a higher priority pod; another takes its place",
        ),
        shown(
            "p-starting",
            &waits("PodInitializing", "1 of 2 volumes"),
            "Unknown StartingBackend: Pod p-starting, container server: waits: PodInitializing: 1 of 2 volumes",
        ),
        draining,
    ]
}

/// All of it in one world, in which as many replicas are ready as there should be, and older ones are left.
pub(super) fn together<'a>(all: impl IntoIterator<Item = &'a Recorded>) -> World {
    let (mut conditions, mut pods) = (Vec::new(), Vec::new());
    for recorded in all {
        conditions.extend(recorded.conditions.clone());
        pods.extend(recorded.pods.clone());
    }
    let mut world = World::with_status(json!({
        "observedGeneration": 3, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 2,
        "conditions": conditions,
    }));
    world.pods = pods;
    world
}

/// `True Reason: message` without how many are ready, which stands before each message.
fn told(world: &World) -> String {
    world.health().replacen("2 of 2 replicas ready; ", "", 1)
}

#[test]
fn each_reason_is_told_of_what_an_api_server_holds() {
    for recorded in table() {
        assert_eq!(told(&together([&recorded])), recorded.said);
    }
}

#[test]
fn of_two_neighbours_the_worse_is_told_in_whatever_order_they_are_listed() {
    let table = table();
    for (worse, better) in table.iter().zip(table.iter().skip(1)) {
        for world in [together([worse, better]), together([better, worse])] {
            assert_eq!(told(&world), worse.said);
        }
    }
}

#[test]
fn what_a_person_has_to_end_is_told_before_what_ends_by_itself() {
    let table = table();
    let is_false = |recorded: &&Recorded| recorded.said.starts_with("False ");
    assert!(
        table
            .iter()
            .skip_while(is_false)
            .all(|recorded| !is_false(&recorded))
    );
    assert_eq!(
        (table.iter().filter(is_false).count(), table.len()),
        (10, 17)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_worst_of_all_is_told_in_whatever_order_they_are_listed(
        chosen in prop::collection::vec(any::<Index>(), 1..8),
    ) {
        let table = table();
        let chosen: Vec<usize> = chosen.iter().map(|index| index.index(table.len())).collect();
        let worst = chosen.iter().min().unwrap();
        let world = together(chosen.iter().map(|index| &table[*index]));
        prop_assert_eq!(told(&world), table[*worst].said);
    }
}
