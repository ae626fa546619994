//! Where the cluster admits traffic, by each source.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::given::World;

/// A world whose placement asks for that source, of Service infra/gate.
fn asking(source: &str, port: &str) -> World {
    let mut world = World::well();
    world.placement["spec"]["endpoint"] = json!({
        "source": source,
        "service": {"namespace": "infra", "name": "gate", "port": port},
    });
    world
}

/// Source Service, and its Service as it should be.
fn balanced() -> World {
    let mut world = asking("Service", "web");
    world.service = Some(json!({
        "metadata": {"name": "gate", "namespace": "infra"},
        "spec": {"type": "LoadBalancer", "ports": [
            {"name": "dns", "port": 80, "protocol": "UDP", "nodePort": 30053},
            {"name": "web", "port": 80, "protocol": "TCP", "nodePort": 30080},
            {"name": "admin", "port": 9000, "nodePort": 30090},
        ]},
        "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}, {"ip": "198.51.100.6"}]}},
    }));
    world
}

fn node(name: &str, addresses: &[&str]) -> Value {
    let internal = |address: &&str| json!({"type": "InternalIP", "address": address});
    let mut addresses: Vec<_> = addresses.iter().map(internal).collect();
    addresses.push(json!({"type": "ExternalIP", "address": "192.0.2.1"}));
    addresses.push(json!({"type": "Hostname", "address": name}));
    json!({
        "metadata": {"name": name},
        "status": {
            "addresses": addresses,
            "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
        },
    })
}

/// Source NodePort, and two nodes as they should be.
fn on_nodes() -> World {
    let mut world = balanced();
    world.placement["spec"]["endpoint"]["source"] = json!("NodePort");
    world.service.as_mut().unwrap()["spec"]["type"] = json!("NodePort");
    world.nodes = Some(vec![
        node("b", &["10.0.0.2"]),
        node("a", &["10.0.0.1", "2001:db8::1"]),
    ]);
    world
}

fn fixed(addresses: &Value) -> World {
    let mut world = World::well();
    world.placement["spec"]["endpoint"] =
        json!({"source": "Static", "addresses": addresses, "port": 8443});
    world
}

/// `addresses:port` of the endpoint, or the reason and message of its refusal.
fn endpoint(world: &World) -> String {
    match world.report().endpoint {
        Ok(endpoint) => format!("{:?}:{}", endpoint.addresses, endpoint.port),
        Err(refusal) => format!("{}: {}", refusal.reason, refusal.message),
    }
}

#[test]
fn source_gateway_is_what_a_placement_without_a_source_has() {
    let mut world = World::well();
    let plain = endpoint(&world);
    world.placement["spec"]["endpoint"] = json!({"source": "Gateway"});
    assert_eq!(endpoint(&world), plain);
}

#[test]
fn a_load_balancer_is_reached_at_the_port_of_its_service() {
    assert_eq!(endpoint(&balanced()), "{198.51.100.6, 198.51.100.7}:80");
    let mut world = balanced();
    world.placement["spec"]["endpoint"]["service"]["port"] = json!(9000);
    assert_eq!(endpoint(&world), "{198.51.100.6, 198.51.100.7}:9000");
}

#[test]
fn a_load_balancer_may_have_both_families() {
    let mut world = balanced();
    world.service.as_mut().unwrap()["status"]["loadBalancer"]["ingress"] =
        json!([{"ip": "2001:db8::7"}, {"ip": "198.51.100.7"}]);
    assert_eq!(endpoint(&world), "{198.51.100.7, 2001:db8::7}:80");
}

#[test]
fn a_load_balancer_may_have_a_hostname() {
    let mut world = balanced();
    world.service.as_mut().unwrap()["status"]["loadBalancer"]["ingress"] = json!([{"hostname": "lb.example.com"}, {"ip": "198.51.100.7", "hostname": "lb.example.com"}]);
    let found = world.report().endpoint.unwrap();
    assert_eq!(found.hostnames, ["lb.example.com".to_owned()].into());
    assert_eq!((found.addresses.len(), found.port), (1, 80));
}

#[test]
fn a_service_that_is_missing_is_told_by_namespace_and_name() {
    for mut world in [balanced(), on_nodes()] {
        world.service = None;
        assert_eq!(
            endpoint(&world),
            "ServiceNotFound: Service infra/gate does not exist: create it, or correct endpoint.service"
        );
    }
}

#[test]
fn services_that_were_not_listed_yet_are_unknown_and_not_missing() {
    for mut world in [balanced(), on_nodes()] {
        world.services_known = false;
        assert!(endpoint(&world).starts_with("Applying: the agent does not know the Services"));
    }
}

