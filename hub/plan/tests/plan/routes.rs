//! The discovery HTTPRoute.

use std::sync::Arc;

use crds::v1alpha1::GatewayReference;
use serde_json::json;

use crate::given::{condition, healthy, judged, server};

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
fn each_way_in_which_a_route_fails_has_a_reason() {
    let base = healthy();
    let verdict = |accepted: &str, resolved: &str| {
        let mut given = healthy();
        given.observed.routes = vec![Arc::new(judged(
            &base.observed.routes[0],
            accepted,
            resolved,
        ))];
        condition(&given.plan().status, CONDITION)
    };
    assert_eq!(verdict("True", "True"), "True Provisioned");
    assert_eq!(verdict("False", "True"), "False RouteNotAccepted");
    assert_eq!(verdict("True", "False"), "False RefsNotResolved");
    assert_eq!(verdict("Unknown", "True"), "Unknown RoutePending");

    let mut given = healthy();
    given.gateway = None;
    assert_eq!(
        condition(&given.plan().status, CONDITION),
        "False GatewayNotSet"
    );
    given.gateway_api = false;
    let plan = given.plan();
    assert_eq!(
        condition(&plan.status, CONDITION),
        "False GatewayAPIMissing"
    );
    assert!(plan.routes.is_empty());
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

#[test]
fn another_controllers_verdict_is_ignored() {
    let mut given = healthy();
    let mut route = given.observed.routes[0].as_ref().clone();
    for parent in route
        .status
        .iter_mut()
        .flat_map(|status| &mut status.parents)
    {
        parent.parent_ref.name = "another".to_owned();
    }
    given.observed.routes = vec![Arc::new(route)];
    assert_eq!(
        condition(&given.plan().status, CONDITION),
        "Unknown RoutePending"
    );
}
