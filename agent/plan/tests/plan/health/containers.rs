//! What is said of a Pod's containers: whether one starts, loads its model, fails its probe or has ended.

use serde_json::{Value, json};

use super::table::{loops, runs, server};
use crate::given::{World, pod};

/// What is said of a Pod in a world that was changed so, but for how many are ready.
fn told_in(change: impl FnOnce(&mut World), status: &Value) -> String {
    let mut world = World::well();
    world.deployment.as_mut().unwrap()["status"]["readyReplicas"] = json!(1);
    world.pods = vec![pod("p", status)];
    change(&mut world);
    world.health().replacen("1 of 2 replicas ready; ", "", 1)
}

fn told(status: &Value) -> String {
    told_in(|_| {}, status)
}

fn without_model(world: &mut World) {
    world.placement["spec"]["model"] = Value::Null;
    world.content()["args"] = json!([]);
}

fn without_startup(world: &mut World) {
    world.content()["probes"]["startup"] = Value::Null;
}

/// The Pod was ready until then.
fn ready_until(mut status: Value, time: &str) -> Value {
    status["conditions"][0]["lastTransitionTime"] = json!(time);
    status
}

const SINCE: &str = "since 2026-01-01T00:00:05Z";

#[test]
fn a_server_without_a_model_loads_none() {
    assert_eq!(
        told_in(without_model, &runs(false)),
        format!(
            "Unknown StartingBackend: Pod p, container server: runs {SINCE} and is not ready yet"
        )
    );
}

#[test]
fn a_server_without_a_startup_probe_loads_its_model_until_it_is_ready_for_the_first_time() {
    let loads = format!("Unknown ModelLoading: Pod p, container server: loads its model {SINCE}");
    assert_eq!(told_in(without_startup, &runs(true)), loads);
    let was_ready = ready_until(runs(true), "2026-01-01T00:05:00Z");
    let health = told_in(without_startup, &was_ready);
    assert!(health.starts_with("Unknown ProbeFailing"), "{health}");
    let neither = |world: &mut World| {
        without_model(world);
        without_startup(world);
    };
    assert_eq!(
        told_in(neither, &runs(true)),
        format!(
            "Unknown StartingBackend: Pod p, container server: runs {SINCE} and is not ready yet"
        )
    );
}

#[test]
fn a_server_that_has_started_and_is_not_ready_fails_its_probe() {
    assert_eq!(
        told(&runs(true)),
        format!(
            "Unknown ProbeFailing: Pod p, container server: runs {SINCE}, its startup probe succeeds, and it is not ready; its log may say why"
        )
    );
}

#[test]
fn a_server_of_which_it_is_not_known_whether_it_has_started_loads_its_model() {
    let mut status = runs(true);
    status["containerStatuses"][0]["started"] = Value::Null;
    assert!(told(&status).starts_with("Unknown ModelLoading"));
}

#[test]
fn a_pod_that_stopped_being_ready_when_its_container_started_was_not_ready_since() {
    let status = ready_until(runs(false), "2026-01-01T00:00:05Z");
    assert!(told(&status).starts_with("Unknown ModelLoading"));
    let status = ready_until(runs(false), "2026-01-01T00:00:06Z");
    assert!(told(&status).starts_with("Unknown ProbeFailing"));
}

#[test]
fn who_is_beside_the_server_or_before_it_loads_no_model() {
    let mut status = runs(true);
    status["containerStatuses"][0]["name"] = json!("proxy");
    assert_eq!(
        told(&status),
        format!(
            "Unknown StartingBackend: Pod p, container proxy: runs {SINCE} and is not ready yet"
        )
    );
    let mut status = runs(false);
    status["initContainerStatuses"] = status["containerStatuses"].take();
    assert_eq!(
        told(&status),
        format!(
            "Unknown StartingBackend: Pod p, init container server: runs {SINCE} and is not ready yet"
        )
    );
}

#[test]
fn a_container_that_ended_is_told_until_it_has_been_ready_again() {
    let last = json!({"terminated": {"exitCode": 1, "reason": "Error"}});
    let running = json!({"running": {"startedAt": "2026-01-01T00:03:00Z"}});
    let again = server(1, false, &running, &last);
    assert!(told(&again).starts_with("False CrashLoopBackOff"));
    let ready_since = ready_until(again, "2026-01-01T00:05:00Z");
    assert!(told(&ready_since).starts_with("Unknown ProbeFailing"));
}

#[test]
fn a_container_that_loops_is_told_also_when_its_end_is_forgotten() {
    let mut status = loops("Error", 1, "");
    status["containerStatuses"][0]["lastState"] = json!({});
    assert_eq!(
        told(&status),
        "False CrashLoopBackOff: Pod p, container server: ended, 4 restarts: CrashLoopBackOff: back-off 5m0s restarting failed container=server pod=d_team-a(1); its log says more: kubectl logs --previous"
    );
}

#[test]
fn an_init_container_that_succeeded_at_its_second_try_is_not_told() {
    let mut status = runs(false);
    status["initContainerStatuses"] = json!([{
        "name": "fetch", "image": "f", "imageID": "", "ready": true, "restartCount": 1,
        "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
    }]);
    assert!(told(&status).starts_with("Unknown ModelLoading"));
}

#[test]
fn of_long_last_words_the_end_is_told() {
    let words = format!("first\nsecond\n{}\nend\n", "é".repeat(150));
    let health = told(&loops("Error", 1, &words));
    let (_, words) = health.split_once("restarts: ").unwrap();
    let (words, _) = words.split_once("; its log").unwrap();
    assert!(
        words.starts_with("…é") && words.ends_with("é | end"),
        "{words}"
    );
    assert!((195..=200).contains(&words.len()), "{words}");
}
