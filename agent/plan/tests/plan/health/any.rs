//! Whatever Pods hold: no panic, one of the known reasons, and the same in whatever order they are listed.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::table::{table, together};
use crate::given::pod;

/// One of these, or nothing.
fn any_of(values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop::option::of(prop::sample::select(values)).prop_map(|value| json!(value))
}

const TIMES: &[&str] = &["2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"];
const WORDS: &[&str] = &[
    "",
    "\n \n",
    "a: b is forbidden: exceeded quota: é",
    "one\ntwo\nthree\nfour",
];

fn any_condition() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(
        &[
            "Ready",
            "ContainersReady",
            "PodScheduled",
            "DisruptionTarget",
        ][..],
    );
    let reasons = any_of(&[
        "Unschedulable",
        "ReadinessGatesNotReady",
        "PreemptionByScheduler",
        "Other",
    ]);
    let statuses = prop::sample::select(&["True", "False", "Unknown", ""][..]);
    (kinds, statuses, reasons, any_of(WORDS), any_of(TIMES)).prop_map(|(kind, status, reason, message, time)| {
        json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time})
    })
}

fn any_container() -> impl Strategy<Value = Value> {
    let waiting = (
        any_of(&[
            "CrashLoopBackOff",
            "ErrImagePull",
            "RunContainerError",
            "Other",
        ]),
        any_of(WORDS),
    )
        .prop_map(|(reason, message)| json!({"waiting": {"reason": reason, "message": message}}));
    let running = any_of(TIMES).prop_map(|time| json!({"running": {"startedAt": time}}));
    let ended = (any::<i32>(), any_of(&["OOMKilled", "StartError"]), any_of(WORDS)).prop_map(
        |(code, reason, message)| json!({"terminated": {"exitCode": code, "reason": reason, "message": message}}),
    );
    let state = prop_oneof![Just(Value::Null), Just(json!({})), waiting, running, ended];
    let name = prop::sample::select(&["server", "proxy", ""][..]);
    (
        name,
        any::<bool>(),
        any::<Option<bool>>(),
        any::<i32>(),
        prop::collection::vec(state, 2),
    )
        .prop_map(|(name, ready, started, restarts, states)| {
            json!({
                "name": name, "image": "i", "imageID": "", "ready": ready, "started": started,
                "restartCount": restarts, "state": states[0], "lastState": states[1],
            })
        })
}

fn any_pod() -> impl Strategy<Value = Value> {
    let containers = || prop::collection::vec(any_container(), 0..3);
    let status = (
        prop::collection::vec(any_condition(), 0..4),
        containers(),
        containers(),
        any_of(&["Failed", "Running"]),
        any_of(&["Evicted", "NodeLost"]),
    );
    let status = status.prop_map(|(conditions, init, main, phase, reason)| {
        json!({
            "conditions": conditions, "initContainerStatuses": init, "containerStatuses": main,
            "phase": phase, "reason": reason,
        })
    });
    (status, any_of(TIMES), any_of(TIMES)).prop_map(|(status, made, deleted)| {
        let mut pod = pod("p", &status);
        pod["metadata"]["creationTimestamp"] = made;
        pod["metadata"]["deletionTimestamp"] = deleted;
        pod
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_pods_hold_one_reason_is_told_within_bounds_and_their_order_does_not_matter(
        mut pods in prop::collection::vec(any_pod(), 0..4),
    ) {
        for (index, pod) in pods.iter_mut().enumerate() {
            pod["metadata"]["name"] = json!(format!("p{index}"));
        }
        let mut world = together([]);
        world.pods = pods;
        let verdict = world.report().verdicts[3].clone();
        let known = table().into_iter().any(|recorded| {
            recorded.said.starts_with(&format!("{} {}: ", verdict.state.as_str(), verdict.reason))
        });
        prop_assert!(known && verdict.message.len() <= 512 && !verdict.message.contains('\n'), "{:?}", verdict);
        world.pods.reverse();
        prop_assert_eq!(&world.report().verdicts[3], &verdict);
    }
}
