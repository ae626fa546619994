//! Discovery Services and EndpointSlices.

use crds::condition::State;
use hub_plan::facts::{EndpointFacts, Membership, Step};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::given::{Given, Planned, cluster, condition, healthy, server, serving, step};

/// `name address:port ready/serving` of each slice, in order.
fn slices(plan: &Planned) -> Vec<String> {
    plan.slices.iter().map(line).collect()
}

fn line(slice: &EndpointSlice) -> String {
    let endpoints: Vec<_> = slice
        .endpoints
        .iter()
        .map(|endpoint| {
            let conditions = endpoint.conditions.as_ref().unwrap();
            let (ready, serving) = (conditions.ready.unwrap(), conditions.serving.unwrap());
            format!("{} {ready}/{serving}", endpoint.addresses[0])
        })
        .collect();
    let port = slice.ports.as_ref().unwrap()[0].port.unwrap();
    format!(
        "{}: {} at {port}",
        slice.metadata.name.as_ref().unwrap(),
        endpoints.join(", ")
    )
}

#[test]
fn each_cluster_and_family_has_a_slice_of_its_own() {
    let mut given = healthy();
    given.cluster("west").endpoint.as_mut().unwrap().addresses =
        vec!["2001:db8::1".to_owned(), "203.0.113.2".to_owned()];
    let plan = given.plan();
    assert_eq!(
        slices(&plan),
        [
            "llama-endpoints-east-ipv4-0: 203.0.113.1 true/true at 80",
            "llama-endpoints-west-ipv4-0: 203.0.113.2 true/true at 80",
            "llama-endpoints-west-ipv6-0: 2001:db8::1 true/true at 80",
        ]
    );
    assert_eq!(plan.slices[2].address_type, "IPv6");
    assert_eq!(plan.services.len(), 1);
    let labels = plan.slices[0].metadata.labels.as_ref().unwrap();
    assert_eq!(labels["kubernetes.io/service-name"], "llama-endpoints");
    assert_eq!(
        labels["endpointslice.kubernetes.io/managed-by"],
        "inferfleet.io"
    );
    assert_eq!(labels["multicluster.kubernetes.io/source-cluster"], "east");
    assert_eq!(labels["inferfleet.io/cluster"], "east");
}

#[test]
fn a_cluster_that_does_not_serve_is_not_ready_and_disturbs_no_other() {
    let mut given = healthy();
    given.placement("west").replicas.ready = 0;
    given.placement("west").steps.insert(
        Step::Health,
        step(State::Unknown, "StartingBackend", "0 of 2"),
    );
    assert_eq!(
        slices(&given.plan()),
        [
            "llama-endpoints-east-ipv4-0: 203.0.113.1 true/true at 80",
            "llama-endpoints-west-ipv4-0: 203.0.113.2 false/false at 80",
        ]
    );
}

#[test]
fn a_silent_cluster_keeps_what_was_last_published() {
    let mut given = healthy();
    let before = given.plan().slices;
    let west = given.cluster("west");
    (west.reporting, west.placement, west.endpoint) = (false, None, None);
    assert_eq!(given.plan().slices, before);
}

#[test]
fn a_restarted_hub_that_has_heard_nobody_changes_no_slice() {
    let mut given = healthy();
    given.placement("west").replicas.ready = 0;
    given.apply();
    let before = given.plan().slices;
    for name in ["east", "west"] {
        let silent = given.cluster(name);
        (silent.reporting, silent.placement, silent.endpoint) = (false, None, None);
    }
    let plan = given.plan();
    assert_eq!(plan.slices, before);
    assert!(plan.surplus.is_empty());
}

#[test]
fn a_changed_address_changes_one_slice() {
    let mut given = healthy();
    let before = given.plan().slices;
    given.cluster("west").endpoint.as_mut().unwrap().addresses = vec!["203.0.113.9".to_owned()];
    let after = given.plan().slices;
    assert_eq!(after[0], before[0]);
    assert_eq!(
        line(&after[1]),
        "llama-endpoints-west-ipv4-0: 203.0.113.9 true/true at 80"
    );
}

#[test]
fn an_address_that_leads_nowhere_is_refused_and_the_rest_published() {
    for bad in [
        "127.0.0.1",
        "169.254.1.1",
        "224.0.0.1",
        "0.0.0.0",
        "::1",
        "fe80::1",
        "::ffff:203.0.113.9",
        "gateway.example",
    ] {
        let mut given = healthy();
        given.cluster("west").endpoint.as_mut().unwrap().addresses =
            vec![bad.to_owned(), "203.0.113.2".to_owned()];
        let plan = given.plan();
        assert_eq!(
            slices(&plan)[1],
            "llama-endpoints-west-ipv4-0: 203.0.113.2 true/true at 80",
            "{bad}"
        );
        assert_eq!(
            condition(&plan.status, "EndpointPublish"),
            "False AddressRefused",
            "{bad}"
        );
    }
}

