//! The discovery HTTPRoute.

use std::sync::Arc;

use crds::v1alpha1::{GatewayReference, RouteParent};
use hub_plan::routes::{services, weighed};
use serde_json::json;

use crate::given::{Given, cluster, condition, healthy, judged, server, serving};

const CONDITION: &str = "DiscoveryRouteProvision";

#[test]
fn a_route_leads_from_the_clients_path_to_the_members() {
    let route = healthy().plan().routes.remove(0);
    assert_eq!(route.metadata.name.as_deref(), Some("llama-discovery-0"));
    assert_eq!(
        serde_json::to_value(&route.spec).unwrap(),
        json!({
            "parentRefs": [{"namespace": "infra", "name": "public"}],
            "rules": [{
                "matches": [{"path": {"type": "PathPrefix", "value": "/team/llama"}}],
                "filters": [{
                    "type": "URLRewrite",
                    "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/cluster/team/llama"}}
                }],
                "backendRefs": [{"name": "llama-endpoints", "port": 80}]
            }]
        })
    );
}

#[test]
fn a_route_shares_by_weight_and_gives_nothing_to_what_is_not_ready() {
    let mut given = healthy();
    given.server = server(&[("east", 3), ("west", 1)]);
    given.placement("west").replicas.ready = 0;
    let route = given.plan().routes.remove(0);
    let rules = route.spec.rules.unwrap();
    let backends = rules[0].backend_refs.as_ref().unwrap();
    let shares: Vec<_> = backends
        .iter()
        .map(|backend| (backend.name.as_str(), backend.weight))
        .collect();
    assert_eq!(
        shares,
        [
            ("llama-endpoints-w1", Some(0)),
            ("llama-endpoints-w3", Some(3))
        ]
    );
}

#[test]
fn a_failover_among_equals_writes_no_route() {
    let mut given = healthy();
    let before = given.plan().routes;
    given.placement("west").replicas.ready = 0;
    assert_eq!(given.plan().routes, before);
}

#[test]
fn a_listener_that_is_named_is_the_parents_section() {
    let mut given = healthy();
    given.gateway = Some(GatewayReference {
        namespace: "infra".to_owned(),
        name: "public".to_owned(),
        listener: Some("http".to_owned()),
    });
    let plan = given.plan();
    assert_eq!(
        plan.routes[0].spec.parent_refs.as_ref().unwrap()[0]
            .section_name
            .as_deref(),
        Some("http")
    );
    // What the Gateway said of the whole of it says nothing of this listener.
    assert_eq!(condition(&plan.status, CONDITION), "Unknown RoutePending");
}

#[test]
fn a_rewritten_route_stays_accepted_until_its_gateway_refuses_it() {
    let mut given = healthy();
    let mut route = given.observed.routes[0].as_ref().clone();
    route.metadata.generation = Some(2);
    given.observed.routes = vec![Arc::new(route.clone())];
    assert_eq!(
        condition(&given.plan().status, CONDITION),
        "True Provisioned"
    );
    let mut refused = judged(&route, "False", "True");
    refused.metadata.generation = Some(2);
    given.observed.routes = vec![Arc::new(refused)];
    assert_eq!(
        condition(&given.plan().status, CONDITION),
        "Unknown RoutePending"
    );
}

/// The route's backends, by name and weight.
fn backends(given: &Given) -> Vec<(String, Option<i32>)> {
    let route = given.plan().routes.remove(0);
    let rule = route.spec.rules.unwrap().remove(0);
    let backends = rule.backend_refs.unwrap().into_iter();
    backends
        .map(|backend| (backend.name, backend.weight))
        .collect()
}

#[test]
fn a_hub_without_a_gateway_writes_no_route_and_takes_the_one_it_has() {
    let mut given = healthy();
    given.gateway = None;
    let plan = given.plan();
    assert!(plan.routes.is_empty());
    assert_eq!(plan.surplus[0].name, "llama-discovery-0");
}

