//! What the columns print: counts over all targets, and their reasons.

use hub_plan::facts::Step;

use crate::given::{cluster, healthy, lost, many, serving};

#[test]
fn replicas_are_wanted_of_every_target_also_of_one_that_says_nothing() {
    let mut given = healthy();
    *given.cluster("west") = lost();
    given.server.spec.replicas = 3;
    assert_eq!(given.plan().status.summary.replicas.text, "2/6");
}

#[test]
fn replicas_of_a_former_target_do_not_count() {
    let mut given = healthy();
    given
        .clusters
        .insert(cluster("north"), serving("203.0.113.7"));
    let summary = given.plan().status.summary;
    assert_eq!(summary.replicas.text, "4/4");
    assert_eq!(summary.clusters.text, "2/2");
}

#[test]
fn more_replicas_than_can_be_counted_are_as_many_as_can() {
    let mut given = healthy();
    given.server.spec.replicas = u32::MAX;
    given.placement("east").replicas.ready = u32::MAX;
    let replicas = given.plan().status.summary.replicas;
    assert_eq!((replicas.wanted, replicas.ready), (u32::MAX, u32::MAX));
}

#[test]
fn a_reason_that_is_the_hubs_own_names_no_cluster() {
    let mut given = healthy();
    given.gateway = None;
    assert_eq!(given.plan().status.summary.reason, "GatewayNotSet");
}

#[test]
fn reasons_are_counted_most_frequent_first_then_by_name() {
    let mut given = many(5);
    for (name, reason) in [("c000", "B"), ("c001", "C"), ("c002", "C"), ("c003", "A")] {
        given.fail(name, Step::Health, reason, "");
    }
    let reasons = given.plan().status.summary.reasons;
    let counts: Vec<_> = reasons
        .iter()
        .map(|count| (count.reason.as_str(), count.clusters))
        .collect();
    assert_eq!(counts, [("C", 2), ("A", 1), ("B", 1)]);
}

#[test]
fn thirty_two_reasons_are_counted_and_no_more() {
    let mut given = many(33);
    for number in 0..32 {
        given.fail(
            &format!("c{number:03}"),
            Step::Health,
            &format!("R{number:02}"),
            "",
        );
    }
    assert_eq!(given.plan().status.summary.reasons.len(), 32);
    given.fail("c032", Step::Health, "R32", "");
    let reasons = given.plan().status.summary.reasons;
    assert_eq!((reasons.len(), reasons[31].reason.as_str()), (32, "R31"));
}

#[test]
fn a_server_that_serves_counts_no_reasons() {
    assert!(healthy().plan().status.summary.reasons.is_empty());
}
