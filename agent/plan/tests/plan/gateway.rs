//! Which listener admits traffic, and at which addresses.

use agent_plan::Kind;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::given::{World, shown};

/// Why the Gateway can't take the route; the endpoint has to say the same.
fn refusal(world: &World) -> String {
    let report = world.report();
    let endpoint = report.endpoint.unwrap_err();
    let verdict = shown(&report.verdicts[1]);
    assert_eq!(
        verdict,
        format!("False {}: {}", endpoint.reason, endpoint.message)
    );
    verdict
}

/// The listener that the route hangs on.
fn section(world: &World) -> Value {
    world.rendered(Kind::HttpRoute)["spec"]["parentRefs"][0]["sectionName"].clone()
}

/// `addresses:port` of the endpoint, or the reason and message of its refusal.
fn endpoint(world: &World) -> String {
    match world.report().endpoint {
        Ok(endpoint) => format!("{:?}:{}", endpoint.addresses, endpoint.port),
        Err(refusal) => format!("{}: {}", refusal.reason, refusal.message),
    }
}

fn name_listener(world: &mut World, name: &str) {
    world.default_gateway.as_mut().unwrap().listener = Some(name.to_owned());
}

#[test]
fn without_any_gateways_name_both_places_to_name_one_are_told() {
    let mut world = World::well();
    world.default_gateway = None;
    assert_eq!(
        refusal(&world),
        "False GatewayNotSet: no Gateway is named: set spec.gateway of the MemberCluster, or the agent's default gateway"
    );
}

#[test]
fn a_missing_gateway_api_is_told_with_the_version_that_is_needed() {
    let mut world = World::well();
    world.gateway_api = false;
    assert_eq!(
        refusal(&world),
        "False GatewayAPIMissing: the Gateway API is not installed in this cluster: install its CRDs, version 1.1 or later"
    );
}

#[test]
fn a_missing_gateway_is_told_by_namespace_and_name() {
    let mut world = World::well();
    world.gateway = None;
    assert_eq!(
        refusal(&world),
        "False GatewayNotFound: Gateway infra/public does not exist"
    );
}

#[test]
fn a_missing_listener_is_told_with_those_that_exist() {
    let mut world = World::well();
    name_listener(&mut world, "web");
    assert_eq!(
        refusal(&world),
        "False ListenerNotFound: Gateway infra/public has no listener web; it has tls, one-host, http"
    );
}

#[test]
fn a_named_listener_that_speaks_no_plain_http_is_not_replaced_by_another() {
    let mut world = World::well();
    name_listener(&mut world, "tls");
    assert_eq!(
        refusal(&world),
        "False NoHTTPListener: listener tls of Gateway infra/public speaks HTTPS: traffic routes need one of protocol HTTP"
    );
}

#[test]
fn a_named_listener_for_one_host_is_not_replaced_by_another() {
    let mut world = World::well();
    name_listener(&mut world, "one-host");
    assert_eq!(
        refusal(&world),
        "False ListenerHostnameMismatch: listener one-host of Gateway infra/public is for a.example.com only: traffic routes need one without a hostname"
    );
}

#[test]
fn without_a_name_a_listener_for_one_host_in_front_is_no_obstacle() {
    assert_eq!(section(&World::well()), "http");
}

#[test]
fn of_two_listeners_that_can_take_the_route_the_first_does() {
    let mut world = World::well();
    world.listen(json!([
        {"name": "b", "port": 81, "protocol": "HTTP"}, {"name": "a", "port": 80, "protocol": "HTTP"},
    ]));
    assert_eq!(section(&world), "b");
}

#[test]
fn a_named_listener_takes_the_route_though_another_could_before_it() {
    let mut world = World::well();
    world.listen(json!([
        {"name": "b", "port": 81, "protocol": "HTTP"}, {"name": "a", "port": 80, "protocol": "HTTP"},
    ]));
    name_listener(&mut world, "a");
    assert_eq!(section(&world), "a");
}

#[test]
fn where_no_listener_can_take_the_route_the_nearest_to_it_explains_why() {
    let mut world = World::well();
    let (tls, host) = (
        json!({"name": "tls", "port": 443, "protocol": "HTTPS"}),
        json!({"name": "host", "port": 80, "protocol": "HTTP", "hostname": "a.example.com"}),
    );
    for listeners in [json!([tls, host]), json!([host, tls])] {
        world.listen(listeners);
        let refusal = refusal(&world);
        assert!(
            refusal.starts_with("False ListenerHostnameMismatch: listener host "),
            "{refusal}"
        );
    }
}

#[test]
fn a_gateway_without_listeners_says_so() {
    let mut world = World::well();
    world.listen(json!([]));
    assert_eq!(
        refusal(&world),
        "False NoHTTPListener: Gateway infra/public has no listener"
    );
}

#[test]
fn an_empty_hostname_is_for_every_host() {
    let mut world = World::well();
    world.listen(json!([{"name": "any", "port": 80, "protocol": "HTTP", "hostname": ""}]));
    assert_eq!(section(&world), "any");
}

