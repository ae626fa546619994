//! What the slices say of a cluster.

use std::sync::Arc;

use hub_plan::memory::{PublishedEndpoint, published, remembered};
use k8s_openapi::{api::discovery::v1::EndpointSlice, apimachinery::pkg::apis::meta::v1::Time};

use crate::given::{Given, cluster, healthy, now, server};

/// What is remembered of west, after `change` was done to its slice.
fn changed(change: impl FnOnce(&mut EndpointSlice)) -> PublishedEndpoint {
    let mut given = healthy();
    change(slice(&mut given));
    remembered(slices(&given), "llama", &cluster("west"))
}

/// The slice of west.
fn slice(given: &mut Given) -> &mut EndpointSlice {
    let name = Some("llama-endpoints-west-ipv4-0");
    let slices = &mut given.observed.slices;
    let found = slices
        .iter_mut()
        .find(|slice| slice.metadata.name.as_deref() == name);
    Arc::make_mut(found.unwrap())
}

fn slices(given: &Given) -> impl Iterator<Item = &EndpointSlice> {
    given.observed.slices.iter().map(AsRef::as_ref)
}

fn shown(memory: &PublishedEndpoint) -> String {
    let addresses: Vec<_> = memory.addresses.iter().map(ToString::to_string).collect();
    format!("{}:{} {}", addresses.join(" "), memory.port, memory.serving)
}

#[test]
fn a_cluster_is_remembered_by_its_own_slice_alone() {
    let given = healthy();
    let memory = |name: &str| shown(&remembered(slices(&given), "llama", &cluster(name)));
    assert_eq!(memory("east"), "203.0.113.1:80 true");
    assert_eq!(memory("west"), "203.0.113.2:80 true");
}

#[test]
fn of_a_cluster_without_a_slice_nothing_is_remembered() {
    let given = healthy();
    assert_eq!(
        remembered(slices(&given), "llama", &cluster("north")),
        PublishedEndpoint::default()
    );
}

#[test]
fn addresses_of_all_families_and_shards_are_remembered_in_order() {
    let mut given = healthy();
    let mut addresses: Vec<_> = (0..101)
        .map(|number| format!("198.51.100.{number}"))
        .collect();
    addresses.push("2001:db8::1".to_owned());
    given.cluster("west").endpoint.as_mut().unwrap().addresses = addresses.clone();
    given.apply();
    given.observed.slices.reverse();
    let memory = remembered(slices(&given), "llama", &cluster("west"));
    let remembered: Vec<_> = memory.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(remembered, addresses);
}

#[test]
fn an_address_under_a_class_and_under_the_common_service_is_remembered_once() {
    let mut given = healthy();
    given.server = server(&[("east", 3), ("west", 1)]);
    given.apply();
    assert_eq!(given.observed.slices.len(), 4);
    let memory = remembered(slices(&given), "llama", &cluster("west"));
    assert_eq!(shown(&memory), "203.0.113.2:80 true");
}

#[test]
fn a_slice_without_labels_is_of_no_cluster() {
    let memory = changed(|slice| slice.metadata.labels = None);
    assert_eq!(memory, PublishedEndpoint::default());
}

#[test]
fn a_cluster_works_that_serves_though_it_takes_no_traffic() {
    let conditions = |ready: bool, serving: Option<bool>| {
        changed(|slice| {
            let conditions = slice.endpoints[0].conditions.as_mut().unwrap();
            (conditions.ready, conditions.serving) = (Some(ready), serving);
        })
    };
    assert!(conditions(false, Some(true)).serving);
    assert!(!conditions(true, Some(false)).serving);
    assert!(!conditions(true, None).serving);
}

#[test]
fn a_cluster_works_of_which_one_endpoint_serves() {
    let memory = changed(|slice| {
        let mut other = slice.endpoints[0].clone();
        other.conditions = None;
        slice.endpoints.push(other);
    });
    assert!(memory.serving);
}

#[test]
fn what_is_no_address_or_port_is_not_remembered() {
    let memory = changed(|slice| {
        slice.endpoints[0].addresses = vec!["gateway.example".to_owned()];
        slice.ports.as_mut().unwrap()[0].port = Some(65_536);
    });
    assert_eq!(shown(&memory), ":0 true");
}

#[test]
fn a_slice_without_a_port_takes_no_port_away() {
    let mut given = healthy();
    let mut other = slice(&mut given).clone();
    other.ports = None;
    given.observed.slices.push(Arc::new(other));
    assert_eq!(
        remembered(slices(&given), "llama", &cluster("west")).port,
        80
    );
}

#[test]
fn a_slice_that_is_on_its_way_out_says_nothing_any_more() {
    let mut given = healthy();
    slice(&mut given).metadata.deletion_timestamp = Some(Time(now()));
    let published = published(slices(&given), "llama");
    assert_eq!(published.into_keys().collect::<Vec<_>>(), [cluster("east")]);
}

#[test]
fn only_what_served_is_remembered_as_silent() {
    let silent_since = |replicas| {
        let mut given = healthy();
        given.fleet.joined = 10;
        given.placement("west").replicas.ready = replicas;
        given.apply();
        given.lose("west");
        given.apply();
        remembered(slices(&given), "llama", &cluster("west")).silent_since
    };
    assert!(silent_since(2).is_some());
    assert_eq!(silent_since(0), None);
}