#[test]
fn a_service_of_another_type_has_no_load_balancer() {
    for kind in ["ClusterIP", "NodePort", "ExternalName"] {
        let mut world = balanced();
        world.service.as_mut().unwrap()["spec"]["type"] = json!(kind);
        assert_eq!(
            endpoint(&world),
            format!(
                "ServiceTypeMismatch: Service infra/gate is of type {kind}: source Service needs one of type LoadBalancer"
            )
        );
    }
}

#[test]
fn a_service_without_a_type_is_inside_of_its_cluster_only() {
    for mut world in [balanced(), on_nodes()] {
        let spec = world.service.as_mut().unwrap()["spec"]
            .as_object_mut()
            .unwrap();
        spec.remove("type");
        assert!(
            endpoint(&world)
                .starts_with("ServiceTypeMismatch: Service infra/gate is of type ClusterIP: ")
        );
    }
}

#[test]
fn a_load_balancer_without_an_address_yet_is_told_with_what_to_look_for() {
    for status in [json!({}), json!({"loadBalancer": {"ingress": []}})] {
        let mut world = balanced();
        world.service.as_mut().unwrap()["status"] = status;
        assert_eq!(
            endpoint(&world),
            "NoAddress: Service infra/gate has no address yet: does a controller for its load balancer class run?"
        );
    }
}

#[test]
fn a_port_that_a_service_lacks_is_told_with_those_that_it_has() {
    for mut world in [balanced(), on_nodes()] {
        for port in [json!("dns"), json!(53), json!("http")] {
            world.placement["spec"]["endpoint"]["service"]["port"] = port;
            let said = endpoint(&world);
            assert!(
                said.starts_with("ServicePortNotFound: Service infra/gate has no TCP port ")
                    && said.ends_with(
                        "; it has web (80), admin (9000): correct endpoint.service.port"
                    ),
                "{said}"
            );
        }
    }
}

#[test]
fn a_number_means_the_port_of_protocol_tcp() {
    let mut world = on_nodes();
    world.placement["spec"]["endpoint"]["service"]["port"] = json!(80);
    assert_eq!(endpoint(&world), "{10.0.0.1, 10.0.0.2, 2001:db8::1}:30080");
}

#[test]
fn node_ports_are_reached_at_every_internal_address_of_both_families() {
    assert_eq!(
        endpoint(&on_nodes()),
        "{10.0.0.1, 10.0.0.2, 2001:db8::1}:30080"
    );
}

#[test]
fn the_node_ports_of_a_load_balancer_are_node_ports() {
    let mut world = on_nodes();
    world.service.as_mut().unwrap()["spec"]["type"] = json!("LoadBalancer");
    assert_eq!(endpoint(&world), "{10.0.0.1, 10.0.0.2, 2001:db8::1}:30080");
}

#[test]
fn a_service_of_another_type_has_no_node_ports() {
    let mut world = on_nodes();
    world.service.as_mut().unwrap()["spec"]["type"] = json!("ClusterIP");
    assert_eq!(
        endpoint(&world),
        "ServiceTypeMismatch: Service infra/gate is of type ClusterIP: source NodePort needs one of type NodePort or LoadBalancer"
    );
}

#[test]
fn a_port_without_a_node_port_is_told_with_how_to_get_one() {
    for none in [json!(null), json!(0)] {
        let mut world = on_nodes();
        world.service.as_mut().unwrap()["spec"]["ports"][1]["nodePort"] = none;
        assert_eq!(
            endpoint(&world),
            "NoNodePort: port 80 of Service infra/gate has no node port: set allocateLoadBalancerNodePorts, or give it one"
        );
    }
}

#[test]
fn nodes_that_were_not_listed_yet_are_unknown_and_not_missing() {
    let mut world = on_nodes();
    world.nodes = None;
    assert!(endpoint(&world).starts_with("Applying: the agent does not know the nodes"));
}

#[test]
fn a_node_that_can_take_no_traffic_is_left_out() {
    let unready = |status: &str| json!([{"type": "Ready", "status": status}]);
    for (pointer, value) in [
        ("/spec", json!({"unschedulable": true})),
        ("/status/conditions", unready("False")),
        ("/status/conditions", unready("Unknown")),
        ("/status/conditions", json!([])),
        (
            "/status",
            json!({"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]}),
        ),
        (
            "/metadata",
            json!({"name": "b", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ),
    ] {
        let mut world = on_nodes();
        let node = &mut world.nodes.as_mut().unwrap()[0];
        node[pointer.split('/').nth(1).unwrap()] = match pointer.rsplit_once('/').unwrap() {
            ("", _) => value.clone(),
            (_, field) => {
                let mut status = node["status"].clone();
                status[field] = value.clone();
                status
            }
        };
        assert_eq!(
            endpoint(&world),
            "{10.0.0.1, 2001:db8::1}:30080",
            "{pointer} {value}"
        );
    }
}

#[test]
fn a_taint_keeps_no_traffic_from_a_node() {
    let mut world = on_nodes();
    world.nodes.as_mut().unwrap()[0]["spec"] =
        json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}], "unschedulable": false});
    assert_eq!(endpoint(&world), "{10.0.0.1, 10.0.0.2, 2001:db8::1}:30080");
}