#[test]
fn a_cluster_without_an_endpoint_gives_its_reason() {
    let mut given = healthy();
    given.cluster("west").endpoint = Some(EndpointFacts {
        reason: "NoAddress".to_owned(),
        message: "Gateway infra/public has no address yet".to_owned(),
        ..EndpointFacts::default()
    });
    let plan = given.plan();
    assert_eq!(slices(&plan).len(), 1);
    assert_eq!(plan.surplus.len(), 1);
    assert_eq!(
        condition(&plan.status, "EndpointPublish"),
        "False NoAddress"
    );
}

fn weighted(targets: &[(&str, u32)]) -> Given {
    let mut given = healthy();
    given.server = server(targets);
    given
}

#[test]
fn a_cluster_of_weight_zero_is_not_ready_and_shares_no_traffic() {
    let plan = weighted(&[("east", 1), ("west", 0)]).plan();
    assert_eq!(
        slices(&plan)[1],
        "llama-endpoints-west-ipv4-0: 203.0.113.2 false/true at 80"
    );
    assert_eq!(plan.services.len(), 1);
}

#[test]
fn a_weight_of_zero_does_not_make_a_silent_cluster_forget_that_it_works() {
    let mut given = weighted(&[("east", 1), ("west", 0)]);
    given.apply();
    let west = given.cluster("west");
    (west.reporting, west.placement, west.endpoint) = (false, None, None);
    given.server = server(&[("east", 1), ("west", 1)]);
    assert_eq!(
        slices(&given.plan())[1],
        "llama-endpoints-west-ipv4-0: 203.0.113.2 true/true at 80"
    );
}

#[test]
fn clusters_of_different_weights_have_services_of_their_own_beside_the_common_one() {
    let plan = weighted(&[("east", 3), ("west", 1)]).plan();
    let services: Vec<_> = plan
        .services
        .iter()
        .map(|service| service.metadata.name.as_deref().unwrap())
        .collect();
    assert_eq!(
        services,
        [
            "llama-endpoints",
            "llama-endpoints-w1",
            "llama-endpoints-w3"
        ]
    );
    assert_eq!(
        slices(&plan)[2..],
        [
            "llama-endpoints-w1.west-ipv4-0: 203.0.113.2 true/true at 80",
            "llama-endpoints-w3.east-ipv4-0: 203.0.113.1 true/true at 80",
        ]
    );
}

#[test]
fn a_removed_target_loses_its_slice_and_nothing_else() {
    let mut given = healthy();
    given.server = server(&[("east", 1)]);
    let plan = given.plan();
    assert_eq!(slices(&plan).len(), 1);
    let surplus: Vec<_> = plan
        .surplus
        .iter()
        .map(|reference| reference.name.as_str())
        .collect();
    assert_eq!(surplus, ["llama-endpoints-west-ipv4-0"]);
}

#[test]
fn a_cluster_that_never_joined_is_published_nowhere() {
    let mut given = healthy();
    given.observed.slices.clear();
    *given.cluster("west") = hub_plan::facts::ClusterFacts {
        membership: Membership::Invited,
        ..Default::default()
    };
    assert_eq!(slices(&given.plan()).len(), 1);
}

#[test]
fn a_second_plan_of_an_unchanged_world_is_the_same() {
    let given = healthy();
    let (first, second) = (given.plan(), given.plan());
    assert_eq!(first, second);
    assert!(first.surplus.is_empty());
    assert_eq!(Some(&first.status), given.server.status.as_ref());
}

#[test]
fn an_endpoint_of_another_cluster_never_lands_in_a_slice() {
    let mut given = healthy();
    given
        .clusters
        .insert(cluster("north"), serving("203.0.113.7"));
    assert!(
        !slices(&given.plan())
            .iter()
            .any(|slice| slice.contains("203.0.113.7"))
    );
}

#[test]
fn no_two_slices_have_one_name_whatever_the_clusters_are_called() {
    let mut given = weighted(&[("east", 1), ("w1-east", 2)]);
    given
        .clusters
        .insert(cluster("w1-east"), serving("203.0.113.7"));
    let plan = given.plan();
    let mut names: Vec<_> = plan
        .slices
        .iter()
        .map(|slice| slice.metadata.name.as_ref().unwrap())
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn each_address_stays_in_the_slice_that_it_is_in() {
    let mut given = healthy();
    given.server.spec.cluster_targets.remove(0);
    given.clusters.remove(&cluster("east"));
    let addresses = (1..=150).map(|number| format!("198.51.100.{number}"));
    given.cluster("west").endpoint.as_mut().unwrap().addresses = addresses.collect();
    given.apply();
    let before = given.plan().slices;
    let addresses = &mut given.cluster("west").endpoint.as_mut().unwrap().addresses;
    addresses.remove(0);
    let after = given.plan().slices;
    let touched = before.iter().filter(|slice| !after.contains(slice));
    let touched: Vec<_> = touched
        .map(|slice| slice.metadata.name.as_deref())
        .collect();
    assert_eq!(touched, [Some("llama-endpoints-west-ipv4-0")]);
}
