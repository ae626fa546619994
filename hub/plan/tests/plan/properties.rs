//! What holds of every plan, whatever the clusters are and say.

use std::{collections::BTreeSet, ops::RangeInclusive};

use hub_plan::memory::published;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;

use crate::given::{Given, Planned, cluster, healthy, server, serving, silent};

/// One cluster: its weight, its addresses, its ready replicas; whether its route is accepted and whether it is heard.
type One = (u32, usize, u32, bool, bool);

/// Up to eleven clusters, planned once while they were heard.
fn worlds() -> impl Strategy<Value = Given> {
    worlds_of(0..=4, 0..=3)
}

/// The same, of such weights and so many addresses.
fn worlds_of(
    weights: RangeInclusive<u32>,
    addresses: RangeInclusive<usize>,
) -> impl Strategy<Value = Given> {
    let one = (weights, addresses, 0..=2u32, any::<bool>(), any::<bool>());
    proptest::collection::vec(one, 1..12).prop_map(|clusters| world(&clusters))
}

fn world(clusters: &[One]) -> Given {
    let mut given = healthy();
    let names: Vec<_> = (0..clusters.len())
        .map(|number| format!("c{number}"))
        .collect();
    let weights = clusters.iter().map(|(weight, ..)| *weight);
    let targets: Vec<_> = names.iter().map(String::as_str).zip(weights).collect();
    given.server = server(&targets);
    given.clusters.clear();
    for (name, (_, addresses, ..)) in names.iter().zip(clusters) {
        let mut facts = serving("203.0.113.1");
        let endpoint = facts.endpoint.as_mut().unwrap();
        endpoint.addresses = (0..*addresses)
            .map(|number| format!("10.0.0.{number}"))
            .collect();
        given.clusters.insert(cluster(name), facts);
    }
    // Whoever has an address has served once: an endpoint that never led anywhere is not published.
    given.apply();
    for (name, (_, _, ready, accepted, _)) in names.iter().zip(clusters) {
        let placement = given.placement(name);
        (placement.replicas.ready, placement.route_accepted) = (*ready, *accepted);
    }
    given.apply();
    for (name, (.., heard)) in names.iter().zip(clusters) {
        if !heard {
            *given.cluster(name) = silent();
        }
    }
    given
}

fn backends(plan: &Planned) -> Vec<(String, Option<i32>)> {
    let rules = plan
        .routes
        .iter()
        .flat_map(|route| route.spec.rules.iter().flatten());
    let backends = rules.flat_map(|rule| rule.backend_refs.iter().flatten());
    backends
        .map(|backend| (backend.name.clone(), backend.weight))
        .collect()
}

fn has_ready_endpoint(plan: &Planned, service: &str) -> bool {
    let of_service = |slice: &&EndpointSlice| {
        let labels = slice.metadata.labels.as_ref().unwrap();
        labels["kubernetes.io/service-name"] == service
    };
    let endpoints = plan
        .slices
        .iter()
        .filter(of_service)
        .flat_map(|slice| &slice.endpoints);
    let mut conditions = endpoints.filter_map(|endpoint| endpoint.conditions.as_ref());
    conditions.any(|conditions| conditions.ready == Some(true))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_plan_of_what_is_already_so_changes_nothing(mut given in worlds()) {
        given.apply();
        let plan = given.plan();
        prop_assert_eq!(&plan.surplus, &[]);
        prop_assert_eq!(Some(&plan.status), given.server.status.as_ref());
        let there: Vec<_> = given.observed.slices.iter().map(|slice| slice.as_ref().clone()).collect();
        prop_assert_eq!(plan.slices, there);
        let there: Vec<_> = given.observed.services.iter().map(|service| service.as_ref().clone()).collect();
        prop_assert_eq!(plan.services, there);
        let there: Vec<_> = given.observed.routes.iter().map(|route| route.spec.clone()).collect();
        let routes: Vec<_> = plan.routes.into_iter().map(|route| route.spec).collect();
        prop_assert_eq!(routes, there);
    }

    #[test]
    fn a_hub_that_has_heard_nobody_changes_no_discovery_object(mut given in worlds()) {
        given.apply();
        let before = given.plan();
        for facts in given.clusters.values_mut() {
            *facts = silent();
        }
        let after = given.plan();
        prop_assert_eq!(before.slices, after.slices);
        prop_assert_eq!(before.services, after.services);
        prop_assert_eq!(before.routes, after.routes);
        prop_assert_eq!(after.surplus, []);
    }

    #[test]
    fn a_route_names_only_services_of_its_plan(given in worlds()) {
        let plan = given.plan();
        let services: BTreeSet<_> = plan.services.iter().filter_map(|service| service.metadata.name.clone()).collect();
        for (name, _) in backends(&plan) {
            prop_assert!(services.contains(&name), "{}", name);
        }
    }

    #[test]
    fn no_traffic_is_weighed_to_where_nothing_is_ready(given in worlds()) {
        let plan = given.plan();
        let backends = backends(&plan);
        let shared = backends.len() > 1;
        for (service, weight) in backends {
            let weighs = weight.is_some_and(|weight| weight > 0);
            prop_assert_eq!(weighs, shared && has_ready_endpoint(&plan, &service), "{}", service);
            prop_assert!(!shared || weight.is_some(), "{}", service);
        }
    }

    /// There is nothing to share with, and a route that followed readiness would be written for nothing.
    #[test]
    fn one_class_has_no_weight_whether_it_is_ready_or_not(given in worlds_of(2..=2, 1..=1)) {
        let only = [("llama-endpoints".to_owned(), None)];
        prop_assert_eq!(backends(&given.plan()), only);
    }

    #[test]
    fn targets_without_weight_get_no_traffic(given in worlds_of(0..=0, 0..=3)) {
        let plan = given.plan();
        let only = [("llama-endpoints".to_owned(), Some(0))];
        prop_assert_eq!(backends(&plan), only);
        prop_assert!(!has_ready_endpoint(&plan, "llama-endpoints"));
    }

    #[test]
    fn what_the_slices_say_is_read_back_as_it_was_planned(given in worlds()) {
        let plan = given.plan();
        prop_assert_eq!(published(&plan.slices, "llama"), plan.endpoints);
    }

    #[test]
    fn no_two_slices_have_one_name(given in worlds()) {
        let plan = given.plan();
        let names: BTreeSet<_> = plan.slices.iter().map(|slice| &slice.metadata.name).collect();
        prop_assert_eq!(names.len(), plan.slices.len());
    }

    #[test]
    fn what_one_cluster_says_changes_no_slice_of_another(given in worlds(), other in worlds()) {
        let common = |given: &Given| -> Vec<EndpointSlice> {
            let plan = given.plan();
            let is_others = |slice: &EndpointSlice| {
                let labels = slice.metadata.labels.as_ref().unwrap();
                labels["kubernetes.io/service-name"] == "llama-endpoints" && labels["inferfleet.io/cluster"] != "c0"
            };
            plan.slices.into_iter().filter(is_others).collect()
        };
        let before = common(&given);
        let mut given = given;
        *given.cluster("c0") = other.clusters[&cluster("c0")].clone();
        prop_assert_eq!(common(&given), before);
    }

    #[test]
    fn the_order_of_what_is_observed_changes_nothing(mut given in worlds()) {
        let before = given.plan();
        given.observed.slices.reverse();
        given.observed.services.reverse();
        let mut after = given.plan();
        after.surplus.sort_by(|a, b| a.name.cmp(&b.name));
        let mut expected = before;
        expected.surplus.sort_by(|a, b| a.name.cmp(&b.name));
        prop_assert_eq!(after, expected);
    }
}
