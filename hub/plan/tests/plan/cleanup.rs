//! What is published of a server that goes: until when it stays, and that it is waited for.

use std::collections::BTreeMap;

use hub_plan::facts::Observed;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    deletion::deleting,
    given::{condition, healthy},
    shown::endpoints,
};

#[test]
fn what_never_served_goes_no_sooner_than_what_drains() {
    let mut given = healthy();
    given.placement("west").replicas.ready = 0;
    given.apply();
    given.server.metadata.deletion_timestamp = Some(Time(given.now));
    given.observed.routes.clear();
    let expected = ["east 203.0.113.1 draining", "west 203.0.113.2 down"];
    assert_eq!(endpoints(&given.plan()), expected);
}

#[test]
fn it_is_cleaned_up_when_neither_a_service_nor_a_slice_is_left() {
    let mut given = deleting();
    for name in ["east", "west"] {
        given.cluster(name).gone = true;
    }
    given.observed.routes.clear();
    let all = given.observed.clone();
    let mut cleanup = |services, slices| {
        given.observed.services = if services {
            all.services.clone()
        } else {
            vec![]
        };
        given.observed.slices = if slices { all.slices.clone() } else { vec![] };
        condition(&given.plan().status, "Cleanup")
    };
    for (services, slices) in [(true, true), (true, false), (false, true)] {
        assert_eq!(cleanup(services, slices), "Unknown Removing");
    }
    assert_eq!(cleanup(false, false), "True Removed");
}

#[test]
fn what_a_publisher_elsewhere_still_has_of_it_is_waited_for() {
    let mut given = deleting();
    for name in ["east", "west"] {
        given.cluster(name).gone = true;
    }
    let published = given.facts().published;
    given.observed = Observed::default();
    for (published, expected) in [(published, "Removing"), (BTreeMap::new(), "Removed")] {
        let mut facts = given.facts();
        facts.published = published;
        let steps = hub_plan::plan(&facts, given.now).steps;
        let cleanup = steps.iter().find(|step| step.kind == "Cleanup");
        assert_eq!(cleanup.unwrap().reason, expected);
    }
}
