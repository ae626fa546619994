//! What each member cluster is to hold.

use std::collections::{BTreeMap, BTreeSet};

use crds::v1alpha1::{GatewayReference, InferenceServer, Model, ModelPhase};
use hub_plan::{
    overrides::Profiles,
    placements::{Intent, Placements, Site, placements, targets},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::given::{Given, cluster, healthy, now, profile, profiles, server};

fn sites(names: &[&str]) -> BTreeMap<crds::ClusterName, Site> {
    let site = |name: &&str| (cluster(name), serves("hf://org/llama"));
    names.iter().map(site).collect()
}

#[test]
fn clusters_that_are_to_hold_the_same_share_one_placement() {
    let mut sites = sites(&["east", "west"]);
    let server = server(&[("east", 1), ("west", 5)]);
    let planned = placements(&server, &profiles(), &sites, &BTreeSet::new());
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
    sites.get_mut(&cluster("west")).unwrap().gateway = Some(own.clone());
    let planned = placements(&server, &profiles(), &sites, &BTreeSet::new());
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
        &profiles(),
        &sites(&["east"]),
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
        &Profiles::default(),
        &sites(&["east"]),
        &BTreeSet::new(),
    );
    assert_eq!(planned.intents[&cluster("east")], Intent::Keep);
}

#[test]
fn a_target_without_a_member_cluster_is_told_nothing() {
    let planned = placements(
        &server(&[("east", 1)]),
        &profiles(),
        &sites(&[]),
        &BTreeSet::new(),
    );
    assert!(planned.intents.is_empty());
}

#[test]
fn a_holder_that_is_no_target_any_more_is_to_hold_nothing() {
    let holders = BTreeSet::from([cluster("west")]);
    let planned = placements(
        &server(&[("east", 1)]),
        &profiles(),
        &sites(&["east", "west"]),
        &holders,
    );
    assert_eq!(planned.intents[&cluster("west")], Intent::Remove);
    assert!(matches!(planned.intents[&cluster("east")], Intent::Run(_)));
}