#[test]
fn the_highest_port_is_one_and_the_next_number_is_none() {
    let mut world = World::well();
    world.listen(json!([{"name": "http", "port": 65_535, "protocol": "HTTP"}]));
    assert_eq!(world.report().endpoint.unwrap().port, 65_535);
    world.listen(json!([{"name": "http", "port": 65_536, "protocol": "HTTP"}]));
    assert_eq!(
        refusal(&world),
        "False NoHTTPListener: listener http of Gateway infra/public has port 65536"
    );
}

#[test]
fn a_placement_that_names_its_own_gateway_needs_no_default() {
    let mut world = World::well();
    world.default_gateway = None;
    world.placement["spec"]["gateway"] =
        json!({"namespace": "own", "name": "gate", "listener": "http"});
    assert_eq!(
        world.rendered(Kind::HttpRoute)["spec"]["parentRefs"],
        json!([{"namespace": "own", "name": "gate", "sectionName": "http"}])
    );
}

#[test]
fn the_endpoints_port_is_that_of_the_chosen_listener() {
    let mut world = World::well();
    world.listen(json!([
        {"name": "b", "port": 81, "protocol": "HTTP"}, {"name": "a", "port": 80, "protocol": "HTTP"},
    ]));
    assert_eq!(world.report().endpoint.unwrap().port, 81);
    name_listener(&mut world, "a");
    assert_eq!(world.report().endpoint.unwrap().port, 80);
}

#[test]
fn an_address_that_is_reported_twice_is_one() {
    let mut world = World::well();
    world.address(json!([{"value": "203.0.113.9"}, {"value": "203.0.113.9"}]));
    assert_eq!(endpoint(&world), "{203.0.113.9}:8080");
}

#[test]
fn addresses_come_in_the_order_of_their_numbers_ipv4_first() {
    let mut world = World::well();
    world.address(json!([
        {"value": "2001:db8::1"}, {"value": "203.0.113.10"}, {"value": "203.0.113.9"},
    ]));
    assert_eq!(
        endpoint(&world),
        "{203.0.113.9, 203.0.113.10, 2001:db8::1}:8080"
    );
}

#[test]
fn an_address_without_a_type_is_an_ip_address() {
    let mut world = World::well();
    world.address(json!([{"value": "203.0.113.9"}]));
    assert_eq!(endpoint(&world), "{203.0.113.9}:8080");
}

#[test]
fn a_hostname_beside_an_ip_address_is_reported_too() {
    let mut world = World::well();
    world.address(json!([
        {"type": "Hostname", "value": "lb.example.com"}, {"type": "IPAddress", "value": "203.0.113.9"},
    ]));
    let endpoint = world.report().endpoint.unwrap();
    assert_eq!(
        (endpoint.addresses, endpoint.hostnames),
        (
            ["203.0.113.9".parse().unwrap()].into(),
            ["lb.example.com".to_owned()].into()
        )
    );
}

#[test]
fn a_hostname_alone_is_an_endpoint() {
    let mut world = World::well();
    world.address(json!([{"type": "Hostname", "value": "LB.example.com"}]));
    let endpoint = world.report().endpoint.unwrap();
    assert_eq!(endpoint.hostnames, ["lb.example.com".to_owned()].into());
    assert_eq!((endpoint.addresses.len(), endpoint.port), (0, 8080));
}

#[test]
fn every_address_that_is_neither_an_ip_address_nor_a_hostname_is_named() {
    let mut world = World::well();
    world.address(json!([
        {"type": "Hostname", "value": "a_b.example"}, {"type": "IPAddress", "value": "b.example"},
    ]));
    assert_eq!(
        endpoint(&world),
        "NoAddress: Gateway infra/public has a_b.example, b.example only: an IP address or a DNS name is needed"
    );
}

#[test]
fn what_is_of_another_type_is_no_ip_address_though_it_looks_like_one() {
    let mut world = World::well();
    world.address(json!([{"type": "example.com/Pool", "value": "203.0.113.9"}]));
    assert!(endpoint(&world).starts_with("NoAddress: Gateway infra/public has 203.0.113.9 only"));
}

#[test]
fn an_address_that_a_gateway_asks_for_and_has_not_is_no_endpoint() {
    let mut world = World::well();
    world.gateway.as_mut().unwrap()["spec"]["addresses"] = json!([{"value": "203.0.113.9"}]);
    world.address(json!([]));
    assert_eq!(
        endpoint(&world),
        "NoAddress: Gateway infra/public has no address yet: look at its conditions"
    );
}

#[test]
fn an_endpoint_is_told_before_its_route_is_accepted() {
    let mut world = World::well();
    world.route = None;
    assert_eq!(endpoint(&world), "{203.0.113.9, 203.0.113.10}:8080");
}

#[test]
fn a_gateway_without_an_address_still_takes_the_route() {
    let mut world = World::well();
    world.address(json!([]));
    assert_eq!(
        world.route_verdict(),
        "True Provisioned: Gateway infra/public accepts HTTPRoute llama-traffic-0"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_in_which_a_gateway_reports_its_addresses_changes_no_endpoint(
        addresses in Just(vec!["203.0.113.9", "2001:db8::1", "203.0.113.10", "lb.example"]).prop_shuffle(),
    ) {
        let mut world = World::well();
        world.address(addresses.iter().map(|address| json!({"value": address})).collect());
        prop_assert_eq!(endpoint(&world), "{203.0.113.9, 203.0.113.10, 2001:db8::1}:8080");
    }
}
