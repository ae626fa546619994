//! Failover by tiers.

use crate::{
    given::{Given, condition, healthy},
    shown::endpoints,
};

/// East in tier 0, west in tier 1.
fn given() -> Given {
    let mut given = healthy();
    given.server.spec.cluster_targets[1].tier = 1;
    given.apply();
    given
}

#[test]
fn a_higher_tier_stands_by_while_a_lower_one_serves() {
    let plan = given().plan();
    assert_eq!(
        endpoints(&plan),
        ["east 203.0.113.1 ready", "west 203.0.113.2 serving"]
    );
    assert_eq!(condition(&plan.status, "Ready"), "True Serving");
    assert_eq!(plan.status.summary.clusters.text, "2/2");
}

#[test]
fn a_higher_tier_serves_while_no_lower_one_can() {
    let mut given = given();
    given.placement("east").replicas.ready = 0;
    assert_eq!(
        endpoints(&given.plan()),
        ["east 203.0.113.1 down", "west 203.0.113.2 ready"]
    );
}

#[test]
fn a_failover_writes_no_route() {
    let mut given = given();
    given.server.spec.cluster_targets[0].weight = 3;
    given.apply();
    let before = given.plan().routes;
    given.placement("east").replicas.ready = 0;
    assert_eq!(given.plan().routes, before);
}

#[test]
fn one_cluster_of_a_tier_is_enough_for_it() {
    let mut given = given();
    given.add_south(1);
    given.placement("east").replicas.ready = 0;
    assert_eq!(
        endpoints(&given.plan()),
        [
            "east 203.0.113.1 down",
            "south 203.0.113.3 ready",
            "west 203.0.113.2 serving"
        ]
    );
}

#[test]
fn a_tier_whose_clusters_have_no_weight_serves_nobody() {
    let mut given = given();
    given.server.spec.cluster_targets[0].weight = 0;
    assert_eq!(
        endpoints(&given.plan()),
        ["east 203.0.113.1 serving", "west 203.0.113.2 ready"]
    );
}

#[test]
fn a_lost_cluster_fails_over_to_the_next_tier() {
    let mut given = given();
    given.fleet.joined = 10;
    given.lose("east");
    assert_eq!(
        endpoints(&given.plan()),
        ["east 203.0.113.1 down", "west 203.0.113.2 ready"]
    );
}

#[test]
fn a_silent_standby_can_take_over_within_its_grace() {
    let mut given = given();
    given.cluster("west").reporting = false;
    given.cluster("west").placement = None;
    given.placement("east").replicas.ready = 0;
    assert_eq!(
        endpoints(&given.plan()),
        ["east 203.0.113.1 down", "west 203.0.113.2 ready"]
    );
}
