//! The discovery objects: what each field is for, and what changes none of them.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::discovery::v1::EndpointSlice, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use proptest::prelude::*;
use serde_json::json;

use crate::given::{Given, Planned, cluster, condition, healthy, server, serving};

fn metadata(plan: &Planned) -> Vec<&ObjectMeta> {
    let services = plan.services.iter().map(|service| &service.metadata);
    let slices = plan.slices.iter().map(|slice| &slice.metadata);
    let routes = plan.routes.iter().map(|route| &route.metadata);
    services.chain(slices).chain(routes).collect()
}

fn label<'a>(slice: &'a EndpointSlice, name: &str) -> &'a str {
    &slice.metadata.labels.as_ref().unwrap()[name]
}

/// Clusters of two weights, so that there is a Service for each.
fn weighted() -> Given {
    let mut given = healthy();
    given.server = server(&[("east", 3), ("west", 1)]);
    given
}

fn services(plan: &Planned) -> Vec<&str> {
    let names = plan
        .services
        .iter()
        .map(|service| service.metadata.name.as_deref());
    names.map(Option::unwrap).collect()
}

/// What west reports.
fn at(addresses: Vec<String>) -> Given {
    let mut given = healthy();
    given.cluster("west").endpoint.as_mut().unwrap().addresses = addresses;
    given
}

fn ipv4(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("10.0.{}.{}", number / 256, number % 256))
        .collect()
}

/// The slices of west under the common Service.
fn of_west(given: &Given) -> Vec<EndpointSlice> {
    let common = |slice: &EndpointSlice| {
        label(slice, "kubernetes.io/service-name") == "llama-endpoints"
            && label(slice, "inferfleet.io/cluster") == "west"
    };
    given.plan().slices.into_iter().filter(common).collect()
}

#[test]
fn every_discovery_service_has_one_port_and_selects_no_pod_of_the_hub() {
    for service in weighted().plan().services {
        assert_eq!(
            serde_json::to_value(service.spec).unwrap(),
            json!({
                "type": "ClusterIP",
                "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
            })
        );
    }
}

#[test]
fn every_discovery_object_goes_with_its_server() {
    for metadata in metadata(&weighted().plan()) {
        assert_eq!(
            serde_json::to_value(&metadata.owner_references).unwrap(),
            json!([{
                "apiVersion": "inferfleet.io/v1alpha1", "kind": "InferenceServer", "name": "llama", "uid": "uid-1",
                "controller": true, "blockOwnerDeletion": true,
            }])
        );
    }
}

#[test]
fn every_discovery_object_is_in_its_servers_namespace() {
    for metadata in metadata(&weighted().plan()) {
        assert_eq!(metadata.namespace.as_deref(), Some("team"));
    }
}

#[test]
fn every_discovery_object_says_who_keeps_it_and_for_which_server() {
    for metadata in metadata(&weighted().plan()) {
        let labels = metadata.labels.as_ref().unwrap();
        assert_eq!(labels["app.kubernetes.io/managed-by"], "inferfleet-hub");
        assert_eq!(labels["inferfleet.io/server"], "llama");
    }
}

#[test]
fn every_slice_says_of_which_service_and_cluster_it_is() {
    let plan = weighted().plan();
    let of: Vec<_> = plan
        .slices
        .iter()
        .map(|slice| {
            let cluster = label(slice, "inferfleet.io/cluster");
            assert_eq!(
                label(slice, "multicluster.kubernetes.io/source-cluster"),
                cluster
            );
            (label(slice, "kubernetes.io/service-name"), cluster)
        })
        .collect();
    assert_eq!(
        of,
        [
            ("llama-endpoints", "east"),
            ("llama-endpoints", "west"),
            ("llama-endpoints-w1", "west"),
            ("llama-endpoints-w3", "east"),
        ]
    );
}

#[test]
fn kubernetes_own_controller_leaves_every_slice_alone() {
    for slice in weighted().plan().slices {
        assert_eq!(
            label(&slice, "endpointslice.kubernetes.io/managed-by"),
            "inferfleet.io"
        );
    }
}

#[test]
fn a_slices_port_is_the_members_under_the_name_of_the_services() {
    let mut given = healthy();
    given.cluster("west").endpoint.as_mut().unwrap().port = 8080;
    let plan = given.plan();
    assert_eq!(
        serde_json::to_value(&plan.slices[1].ports).unwrap(),
        json!([{"name": "http", "port": 8080, "protocol": "TCP"}])
    );
    let service = plan.services[0].spec.as_ref().unwrap();
    assert_eq!(
        service.ports.as_ref().unwrap()[0].name.as_deref(),
        Some("http")
    );
}

