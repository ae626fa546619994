//! Clusters that can't be heard: the table of the design, row by row.

use crds::v1alpha1::{ClusterState, WhenSilent};
use k8s_openapi::jiff::SignedDuration;

use crate::{
    given::{Given, cluster, condition, healthy, server, serving},
    shown::{due, endpoints},
};

pub(crate) const WELL: [&str; 2] = ["east 203.0.113.1 ready", "west 203.0.113.2 ready"];

pub(crate) fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

impl Given {
    /// The cluster falls silent now.
    pub(crate) fn hush(&mut self, name: &str) {
        let now = self.now;
        let cluster = self.cluster(name);
        cluster.reporting = false;
        (cluster.placement, cluster.endpoint) = (None, None);
        (cluster.silent_since, cluster.heard_since) = (Some(now), None);
        self.fleet.silent_since.push(now);
        self.fleet.silent_since.sort();
    }

    /// The cluster is heard from now on.
    pub(crate) fn back(&mut self, name: &str, address: &str) {
        let silent = self.cluster(name).silent_since;
        self.fleet
            .silent_since
            .retain(|since| Some(*since) != silent);
        *self.cluster(name) = serving(address);
        self.cluster(name).heard_since = Some(self.now);
    }

    /// Time passes, and what is planned then is applied.
    pub(crate) fn pass(&mut self, more: i64) {
        self.now += seconds(more);
        self.apply();
    }

    /// The hub starts anew: it has heard nobody.
    pub(crate) fn restart(&mut self) {
        for name in ["east", "west"] {
            self.hush(name);
        }
        let joined = self.fleet.joined;
        self.fleet.silent_since = vec![self.now; joined];
    }

    fn policy(&mut self, policy: WhenSilent) {
        self.server.spec.endpoints.when_silent = policy;
    }
}

/// East and west of a fleet of ten.
pub(crate) fn fleet() -> Given {
    let mut given = healthy();
    given.fleet.joined = 10;
    given
}

#[test]
fn within_the_grace_silence_changes_neither_slices_nor_status() {
    let mut given = fleet();
    let before = given.plan();
    given.hush("west");
    given.now += seconds(39);
    let after = given.plan();
    assert_eq!(after.slices, before.slices);
    assert_eq!(after.status, before.status);
    assert_eq!(
        due(&after, given.now),
        Some(1),
        "looked at when the grace ends"
    );
}

#[test]
fn past_the_grace_a_silent_cluster_takes_no_traffic() {
    let mut given = fleet();
    given.hush("west");
    given.pass(40);
    let plan = given.plan();
    assert_eq!(
        endpoints(&plan),
        ["east 203.0.113.1 ready", "west 203.0.113.2 down"]
    );
    assert_eq!(
        condition(&plan.status, "EndpointPublish"),
        "Unknown ClusterNotConnected"
    );
    let west = &plan.status.clusters[0];
    assert_eq!(
        (west.cluster_id.as_str(), west.state),
        ("west", ClusterState::Silent)
    );
    assert!(
        west.message.contains("1970-01-01T00:16:40Z"),
        "{}",
        west.message
    );
    assert_eq!(due(&plan, given.now), None);
}

#[test]
fn the_policy_keep_leaves_a_silent_cluster_in_the_traffic() {
    let mut given = fleet();
    given.policy(WhenSilent::Keep);
    given.hush("west");
    given.pass(100_000);
    assert_eq!(endpoints(&given.plan()), WELL);
}

#[test]
fn the_policy_drop_takes_a_silent_cluster_away_after_its_time() {
    let mut given = fleet();
    given.policy(WhenSilent::Drop);
    given.hush("west");
    given.pass(40);
    let plan = given.plan();
    assert_eq!(
        endpoints(&plan),
        ["east 203.0.113.1 ready", "west 203.0.113.2 down"]
    );
    assert_eq!(due(&plan, given.now), Some(560));
    given.pass(560);
    assert_eq!(endpoints(&given.plan()), ["east 203.0.113.1 ready"]);
}

#[test]
fn a_drop_that_is_earlier_than_the_grace_waits_for_the_grace() {
    let mut given = fleet();
    given.policy(WhenSilent::Drop);
    given.server.spec.endpoints.drop_after_seconds = 1;
    given.hush("west");
    given.pass(39);
    assert_eq!(endpoints(&given.plan()), WELL);
    given.pass(1);
    assert_eq!(endpoints(&given.plan()), ["east 203.0.113.1 ready"]);
}

#[test]
fn a_cluster_that_was_down_when_it_fell_silent_stays_down() {
    let mut given = fleet();
    given.placement("west").replicas.ready = 0;
    given.apply();
    given.hush("west");
    for more in [1, 40, 1_000] {
        given.pass(more);
        assert_eq!(
            endpoints(&given.plan()),
            ["east 203.0.113.1 ready", "west 203.0.113.2 down"]
        );
    }
}

#[test]
fn a_restart_of_the_hub_begins_the_grace_anew() {
    let mut given = fleet();
    given.hush("west");
    given.now += seconds(30);
    given.restart();
    given.back("east", "203.0.113.1");
    given.pass(39);
    assert_eq!(endpoints(&given.plan()), WELL);
    given.pass(1);
    assert_eq!(
        endpoints(&given.plan()),
        ["east 203.0.113.1 ready", "west 203.0.113.2 down"]
    );
}

#[test]
fn a_restart_of_the_hub_changes_nothing_of_a_lost_cluster() {
    let mut given = fleet();
    given.hush("west");
    given.pass(60);
    let before = given.plan().slices;
    given.restart();
    assert_eq!(given.plan().slices, before);
    given.back("east", "203.0.113.1");
    for more in [1, 100] {
        given.pass(more);
        assert_eq!(given.plan().slices, before);
    }
}