#[test]
fn a_server_under_deletion_is_to_be_held_nowhere() {
    let mut server = server(&[("east", 1), ("west", 1)]);
    server.metadata.deletion_timestamp = Some(Time(now()));
    for profiles in [profiles(), Profiles::default()] {
        let planned = placements(
            &server,
            &profiles,
            &sites(&["east", "west"]),
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

fn own(name: &str) -> GatewayReference {
    GatewayReference {
        namespace: "infra".to_owned(),
        name: name.to_owned(),
        listener: None,
    }
}

/// What is planned for east and west, which hold nothing yet.
fn planned(server: &InferenceServer) -> Placements {
    let sites = sites(&["east", "west"]);
    placements(server, &profiles(), &sites, &BTreeSet::new())
}

#[test]
fn a_placement_has_the_model_of_its_cluster_and_the_servers_resources() {
    let mut server = server(&[("east", 1)]);
    let resources = json!({"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}});
    server.spec.resources = serde_json::from_value(resources).unwrap();
    let spec = planned(&server).specs.remove(0);
    assert_eq!(spec.resources, server.spec.resources);
    assert_eq!(spec.model, serves("hf://org/llama").model);
}

/// A cluster that serves this model.
fn serves(uri: &str) -> Site {
    Site {
        model: Some(Model {
            uri: uri.to_owned(),
            name: None,
            deployment: None,
            phase: ModelPhase::Serving,
        }),
        ..Site::default()
    }
}

/// A cluster by that Gateway.
fn at(gateway: GatewayReference) -> Site {
    Site {
        gateway: Some(gateway),
        ..Site::default()
    }
}

#[test]
fn clusters_of_one_model_share_a_placement() {
    let sites = BTreeMap::from([
        (cluster("a"), serves("s3://models/x")),
        (cluster("b"), serves("s3://models/y")),
        (cluster("c"), serves("s3://models/x")),
    ]);
    let server = server(&[("a", 1), ("b", 1), ("c", 1)]);
    let planned = placements(&server, &profiles(), &sites, &BTreeSet::new());
    let intents: Vec<_> = planned.intents.into_values().collect();
    assert_eq!(intents, [Intent::Run(0), Intent::Run(1), Intent::Run(0)]);
    assert_eq!(planned.specs[1].model, serves("s3://models/y").model);
}

#[test]
fn a_cluster_whose_model_can_not_be_said_keeps_what_it_has() {
    let mut sites = sites(&["east", "west"]);
    sites.get_mut(&cluster("west")).unwrap().withheld = true;
    let server = server(&[("east", 1), ("west", 1)]);
    let planned = placements(&server, &profiles(), &sites, &BTreeSet::new());
    assert_eq!(planned.intents[&cluster("east")], Intent::Run(0));
    assert_eq!(planned.intents[&cluster("west")], Intent::Keep);
}

#[test]
fn a_placement_names_the_gateway_of_its_member_cluster() {
    let sites = BTreeMap::from([
        (cluster("east"), at(own("public"))),
        (cluster("west"), Site::default()),
    ]);
    let server = server(&[("east", 1), ("west", 1)]);
    let planned = placements(&server, &profiles(), &sites, &BTreeSet::new());
    let found: Vec<_> = planned
        .specs
        .iter()
        .map(|spec| spec.gateway.clone())
        .collect();
    assert_eq!(found, [Some(own("public")), None]);
}

#[test]
fn clusters_of_one_gateway_share_a_placement_whoever_is_between_them() {
    let sites = BTreeMap::from([
        (cluster("a"), at(own("x"))),
        (cluster("b"), at(own("y"))),
        (cluster("c"), at(own("x"))),
    ]);
    let server = server(&[("a", 1), ("b", 1), ("c", 1)]);
    let planned = placements(&server, &profiles(), &sites, &BTreeSet::new());
    let intents: Vec<_> = planned.intents.into_values().collect();
    assert_eq!(intents, [Intent::Run(0), Intent::Run(1), Intent::Run(0)]);
    assert_eq!(planned.specs.len(), 2);
}

#[test]
fn another_weight_or_minimum_changes_no_placement() {
    let mut other = server(&[("east", 9), ("west", 0)]);
    other.spec.min_ready_clusters = 2;
    assert_eq!(
        planned(&other),
        planned(&server(&[("east", 1), ("west", 1)]))
    );
}

#[test]
fn the_order_of_targets_changes_no_placement() {
    assert_eq!(
        planned(&server(&[("west", 1), ("east", 1)])),
        planned(&server(&[("east", 1), ("west", 1)]))
    );
}

#[test]
fn a_server_in_a_refused_namespace_is_started_nowhere_and_taken_down_nowhere() {
    let mut server = server(&[("east", 1), ("west", 1)]);
    server.metadata.namespace = Some("cluster".to_owned());
    let planned = planned(&server);
    assert_eq!(planned.intents[&cluster("east")], Intent::Keep);
    assert_eq!(planned.intents[&cluster("west")], Intent::Keep);
    assert!(planned.specs.is_empty());
}

#[test]
fn a_former_target_goes_though_the_profile_is_missing() {
    let holders = BTreeSet::from([cluster("east"), cluster("west")]);
    let server = server(&[("east", 1)]);
    let planned = placements(
        &server,
        &Profiles::default(),
        &sites(&["east", "west"]),
        &holders,
    );
    assert_eq!(planned.intents[&cluster("east")], Intent::Keep);
    assert_eq!(planned.intents[&cluster("west")], Intent::Remove);
}

#[test]
fn a_target_that_holds_a_placement_already_is_to_run_it_on() {
    let holders = BTreeSet::from([cluster("east")]);
    let server = server(&[("east", 1)]);
    let planned = placements(&server, &profiles(), &sites(&["east"]), &holders);
    assert_eq!(planned.intents[&cluster("east")], Intent::Run(0));
}

#[test]
fn under_deletion_also_a_target_without_a_member_cluster_is_to_hold_nothing() {
    let mut server = server(&[("east", 1)]);
    server.metadata.deletion_timestamp = Some(Time(now()));
    let planned = placements(&server, &profiles(), &sites(&[]), &BTreeSet::new());
    assert_eq!(planned.intents[&cluster("east")], Intent::Remove);
}

#[test]
fn a_target_that_can_be_no_clusters_name_is_none() {
    let server = server(&[("East", 1), ("a.b", 1), ("east", 1), (&"x".repeat(64), 1)]);
    assert_eq!(targets(&server), BTreeSet::from([cluster("east")]));
}

#[test]
fn a_target_without_a_member_cluster_is_told_nothing_though_it_may_hold_a_placement() {
    let holders = BTreeSet::from([cluster("east")]);
    let server = server(&[("east", 1)]);
    let planned = placements(&server, &profiles(), &sites(&[]), &holders);
    assert!(planned.intents.is_empty());
}

#[test]
fn a_server_is_begun_once_anything_of_it_is_placed_or_published() {
    let begun = |change: fn(&mut Given)| {
        let mut given = healthy();
        let published = std::mem::take(&mut given.observed);
        given.server.status = None;
        for facts in given.clusters.values_mut() {
            facts.placement = None;
        }
        given.observed.routes = published.routes.clone();
        change(&mut given);
        let begun = hub_plan::plan(&given.facts(), now()).begun;
        given.observed.slices = published.slices;
        assert!(hub_plan::plan(&given.facts(), now()).begun, "published");
        begun
    };
    assert!(!begun(|_| {}), "a route alone leads nowhere");
    assert!(begun(|given| {
        given.cluster("west").placement = healthy().cluster("west").placement.clone();
    }));
    assert!(begun(
        |given| given.observed.services = healthy().observed.services
    ));
}