#[test]
fn a_cluster_without_a_node_that_takes_traffic_says_so() {
    let mut world = on_nodes();
    for node in world.nodes.as_mut().unwrap() {
        node["spec"] = json!({"unschedulable": true});
    }
    assert_eq!(
        endpoint(&world),
        "NoReadyNode: none of 2 nodes is Ready and schedulable: look at them with `kubectl get nodes`"
    );
    world.nodes = Some(Vec::new());
    assert!(endpoint(&world).starts_with("NoReadyNode: none of 0 nodes"));
}

#[test]
fn nodes_without_an_internal_address_are_no_endpoint() {
    let mut world = on_nodes();
    world.nodes = Some(vec![node("a", &[])]);
    assert_eq!(
        endpoint(&world),
        "NoAddress: source NodePort of Service infra/gate has no address yet: no Ready node has an InternalIP"
    );
}

#[test]
fn what_is_given_is_reported_as_it_is() {
    assert_eq!(
        endpoint(&fixed(&json!([
            "203.0.113.9",
            "2001:db8::9",
            "203.0.113.8"
        ]))),
        "{203.0.113.8, 203.0.113.9, 2001:db8::9}:8443"
    );
}

#[test]
fn names_that_are_given_are_told_from_addresses() {
    let found = fixed(&json!(["lb.example.com", "203.0.113.9", "a.1"]));
    let found = found.report().endpoint.unwrap();
    assert_eq!(found.hostnames, ["lb.example.com".to_owned()].into());
    assert_eq!(found.addresses, ["203.0.113.9".parse().unwrap()].into());
    assert_eq!(
        endpoint(&fixed(&json!(["a.1"]))),
        "NoAddress: source Static has a.1 only: an IP address or a DNS name is needed"
    );
}

#[test]
fn a_source_without_what_it_needs_says_what_to_set() {
    let mut world = fixed(&json!(["203.0.113.9"]));
    for none in [json!(null), json!(0)] {
        world.placement["spec"]["endpoint"]["port"] = none;
        assert_eq!(
            endpoint(&world),
            "InvalidSource: source Static needs a port: set endpoint.port"
        );
    }
    assert_eq!(
        endpoint(&fixed(&json!([]))),
        "NoAddress: source Static has no address yet: set endpoint.addresses"
    );
    for source in ["Service", "NodePort"] {
        world.placement["spec"]["endpoint"] = json!({"source": source});
        assert_eq!(
            endpoint(&world),
            "InvalidSource: the source of the endpoint needs a Service: set endpoint.service"
        );
    }
}

#[test]
fn a_source_that_gives_nothing_is_not_replaced_by_another_that_would() {
    for mut world in [balanced(), on_nodes()] {
        world.service.as_mut().unwrap()["spec"]["ports"] = json!([]);
        assert_eq!(
            world.report().endpoint.unwrap_err().reason,
            "ServicePortNotFound"
        );
    }
}

#[test]
fn a_gateway_without_an_address_is_no_obstacle_for_another_source() {
    for mut world in [balanced(), on_nodes(), fixed(&json!(["203.0.113.9"]))] {
        world.address(json!([]));
        let report = world.report();
        assert!(report.endpoint.is_ok());
        assert!(report.route_accepted, "by the traffic route at the Gateway");
    }
}

#[test]
fn a_route_that_its_gateway_does_not_accept_admits_nothing_whatever_the_source() {
    for mut world in [balanced(), on_nodes(), fixed(&json!(["203.0.113.9"]))] {
        world.route = None;
        let report = world.report();
        assert!(report.endpoint.is_ok());
        assert!(!report.route_accepted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_order_of_nodes_changes_no_endpoint(
        nodes in Just(vec![
            node("a", &["10.0.0.1", "2001:db8::1"]), node("b", &["10.0.0.2"]), node("c", &["10.0.0.2"]),
        ]).prop_shuffle(),
    ) {
        let mut world = on_nodes();
        world.nodes = Some(nodes);
        prop_assert_eq!(endpoint(&world), "{10.0.0.1, 10.0.0.2, 2001:db8::1}:30080");
    }
}
