//! Are all wanted replicas ready, and of the newest revision: what the Deployment counts.

use serde_json::json;

use crate::given::{World, pod};

#[test]
fn a_server_that_was_just_scaled_to_zero_waits_for_its_controller() {
    let mut world = World::with_status(json!({"observedGeneration": 2, "readyReplicas": 2}));
    world.placement["spec"]["replicas"] = json!(0);
    assert_eq!(
        world.health(),
        "Unknown StartingBackend: 2 of 0 replicas ready; the Deployment controller has not seen the newest revision"
    );
}

#[test]
fn scaled_to_zero_is_not_down() {
    let mut world = World::with_status(json!({"observedGeneration": 3}));
    world.placement["spec"]["replicas"] = json!(0);
    assert_eq!(
        world.health(),
        "True ScaledToZero: replicas is 0: nothing runs, as asked for"
    );
}

#[test]
fn a_server_that_is_being_scaled_down_serves() {
    let world = World::with_status(json!({
        "observedGeneration": 3, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3,
    }));
    assert_eq!(world.health(), "True Serving: 3 of 2 replicas ready");
}

#[test]
fn an_older_replica_that_is_left_keeps_a_roll_out_from_being_over() {
    let world = World::with_status(json!({
        "observedGeneration": 3, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 3,
    }));
    assert_eq!(
        world.health(),
        "Unknown Draining: 3 of 2 replicas ready; 1 of an older revision still to leave"
    );
}

#[test]
fn an_older_replica_that_is_left_waits_for_the_new_one_to_be_ready() {
    let mut world = World::with_status(json!({
        "observedGeneration": 3, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 2,
    }));
    world.pods = vec![pod("new", &json!({}))];
    assert_eq!(
        world.health(),
        "Unknown StartingBackend: 2 of 2 replicas ready; 2 of 2 are of the newest revision"
    );
}

#[test]
fn a_roll_out_with_too_few_new_replicas_is_not_over() {
    let world = World::with_status(json!({
        "observedGeneration": 3, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 2,
    }));
    assert_eq!(
        world.health(),
        "Unknown StartingBackend: 2 of 2 replicas ready; 1 of 2 are of the newest revision"
    );
}

#[test]
fn a_roll_out_that_its_controller_has_not_seen_is_not_over() {
    let world = World::with_status(json!({
        "observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
    }));
    assert_eq!(
        world.health(),
        "Unknown StartingBackend: 2 of 2 replicas ready; the Deployment controller has not seen the newest revision"
    );
}

#[test]
fn a_count_below_zero_is_none() {
    let world = World::with_status(json!({"observedGeneration": 3, "readyReplicas": -1}));
    assert_eq!(world.report().replicas.ready, 0);
}

#[test]
fn the_report_counts_what_is_wanted_and_what_is_ready() {
    let mut world = World::with_status(json!({"observedGeneration": 3, "readyReplicas": 1}));
    world.placement["spec"]["replicas"] = json!(5);
    let replicas = world.report().replicas;
    assert_eq!((replicas.wanted, replicas.ready), (5, 1));
}
