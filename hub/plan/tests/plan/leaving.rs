//! Deletion policies, decommission, and clusters whose record is being deleted.

use crds::v1alpha1::{ClusterState, DeletionPolicy, ServerState};
use hub_plan::facts::{ClusterFacts, Membership};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    given::{Given, cluster, condition, healthy, serving},
    shown::endpoints,
};

fn deleting(policy: DeletionPolicy) -> Given {
    let mut given = healthy();
    given.server.spec.deletion_policy = policy;
    given.server.metadata.deletion_timestamp = Some(Time(given.now));
    given
}

fn away() -> ClusterFacts {
    ClusterFacts {
        membership: Membership::Joined,
        ..ClusterFacts::default()
    }
}

#[test]
fn a_member_that_is_away_holds_a_server_that_is_to_be_deleted() {
    let mut given = deleting(DeletionPolicy::Delete);
    given.cluster("east").gone = true;
    *given.cluster("west") = away();
    assert!(!given.plan().release);
}

#[test]
fn a_member_that_is_away_does_not_hold_a_server_that_leaves_its_parts_and_is_named_to_be_told() {
    let mut given = deleting(DeletionPolicy::Orphan);
    given.cluster("east").gone = true;
    *given.cluster("west") = away();
    let plan = given.plan();
    assert!(plan.release);
    assert_eq!(plan.unconfirmed, [cluster("west")]);
}

#[test]
fn a_member_that_is_heard_holds_a_server_that_leaves_its_parts_until_it_has_let_go() {
    let mut given = deleting(DeletionPolicy::Orphan);
    given.cluster("east").gone = true;
    let plan = given.plan();
    assert!(!plan.release);
    assert_eq!(plan.unconfirmed, []);
    given.cluster("west").gone = true;
    assert!(given.plan().release);
}

#[test]
fn who_has_never_joined_is_not_told_later() {
    let mut given = deleting(DeletionPolicy::Orphan);
    given.cluster("east").gone = true;
    *given.cluster("west") = ClusterFacts::default();
    let plan = given.plan();
    assert!(plan.release);
    assert_eq!(plan.unconfirmed, []);
}

#[test]
fn a_decommissioned_server_is_emptied_and_kept() {
    let mut given = healthy();
    given.server.spec.decommission = true;
    assert!(given.plan().routes.is_empty());
    given.observed.routes.clear();
    let plan = given.plan();
    assert_eq!(condition(&plan.status, "Ready"), "False Decommissioning");
    assert_eq!(plan.status.state, ServerState::Deleting);
    assert_eq!(endpoints(&plan), [""; 0], "nothing takes traffic any more");
    for name in ["east", "west"] {
        given.cluster(name).gone = true;
    }
    given.apply();
    let plan = given.plan();
    assert_eq!(condition(&plan.status, "Ready"), "False Decommissioned");
    assert_eq!(
        condition(&plan.status, "Available"),
        "False TooFewReadyClusters"
    );
    assert_eq!(plan.status.state, ServerState::Decommissioned);
    assert!(
        plan.services.is_empty() && plan.surplus.is_empty(),
        "{plan:?}"
    );
    assert!(!plan.release, "it is not being deleted");
}

/// The server is decommissioned and empty, its status says so, and a hub has just started: it has heard nobody.
fn decommissioned_before_the_start() -> Given {
    let mut given = healthy();
    given.server.spec.decommission = true;
    given.observed.routes.clear();
    for name in ["east", "west"] {
        given.cluster(name).gone = true;
    }
    given.apply();
    assert_eq!(given.plan().status.state, ServerState::Decommissioned);
    given.server.status = Some(given.plan().status);
    for name in ["east", "west"] {
        *given.cluster(name) = away();
    }
    given
}

#[test]
fn a_decommissioned_server_stays_so_over_a_restart_of_the_hub() {
    let mut given = decommissioned_before_the_start();
    let before = given.server.status.clone().unwrap();
    assert_eq!(given.plan().status, before);
    // It is heard, and has not confirmed again yet.
    given.cluster("east").reporting = true;
    assert_eq!(given.plan().status, before);
    given.cluster("east").gone = true;
    assert_eq!(given.plan().status, before);
}

#[test]
fn a_decommissioned_server_of_which_a_member_still_reports_something_is_not_empty() {
    let mut given = decommissioned_before_the_start();
    *given.cluster("east") = serving("203.0.113.1");
    let status = given.plan().status;
    assert_eq!(condition(&status, "Ready"), "False Decommissioning");
}

#[test]
fn another_specification_and_a_deletion_ask_the_members_of_a_decommissioned_server_again() {
    let mut given = decommissioned_before_the_start();
    given.server.metadata.generation = Some(4);
    let status = given.plan().status;
    assert_eq!(condition(&status, "Ready"), "False Decommissioning");

    let mut given = decommissioned_before_the_start();
    given.server.metadata.deletion_timestamp = Some(Time(given.now));
    assert!(!given.plan().release);
}

#[test]
fn the_service_of_a_decommissioned_server_stays_until_its_members_are_empty() {
    let mut given = healthy();
    given.server.spec.decommission = true;
    given.cluster("east").gone = true;
    assert_eq!(given.plan().services.len(), 1);
    given.cluster("west").gone = true;
    given.observed.routes.clear();
    let plan = given.plan();
    assert!(plan.services.is_empty());
    assert!(
        plan.retired
            .surplus
            .iter()
            .any(|surplus| surplus.name == "llama-endpoints")
    );
}

#[test]
fn a_decommission_that_is_undone_is_as_if_it_had_never_been() {
    let mut given = healthy();
    let before = given.plan();
    given.server.spec.decommission = true;
    given.apply();
    given.server.spec.decommission = false;
    let after = given.plan();
    assert_eq!(after.services, before.services);
    assert_eq!(after.slices, before.slices);
    assert_eq!(after.routes, before.routes);
}

#[test]
fn a_member_that_is_away_is_named_while_a_server_is_decommissioned() {
    let mut given = healthy();
    given.server.spec.decommission = true;
    given.server.spec.deletion_policy = DeletionPolicy::Orphan;
    given.cluster("east").gone = true;
    *given.cluster("west") = away();
    let status = given.plan().status;
    assert_eq!(condition(&status, "Ready"), "False Decommissioning");
    let west = &status.clusters[0];
    assert_eq!(
        (west.cluster_id.as_str(), west.state, west.reason.as_str()),
        ("west", ClusterState::Removing, "ClusterNotConnected")
    );
}

#[test]
fn a_cluster_whose_record_is_being_deleted_is_out_of_the_traffic_and_says_so() {
    let mut given = healthy();
    given.cluster("west").membership = Membership::Leaving;
    let plan = given.plan();
    assert_eq!(endpoints(&plan), ["east 203.0.113.1 ready"]);
    assert_eq!(
        condition(&plan.status, "BackendProvision"),
        "False ClusterLeaving"
    );
    assert_eq!(condition(&plan.status, "Available"), "True Serving");
}

#[test]
fn a_cluster_that_leaves_is_waited_for_by_a_server_that_is_deleted() {
    let mut given = deleting(DeletionPolicy::Delete);
    given.cluster("east").gone = true;
    given.cluster("west").membership = Membership::Leaving;
    assert!(!given.plan().release);
    given.cluster("west").gone = true;
    let plan = given.plan();
    assert!(plan.release);
    assert_eq!(plan.unconfirmed, []);
}
