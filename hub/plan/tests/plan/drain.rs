//! What goes, drains first.

use std::collections::BTreeMap;

use crds::{
    ClusterName,
    v1alpha1::{ClusterState, DeletionPolicy, Published},
};
use hub_plan::{
    drain::{draining, leading_route},
    facts::{ClusterFacts, EndpointFacts, Membership},
    placements::{Intent, Site, placements},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::SignedDuration};

use crate::{
    given::{Given, cluster, condition, healthy, profiles},
    shown::{due, endpoints},
};

/// East and west serve, and what goes drains for half a minute.
pub(crate) fn given() -> Given {
    let mut given = healthy();
    given.server.spec.endpoints.drain_seconds = 30;
    given.apply();
    given
}

impl Given {
    pub(crate) fn later(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    fn leaving(&self) -> BTreeMap<ClusterName, DeletionPolicy> {
        let leaving =
            |(_, facts): &(&ClusterName, &ClusterFacts)| facts.membership == Membership::Leaving;
        let of = self.clusters.iter().filter(leaving);
        of.map(|(name, _)| (name.clone(), DeletionPolicy::Orphan))
            .collect()
    }

    /// What `west` is to hold.
    pub(crate) fn intent(&self) -> Intent {
        let holders = [cluster("east"), cluster("west")].into();
        let sites = ["east", "west"].map(|name| (cluster(name), Site::default()));
        let mut planned = placements(&self.server, &profiles(), &sites.into(), &holders);
        planned.leave(&self.leaving());
        planned.hold(
            &draining(
                &self.server,
                &self.facts().published,
                &self.leaving(),
                self.now,
            ),
            leading_route(&self.server, &self.observed.routes, self.gateway_api),
        );
        planned.intents[&cluster("west")].clone()
    }
}

#[test]
fn a_removed_target_drains_then_goes() {
    let mut given = given();
    given.server.spec.cluster_targets.pop();
    let plan = given.plan();
    assert_eq!(
        endpoints(&plan),
        ["east 203.0.113.1 ready", "west 203.0.113.2 draining"]
    );
    assert_eq!(due(&plan, given.now), Some(30));
    let west = &plan.status.clusters[0];
    assert_eq!(
        (west.cluster_id.as_str(), west.state),
        ("west", ClusterState::Draining)
    );
    assert_eq!(
        west.endpoint.as_ref().unwrap().published,
        Some(Published::Draining)
    );
    assert_eq!(condition(&plan.status, "Ready"), "True Serving");
    given.apply();
    given.later(29);
    assert_eq!(endpoints(&given.plan()).len(), 2);
    given.later(1);
    let plan = given.plan();
    assert_eq!(endpoints(&plan), ["east 203.0.113.1 ready"]);
    assert_eq!(plan.surplus.len(), 1);
    assert_eq!(plan.status.clusters[0].state, ClusterState::Removing);
}

#[test]
fn what_a_removed_target_runs_stays_until_it_has_drained() {
    let mut given = given();
    given.server.spec.cluster_targets.pop();
    assert_eq!(given.intent(), Intent::Keep);
    given.apply();
    given.later(29);
    assert_eq!(given.intent(), Intent::Keep);
    given.later(1);
    assert_eq!(given.intent(), Intent::Remove);
    given.apply();
    assert_eq!(given.intent(), Intent::Remove);
}

#[test]
fn a_restart_of_the_hub_does_not_begin_a_drain_anew() {
    let mut given = given();
    given.server.spec.cluster_targets.pop();
    given.apply();
    given.later(20);
    let silent = ClusterFacts {
        membership: Membership::Joined,
        silent_since: Some(given.now),
        ..ClusterFacts::default()
    };
    *given.cluster("west") = silent;
    assert_eq!(due(&given.plan(), given.now), Some(10));
}

#[test]
fn a_cluster_that_did_not_serve_has_nothing_to_drain() {
    let mut given = given();
    given.placement("west").replicas.ready = 0;
    given.apply();
    given.server.spec.cluster_targets.pop();
    assert_eq!(given.intent(), Intent::Remove);
    assert_eq!(endpoints(&given.plan()), ["east 203.0.113.1 ready"]);
}

#[test]
fn a_target_that_comes_back_takes_traffic_again() {
    let mut given = given();
    let targets = given.server.spec.cluster_targets.clone();
    given.server.spec.cluster_targets.pop();
    given.apply();
    given.later(5);
    given.server.spec.cluster_targets = targets;
    given.apply();
    let plan = given.plan();
    assert_eq!(
        endpoints(&plan),
        ["east 203.0.113.1 ready", "west 203.0.113.2 ready"]
    );
    assert_eq!(plan.slices[1].metadata.annotations, None);
    assert_eq!(due(&plan, given.now), None);
}

#[test]
fn a_deleted_server_loses_its_route_drains_and_keeps_its_slices_to_the_end() {
    let mut given = given();
    given.server.metadata.deletion_timestamp = Some(Time(given.now));
    let plan = given.plan();
    assert!(plan.routes.is_empty());
    assert_eq!(plan.surplus.len(), 1, "the route: {:?}", plan.surplus);
    given.observed.routes.clear();
    let plan = given.plan();
    assert_eq!(
        endpoints(&plan),
        ["east 203.0.113.1 draining", "west 203.0.113.2 draining"]
    );
    assert!(!plan.release);
    given.apply();
    for name in ["east", "west"] {
        given.cluster(name).gone = true;
    }
    assert!(!given.plan().release, "it drains still");
    given.later(30);
    let plan = given.plan();
    assert!(plan.release);
    let going = (plan.surplus.len(), plan.retired.surplus.len());
    assert_eq!(going, (2, 1), "two slices and their Service go last");
    assert_eq!(condition(&plan.status, "Cleanup"), "Unknown Removing");
    assert_eq!(condition(&plan.status, "RouteCleanup"), "True Removed");
    given.apply();
    assert_eq!(condition(&given.plan().status, "Cleanup"), "True Removed");
}

#[test]
fn the_members_of_a_deleted_server_are_told_when_it_has_drained() {
    let mut given = given();
    given.server.metadata.deletion_timestamp = Some(Time(given.now));
    given.observed.routes.clear();
    assert_eq!(given.intent(), Intent::Keep);
    given.apply();
    given.later(30);
    assert_eq!(given.intent(), Intent::Remove);
}

#[test]
fn a_server_that_leaves_its_parts_drains_before_they_are_let_go() {
    let mut given = given();
    given.server.spec.deletion_policy = DeletionPolicy::Orphan;
    given.server.metadata.deletion_timestamp = Some(Time(given.now));
    given.observed.routes.clear();
    assert_eq!(given.intent(), Intent::Keep);
    given.apply();
    given.later(30);
    assert_eq!(given.intent(), Intent::Orphan);
}

#[test]
fn a_decommissioned_server_drains_and_is_removed_whatever_its_deletion_policy() {
    let mut given = given();
    given.server.spec.deletion_policy = DeletionPolicy::Orphan;
    given.server.spec.decommission = true;
    given.observed.routes.clear();
    assert_eq!(given.intent(), Intent::Keep);
    given.apply();
    given.later(30);
    assert_eq!(given.intent(), Intent::Remove);
}

#[test]
fn a_cluster_that_leaves_drains_and_goes_by_its_own_policy() {
    let mut given = given();
    given.cluster("west").membership = Membership::Leaving;
    assert_eq!(given.intent(), Intent::Keep);
    given.apply();
    given.later(30);
    assert_eq!(given.intent(), Intent::Orphan);
}

#[test]
fn a_removed_target_is_removed_whatever_the_deletion_policy() {
    let mut given = given();
    given.server.spec.deletion_policy = DeletionPolicy::Orphan;
    given.server.spec.cluster_targets.pop();
    given.apply();
    given.later(30);
    assert_eq!(given.intent(), Intent::Remove);
}

#[test]
fn a_gateway_that_goes_leaves_a_drain_and_its_reason() {
    let mut given = given();
    given.cluster("west").endpoint = Some(EndpointFacts {
        reason: "GatewayNotFound".to_owned(),
        message: "Gateway infra/public does not exist".to_owned(),
        ..EndpointFacts::default()
    });
    let plan = given.plan();
    assert_eq!(
        endpoints(&plan),
        ["east 203.0.113.1 ready", "west 203.0.113.2 draining"]
    );
    assert_eq!(
        condition(&plan.status, "EndpointPublish"),
        "False GatewayNotFound"
    );
    given.apply();
    given.later(30);
    assert_eq!(endpoints(&given.plan()), ["east 203.0.113.1 ready"]);
}

#[test]
fn a_drain_goes_on_while_its_cluster_can_not_be_heard() {
    let mut given = given();
    given.cluster("west").endpoint = Some(EndpointFacts {
        reason: "GatewayNotFound".to_owned(),
        ..EndpointFacts::default()
    });
    given.apply();
    let silent = ClusterFacts {
        membership: Membership::Joined,
        silent_since: Some(given.now),
        ..ClusterFacts::default()
    };
    *given.cluster("west") = silent;
    given.later(10);
    assert_eq!(
        endpoints(&given.plan()),
        ["east 203.0.113.1 ready", "west 203.0.113.2 draining"]
    );
    given.later(20);
    assert_eq!(endpoints(&given.plan()), ["east 203.0.113.1 ready"]);
}

#[test]
fn a_cluster_whose_record_is_gone_drains() {
    let mut given = given();
    *given.cluster("west") = ClusterFacts::default();
    let plan = given.plan();
    assert_eq!(
        endpoints(&plan),
        ["east 203.0.113.1 ready", "west 203.0.113.2 draining"]
    );
    assert_eq!(
        condition(&plan.status, "BackendProvision"),
        "False ClusterNotFound"
    );
}

#[test]
fn a_draining_cluster_shares_no_traffic_by_weight() {
    let mut given = given();
    given.server.spec.cluster_targets[0].weight = 3;
    given.apply();
    assert_eq!(given.plan().services.len(), 3, "two classes");
    given.server.spec.cluster_targets.pop();
    let plan = given.plan();
    assert_eq!(plan.services.len(), 2, "one class is left, and what drains");
    let backends = plan.routes[0].spec.rules.as_ref().unwrap()[0]
        .backend_refs
        .as_ref();
    assert_eq!(backends.unwrap().len(), 1);
    assert_eq!(
        endpoints(&plan),
        ["east 203.0.113.1 ready", "west 203.0.113.2 draining"]
    );
}

#[test]
fn a_cluster_that_drains_stays_in_the_class_that_it_is_in() {
    let mut given = given();
    given.add_south(3);
    given.apply();
    given.server.spec.cluster_targets.pop();
    let slices = given.plan().slices;
    let of_west: Vec<_> = slices
        .iter()
        .filter_map(|slice| slice.metadata.name.as_deref())
        .filter(|name| name.contains("west"))
        .collect();
    assert_eq!(
        of_west,
        [
            "llama-endpoints-west-ipv4-0",
            "llama-endpoints-w1.west-ipv4-0"
        ]
    );
}
