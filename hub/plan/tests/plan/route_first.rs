//! On the way out the discovery route goes first: what it leads to waits for that.

use std::sync::Arc;

use crds::v1alpha1::DeletionPolicy;
use hub_plan::placements::Intent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    drain::given,
    given::{Given, condition},
    shown::endpoints,
};

/// What becomes of a server on its way out whose discovery route can't be deleted.
fn check_a_route_that_stays(mut given: Given, removal: &Intent) {
    let before = endpoints(&given.plan());
    given.later(600);
    assert_eq!(given.intent(), Intent::Keep);
    let plan = given.plan();
    assert_eq!(endpoints(&plan), before, "nothing drains");
    assert_eq!(condition(&plan.status, "RouteCleanup"), "Unknown Removing");
    let west = plan.status.clusters.last().unwrap();
    assert_eq!(
        west.message,
        "west keeps its part until HTTPRoute llama-discovery-0 is gone"
    );
    // Nor while it only waits for a finalizer of somebody else.
    let route = Arc::make_mut(&mut given.observed.routes[0]);
    route.metadata.deletion_timestamp = Some(Time(given.now));
    assert_eq!(given.intent(), Intent::Keep);
    assert_eq!(endpoints(&given.plan()), before);
    given.observed.routes.clear();
    let drains = ["east 203.0.113.1 draining", "west 203.0.113.2 draining"];
    assert_eq!(endpoints(&given.plan()), drains);
    given.apply();
    assert_eq!(given.intent(), Intent::Keep);
    given.later(30);
    assert_eq!(&given.intent(), removal);
}

#[test]
fn nothing_of_a_deleted_server_goes_or_drains_while_its_route_is_there() {
    let mut given = given();
    given.server.metadata.deletion_timestamp = Some(Time(given.now));
    check_a_route_that_stays(given, &Intent::Remove);
}

#[test]
fn nothing_of_a_server_that_leaves_its_parts_is_let_go_while_its_route_is_there() {
    let mut given = given();
    given.server.spec.deletion_policy = DeletionPolicy::Orphan;
    given.server.metadata.deletion_timestamp = Some(Time(given.now));
    check_a_route_that_stays(given, &Intent::Orphan);
}

#[test]
fn nothing_of_a_decommissioned_server_goes_or_drains_while_its_route_is_there() {
    let mut given = given();
    given.server.spec.decommission = true;
    check_a_route_that_stays(given, &Intent::Remove);
}

#[test]
fn what_never_served_stays_as_well_while_the_route_is_there() {
    let mut given = given();
    given.placement("west").replicas.ready = 0;
    given.apply();
    given.server.metadata.deletion_timestamp = Some(Time(given.now));
    assert_eq!(given.intent(), Intent::Keep);
    given.observed.routes.clear();
    assert_eq!(given.intent(), Intent::Remove);
}

#[test]
fn a_route_whose_kind_is_gone_holds_nothing() {
    let mut given = given();
    given.server.metadata.deletion_timestamp = Some(Time(given.now));
    given.gateway_api = false;
    assert_eq!(
        given.plan().slices[0].endpoints[0]
            .conditions
            .as_ref()
            .unwrap()
            .ready,
        Some(false)
    );
    given.later(600);
    given.placement("west").replicas.ready = 0;
    given.observed.slices.clear();
    assert_eq!(given.intent(), Intent::Remove);
    for facts in given.clusters.values_mut() {
        facts.placement = None;
        facts.gone = true;
    }
    let cleaned = condition(&given.plan().status, "RouteCleanup");
    assert_eq!(cleaned, "True Removed");
}

#[test]
fn what_drains_goes_on_with_that_whatever_route_comes() {
    let mut given = given();
    let routes = given.observed.routes.clone();
    given.server.spec.decommission = true;
    given.observed.routes.clear();
    given.apply();
    given.observed.routes = routes;
    let drains = ["east 203.0.113.1 draining", "west 203.0.113.2 draining"];
    assert_eq!(endpoints(&given.plan()), drains);
}

#[test]
fn a_removed_target_does_not_wait_for_the_route_that_others_need() {
    let mut given = given();
    given.server.spec.cluster_targets.pop();
    let drains = ["east 203.0.113.1 ready", "west 203.0.113.2 draining"];
    assert_eq!(endpoints(&given.plan()), drains);
    given.apply();
    assert_eq!(given.observed.routes.len(), 1);
    given.later(30);
    assert_eq!(given.intent(), Intent::Remove);
}