#[test]
fn a_hub_without_the_gateway_api_still_publishes_endpoints() {
    let (mut given, before) = (healthy(), healthy().plan());
    given.gateway_api = false;
    let plan = given.plan();
    assert!(plan.routes.is_empty());
    assert_eq!(
        (plan.services, plan.slices),
        (before.services, before.slices)
    );
}

#[test]
fn a_server_in_the_refused_namespace_has_no_route() {
    let mut given = healthy();
    given.server.metadata.namespace = Some("cluster".to_owned());
    assert!(given.plan().routes.is_empty());
}

#[test]
fn the_route_is_for_every_host() {
    assert_eq!(healthy().plan().routes[0].spec.hostnames, None);
}

#[test]
fn servers_of_one_name_in_two_namespaces_have_two_paths() {
    let mut given = healthy();
    given.server.metadata.namespace = Some("other".to_owned());
    let route = serde_json::to_value(&given.plan().routes[0]).unwrap();
    let rule = &route["spec"]["rules"][0];
    assert_eq!(rule["matches"][0]["path"]["value"], "/other/llama");
    assert_eq!(
        rule["filters"][0]["urlRewrite"]["path"]["replacePrefixMatch"],
        "/cluster/other/llama"
    );
}

#[test]
fn a_server_that_nothing_serves_keeps_its_path() {
    let mut given = healthy();
    given.clusters.clear();
    assert_eq!(backends(&given), [("llama-endpoints".to_owned(), None)]);
}

#[test]
fn a_server_whose_clusters_all_weigh_nothing_keeps_its_path() {
    let mut given = healthy();
    given.server = server(&[("east", 0), ("west", 0)]);
    assert_eq!(backends(&given), [("llama-endpoints".to_owned(), Some(0))]);
}

#[test]
fn one_cluster_that_takes_all_has_no_weight_in_the_route() {
    let mut given = healthy();
    given.server = server(&[("east", 7), ("west", 0)]);
    assert_eq!(backends(&given), [("llama-endpoints".to_owned(), None)]);
}

#[test]
fn a_class_of_several_clusters_weighs_their_sum() {
    let mut given = healthy();
    given.server = server(&[("east", 3), ("north", 3), ("west", 1)]);
    given
        .clusters
        .insert(cluster("north"), serving("203.0.113.7"));
    assert_eq!(
        backends(&given),
        [
            ("llama-endpoints-w1".to_owned(), Some(1)),
            ("llama-endpoints-w3".to_owned(), Some(6)),
        ]
    );
}

#[test]
fn the_gateways_of_a_server_are_its_own_or_the_hubs() {
    let mut given = healthy();
    let gateways = |given: &Given| {
        let found = hub_plan::routes::gateways(&given.server, given.gateway.as_ref());
        found.into_iter().collect::<Vec<_>>()
    };
    let named = |namespace: &str, name: &str| vec![(namespace.to_owned(), name.to_owned())];
    assert_eq!(gateways(&given), named("infra", "public"));
    given.server.spec.routing.parent_refs = vec![RouteParent {
        namespace: None,
        name: "own".to_owned(),
        section_name: None,
    }];
    assert_eq!(gateways(&given), named("team", "own"));
}

#[test]
fn what_takes_a_share_of_the_traffic_is_known_by_its_weight() {
    let mut given = healthy();
    let one = given.plan().routes;
    assert_eq!(weighed(&one), ["llama-endpoints"].into(), "of no weight");
    given.server = server(&[("east", 3), ("west", 1)]);
    given.placement("west").replicas.ready = 0;
    let two = given.plan().routes;
    let named = services(&two).into_iter().collect::<Vec<_>>();
    assert_eq!(named, ["llama-endpoints-w1", "llama-endpoints-w3"]);
    assert_eq!(weighed(&two), ["llama-endpoints-w3"].into());
}