#[test]
fn each_address_is_an_endpoint_that_is_not_terminating() {
    let slice = of_west(&at(ipv4(2))).remove(0);
    assert_eq!(
        serde_json::to_value(&slice.endpoints).unwrap(),
        json!([
            {"addresses": ["10.0.0.0"], "conditions": {"ready": true, "serving": true, "terminating": false}},
            {"addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false}},
        ])
    );
}

#[test]
fn a_slice_holds_addresses_of_the_one_family_that_it_says() {
    let slices = of_west(&at(vec![
        "2001:db8::1".to_owned(),
        "203.0.113.2".to_owned(),
    ]));
    let families: Vec<_> = slices
        .iter()
        .map(|slice| {
            (
                slice.address_type.as_str(),
                slice.endpoints[0].addresses[0].as_str(),
            )
        })
        .collect();
    assert_eq!(families, [("IPv4", "203.0.113.2"), ("IPv6", "2001:db8::1")]);
}

#[test]
fn a_slice_takes_a_hundred_addresses_and_no_more() {
    for (addresses, sizes) in [
        (1, vec![1]),
        (100, vec![100]),
        (101, vec![100, 1]),
        (200, vec![100, 100]),
        (201, vec![100, 100, 1]),
    ] {
        let slices = of_west(&at(ipv4(addresses)));
        let found: Vec<_> = slices.iter().map(|slice| slice.endpoints.len()).collect();
        assert_eq!(found, sizes);
    }
}

#[test]
fn each_family_is_counted_for_itself() {
    let mut addresses = ipv4(100);
    addresses.push("2001:db8::1".to_owned());
    let slices = of_west(&at(addresses));
    let names: Vec<_> = slices
        .iter()
        .map(|slice| slice.metadata.name.as_deref().unwrap())
        .collect();
    assert_eq!(
        names,
        ["llama-endpoints-west-ipv4-0", "llama-endpoints-west-ipv6-0"]
    );
}

#[test]
fn an_address_that_is_reported_twice_is_published_once() {
    let address = "203.0.113.2".to_owned();
    let given = at(vec![address.clone(), address]);
    assert_eq!(of_west(&given), of_west(&healthy()));
}

#[test]
fn a_server_of_which_no_cluster_is_known_has_its_service_and_no_slice() {
    let mut given = healthy();
    given.clusters.clear();
    let plan = given.plan();
    assert_eq!(services(&plan), ["llama-endpoints"]);
    assert!(plan.slices.is_empty());
}

#[test]
fn a_second_family_of_addresses_takes_no_second_share() {
    let given = at(vec!["203.0.113.2".to_owned(), "2001:db8::1".to_owned()]);
    assert_eq!(services(&given.plan()), ["llama-endpoints"]);
}

#[test]
fn a_cluster_of_equal_weight_and_more_addresses_is_of_a_class_of_its_own() {
    for addresses in [
        ["203.0.113.2", "203.0.113.3", "2001:db8::1"],
        ["203.0.113.2", "2001:db8::1", "2001:db8::2"],
    ] {
        let given = at(addresses.map(str::to_owned).into());
        assert_eq!(
            services(&given.plan()),
            [
                "llama-endpoints",
                "llama-endpoints-w1-2",
                "llama-endpoints-w1"
            ]
        );
    }
}

#[test]
fn a_service_of_a_class_may_have_63_characters() {
    let mut given = weighted();
    given.server.metadata.name = Some("s".repeat(50));
    let name = format!("{}-endpoints-w3", "s".repeat(50));
    assert_eq!(
        (name.len(), services(&given.plan())[2]),
        (63, name.as_str())
    );
}

#[test]
fn a_service_of_a_class_is_cut_where_it_would_have_64_characters() {
    let mut given = weighted();
    given.server.metadata.name = Some("s".repeat(51));
    let plan = given.plan();
    let name = services(&plan)[2];
    assert_eq!(name.len(), 63);
    assert!(
        name.starts_with(&"s".repeat(51)) && !name.ends_with("-w3"),
        "{name}"
    );
}

#[test]
fn services_whose_names_are_cut_stay_apart() {
    let mut given = weighted();
    given.server.metadata.name = Some("s".repeat(53));
    let plan = given.plan();
    let names: BTreeSet<_> = services(&plan).into_iter().collect();
    assert_eq!(names.len(), 3);
    assert!(names.iter().all(|name| name.len() <= 63));
}

#[test]
fn seventeen_weights_are_published_and_the_merge_is_told() {
    let mut given = healthy();
    let names: Vec<_> = (1..=17).map(|number| format!("c{number}")).collect();
    let targets: Vec<_> = names.iter().map(String::as_str).zip(1..=17).collect();
    given.server = server(&targets);
    given.clusters = names
        .iter()
        .map(|name| (cluster(name), serving("203.0.113.1")))
        .collect();
    let plan = given.plan();
    assert_eq!(plan.services.len(), 1 + 16);
    assert_eq!(
        condition(&plan.status, "EndpointPublish"),
        "True Provisioned"
    );
    let told = plan
        .status
        .conditions
        .iter()
        .find(|found| found.type_ == "EndpointPublish");
    assert_eq!(
        told.unwrap().message,
        "the endpoint of every target is published; targets of nearly equal weights share one"
    );
}

#[test]
fn the_order_of_targets_changes_nothing() {
    let (given, mut turned) = (weighted(), weighted());
    turned.server.spec.cluster_targets.reverse();
    assert_eq!(turned.plan(), given.plan());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_in_which_an_agent_reports_its_addresses_changes_no_slice(
        addresses in Just([ipv4(4), vec!["2001:db8::1".to_owned(), "2001:db8::2".to_owned()]].concat()).prop_shuffle(),
    ) {
        let expected = at([ipv4(4), vec!["2001:db8::1".to_owned(), "2001:db8::2".to_owned()]].concat());
        prop_assert_eq!(of_west(&at(addresses)), of_west(&expected));
    }

    #[test]
    fn one_address_more_leaves_every_full_slice_as_it_was(count in 1..320usize) {
        let before = of_west(&at(ipv4(count)));
        let after = of_west(&at(ipv4(count + 1)));
        let full = count / 100;
        prop_assert_eq!(&after[..full], &before[..full]);
        prop_assert_eq!(after.len(), full + 1);
    }
}