#[test]
fn silence_never_takes_the_last_cluster_that_serves() {
    let mut given = fleet();
    given.hush("west");
    given.pass(60);
    given.hush("east");
    given.pass(1_000);
    let plan = given.plan();
    assert_eq!(
        endpoints(&plan),
        ["east 203.0.113.1 ready", "west 203.0.113.2 down"],
        "east was heard last"
    );
    assert_eq!(condition(&plan.status, "Available"), "True Serving");
}

#[test]
fn drop_as_well_spares_the_last() {
    let mut given = fleet();
    given.policy(WhenSilent::Drop);
    given.hush("west");
    given.pass(60);
    given.hush("east");
    given.pass(10_000);
    assert_eq!(endpoints(&given.plan()), ["east 203.0.113.1 ready"]);
}

#[test]
fn clusters_that_fall_silent_in_one_moment_are_all_the_last() {
    let mut given = fleet();
    given.hush("west");
    given.hush("east");
    given.pass(60);
    assert_eq!(endpoints(&given.plan()), WELL);
}

#[test]
fn a_lost_cluster_takes_over_when_the_last_that_is_heard_goes_down() {
    let mut given = fleet();
    given.hush("west");
    given.pass(60);
    given.placement("east").replicas.ready = 0;
    given.apply();
    assert_eq!(
        endpoints(&given.plan()),
        ["east 203.0.113.1 down", "west 203.0.113.2 ready"]
    );
}

#[test]
fn a_cluster_of_no_weight_does_not_count_as_one_that_serves() {
    let mut given = fleet();
    given.server = server(&[("east", 0), ("west", 1)]);
    given.apply();
    given.hush("west");
    given.pass(60);
    assert_eq!(
        endpoints(&given.plan()),
        ["east 203.0.113.1 serving", "west 203.0.113.2 ready"]
    );
}

#[test]
fn a_cluster_that_admits_no_traffic_does_not_count_as_one_that_serves() {
    let mut given = fleet();
    let nowhere = given.cluster("east").endpoint.as_mut().unwrap();
    nowhere.addresses.clear();
    "GatewayNotFound".clone_into(&mut nowhere.reason);
    given.apply();
    given.hush("west");
    given.pass(60);
    assert_eq!(endpoints(&given.plan()), ["west 203.0.113.2 ready"]);
}

#[test]
fn a_cluster_that_was_lost_settles_before_it_takes_traffic_again() {
    let mut given = fleet();
    given.hush("west");
    given.pass(60);
    given.back("west", "203.0.113.2");
    let plan = given.plan();
    assert_eq!(endpoints(&plan)[1], "west 203.0.113.2 down");
    assert_eq!(
        condition(&plan.status, "EndpointPublish"),
        "Unknown Settling"
    );
    assert_eq!(due(&plan, given.now), Some(10));
    given.pass(10);
    assert_eq!(endpoints(&given.plan()), WELL);
    assert_eq!(condition(&given.plan().status, "Ready"), "True Serving");
}

#[test]
fn it_settles_also_while_its_agent_looks_for_its_gateway() {
    let mut given = fleet();
    given.hush("west");
    given.pass(60);
    given.back("west", "203.0.113.2");
    let looks_for_it = given.cluster("west").endpoint.as_mut().unwrap();
    looks_for_it.addresses.clear();
    "Applying".clone_into(&mut looks_for_it.reason);
    let plan = given.plan();
    assert_eq!(endpoints(&plan)[1], "west 203.0.113.2 down");
    assert_eq!(due(&plan, given.now), Some(10));
}

#[test]
fn a_cluster_that_comes_and_goes_takes_no_traffic() {
    let mut given = fleet();
    given.hush("west");
    given.pass(60);
    for _ in 0..5 {
        given.back("west", "203.0.113.2");
        given.pass(9);
        assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
        given.hush("west");
        given.pass(1);
        assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
    }
}

#[test]
fn a_cluster_that_was_silent_within_the_grace_has_not_to_settle() {
    let mut given = fleet();
    let before = given.plan().slices;
    given.hush("west");
    given.pass(39);
    given.back("west", "203.0.113.2");
    assert_eq!(given.plan().slices, before);
}

#[test]
fn a_cluster_that_is_back_has_not_to_settle_where_no_other_serves() {
    let mut given = fleet();
    given.hush("west");
    given.pass(60);
    given.placement("east").replicas.ready = 0;
    given.back("west", "203.0.113.2");
    assert_eq!(
        endpoints(&given.plan()),
        ["east 203.0.113.1 down", "west 203.0.113.2 ready"]
    );
}

#[test]
fn a_cluster_that_comes_back_with_another_address_has_it_published() {
    let mut given = fleet();
    given.hush("west");
    given.pass(60);
    given.back("west", "203.0.113.9");
    given.pass(10);
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.9 ready");
}

#[test]
fn one_silent_cluster_changes_nothing_of_another() {
    let mut given = fleet();
    let before = given.plan().slices[0].clone();
    given.hush("west");
    for more in [10, 60, 10_000] {
        given.pass(more);
        assert_eq!(given.plan().slices[0], before);
    }
    assert!(given.clusters.contains_key(&cluster("west")));
}

#[test]
fn what_was_made_unready_is_asked_by_the_back_off_alone_so_that_others_have_a_turn() {
    let mut given = fleet();
    given.server.spec.endpoints.probe = crds::v1alpha1::ProbePolicy::Warn;
    given.hush("west");
    given.pass(40);
    let retry = |given: &Given| given.plan().probes[&cluster("west")].retry_seconds;
    assert_eq!(retry(&given), Some(40), "it is waited for");
    given.pass(40);
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
    assert_eq!(retry(&given), None);
}
