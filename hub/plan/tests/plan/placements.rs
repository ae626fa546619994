//! What each member cluster is to hold.

use std::collections::{BTreeMap, BTreeSet};

use crds::v1alpha1::GatewayReference;
use hub_plan::placements::{Intent, placements};

use crate::given::{cluster, profile, server};

fn gateways(names: &[&str]) -> BTreeMap<crds::ClusterName, Option<GatewayReference>> {
    names.iter().map(|name| (cluster(name), None)).collect()
}

#[test]
fn clusters_that_are_to_hold_the_same_share_one_placement() {
    let mut gateways = gateways(&["east", "west"]);
    let server = server(&[("east", 1), ("west", 5)]);
    let planned = placements(&server, Some(&profile()), &gateways, &BTreeSet::new());
    assert_eq!(planned.specs.len(), 1);
    assert_eq!(
        planned.intents[&cluster("east")],
        planned.intents[&cluster("west")]
    );

    let own = GatewayReference {
        namespace: "n".to_owned(),
        name: "g".to_owned(),
        listener: None,
    };
    gateways.insert(cluster("west"), Some(own.clone()));
    let planned = placements(&server, Some(&profile()), &gateways, &BTreeSet::new());
    assert_eq!(planned.specs.len(), 2);
    let Intent::Run(index) = planned.intents[&cluster("west")] else {
        panic!("west is to run")
    };
    assert_eq!(planned.specs[index].gateway, Some(own));
}

#[test]
fn a_placement_is_the_server_with_its_profile_inside() {
    let planned = placements(
        &server(&[("east", 1)]),
        Some(&profile()),
        &gateways(&["east"]),
        &BTreeSet::new(),
    );
    let spec = &planned.specs[0];
    assert_eq!((spec.replicas, spec.runtime.profile.as_str()), (2, "echo"));
    assert_eq!(spec.runtime.content, profile().spec);
    assert_eq!(spec.model.as_ref().unwrap().uri, "hf://org/llama");
}

#[test]
fn a_missing_profile_takes_nothing_down() {
    let planned = placements(
        &server(&[("east", 1)]),
        None,
        &gateways(&["east"]),
        &BTreeSet::new(),
    );
    assert_eq!(planned.intents[&cluster("east")], Intent::Keep);
}

#[test]
fn a_target_without_a_member_cluster_is_told_nothing() {
    let planned = placements(
        &server(&[("east", 1)]),
        Some(&profile()),
        &gateways(&[]),
        &BTreeSet::new(),
    );
    assert!(planned.intents.is_empty());
}

#[test]
fn a_holder_that_is_no_target_any_more_is_to_hold_nothing() {
    let holders = BTreeSet::from([cluster("west")]);
    let planned = placements(
        &server(&[("east", 1)]),
        Some(&profile()),
        &gateways(&["east", "west"]),
        &holders,
    );
    assert_eq!(planned.intents[&cluster("west")], Intent::Remove);
    assert!(matches!(planned.intents[&cluster("east")], Intent::Run(_)));
}

#[test]
fn a_server_under_deletion_is_to_be_held_nowhere() {
    let mut server = server(&[("east", 1), ("west", 1)]);
    server.metadata.deletion_timestamp = Some(
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(crate::given::now()),
    );
    for profile in [Some(profile()), None] {
        let planned = placements(
            &server,
            profile.as_ref(),
            &gateways(&["east", "west"]),
            &BTreeSet::new(),
        );
        assert!(
            planned
                .intents
                .values()
                .all(|intent| *intent == Intent::Remove)
        );
    }
}
