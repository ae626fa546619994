//! Where endpoints come from, and that each source is followed by its events.

use std::net::IpAddr;

use crds::v1alpha1::{InferenceServer, MemberCluster};
use e2e::{Cluster, Installed};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{SOON, alone, namespace, server, shared, slices};

/// The example in a new namespace, in east alone, with this source.
async fn from(fleet: &Installed, namespace: &str, source: Value) -> InferenceServer {
    self::namespace(fleet, namespace).await;
    let mut server = server(namespace, &["east"]);
    server.spec.cluster_targets[0].endpoint = serde_json::from_value(source).unwrap();
    fleet.apply(&server).await.unwrap();
    server
}

/// Returns once east's slice of that family holds these addresses; none: there is no slice.
async fn until_published(fleet: &Installed, namespace: &str, family: &str, wanted: &[&str]) {
    let mut wanted: Vec<IpAddr> = wanted.iter().map(|one| one.parse().unwrap()).collect();
    wanted.sort_unstable();
    let holds = |slice: Option<&EndpointSlice>| {
        let endpoints = slice.iter().flat_map(|slice| &slice.endpoints);
        let addresses = endpoints.flat_map(|endpoint| &endpoint.addresses);
        let mut held: Vec<IpAddr> = addresses.map(|one| one.parse().unwrap()).collect();
        held.sort_unstable();
        held == wanted
    };
    let name = format!("hello-endpoints-east-{family}-0");
    let api = slices(fleet.hub(), namespace).await;
    e2e::wait::until(api, &name, SOON, holds).await.unwrap();
}

/// Returns once EndpointPublish has that reason, and a message with these words.
async fn until_said(fleet: &Installed, namespace: &str, reason: &str, words: &str) {
    let said = |server: &InferenceServer| {
        let mut conditions = server.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| {
            condition.type_ == "EndpointPublish"
                && condition.reason == reason
                && condition.message.contains(words)
        })
    };
    fleet.server_until(namespace, "hello", said).await.unwrap();
}

async fn services(cluster: &Cluster, namespace: &str) -> Api<Service> {
    Api::namespaced(cluster.client().await.unwrap(), namespace)
}

fn service(kind: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": "gate"},
        "spec": {"type": kind, "ports": [{"name": "web", "port": 8080}]},
    }))
    .unwrap()
}

#[tokio::test]
async fn the_load_balancer_of_a_service_is_followed_and_so_is_a_change_of_source() {
    let fleet = shared().await;
    let named = json!({"namespace": "balanced", "name": "gate", "port": "web"});
    let mut server = from(
        &fleet,
        "balanced",
        json!({"source": "Service", "service": named}),
    )
    .await;
    until_said(&fleet, "balanced", "ServiceNotFound", "balanced/gate").await;

    let api = services(fleet.member("east").unwrap(), "balanced").await;
    let made = service("LoadBalancer");
    api.create(&PostParams::default(), &made).await.unwrap();
    // The bed gives it an address, and leaves one that is there alone.
    let balanced = |service: Option<&Service>| {
        let status = service.and_then(|service| service.status.as_ref());
        let balancer = status.and_then(|status| status.load_balancer.as_ref());
        balancer.is_some_and(|balancer| balancer.ingress.is_some())
    };
    e2e::wait::until(api.clone(), "gate", SOON, balanced)
        .await
        .unwrap();
    let ingress = json!([{"ip": "203.0.113.9"}, {"ip": "2001:db8::9"}]);
    let status = json!({"status": {"loadBalancer": {"ingress": ingress}}});
    api.patch_status("gate", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    until_published(&fleet, "balanced", "ipv4", &["203.0.113.9"]).await;
    until_published(&fleet, "balanced", "ipv6", &["2001:db8::9"]).await;
    let seen = fleet.ready("balanced", "hello").await.unwrap();
    let endpoint = seen.status.unwrap().clusters[0].endpoint.clone().unwrap();
    assert_eq!(endpoint.port, 8080);

    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.10"}]}}});
    api.patch_status("gate", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    until_published(&fleet, "balanced", "ipv4", &["203.0.113.10"]).await;
    until_published(&fleet, "balanced", "ipv6", &[]).await;

    let fixed =
        json!({"source": "Static", "addresses": ["203.0.113.11", "2001:db8::11"], "port": 80});
    server.spec.cluster_targets[0].endpoint = serde_json::from_value(fixed).unwrap();
    fleet.apply(&server).await.unwrap();
    until_published(&fleet, "balanced", "ipv4", &["203.0.113.11"]).await;
    until_published(&fleet, "balanced", "ipv6", &["2001:db8::11"]).await;
}

/// The address of each node of a cluster.
async fn addresses(nodes: &Api<Node>) -> Vec<String> {
    let nodes = nodes.list(&kube::api::ListParams::default()).await.unwrap();
    let status = nodes.items.into_iter().filter_map(|node| node.status);
    status
        .flat_map(|status| status.addresses.unwrap_or_default())
        .filter(|address| address.type_ == "InternalIP")
        .map(|address| address.address)
        .collect()
}

async fn set_ready(nodes: &Api<Node>, ready: &str) {
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "203.0.113.20"}],
        "conditions": [{
            "type": "Ready", "status": ready, "reason": "Test", "message": "",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }});
    nodes
        .patch_status("spare", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

async fn set_cordoned(nodes: &Api<Node>, cordoned: bool) {
    let spec = json!({"spec": {"unschedulable": cordoned}});
    nodes
        .patch("spare", &PatchParams::default(), &Patch::Merge(spec))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_node_that_is_cordoned_or_not_ready_leaves_the_slice() {
    let fleet = shared().await;
    let east = fleet.member("east").unwrap();
    let nodes: Api<Node> = Api::all(east.client().await.unwrap());
    let before = addresses(&nodes).await;
    // Tainted, so that no Pod of another test goes there.
    let spare: Node = serde_json::from_value(json!({
        "metadata": {"name": "spare"},
        "spec": {"taints": [{"key": "test", "effect": "NoSchedule"}]},
    }))
    .unwrap();
    nodes.create(&PostParams::default(), &spare).await.unwrap();
    set_ready(&nodes, "True").await;

    let named = json!({"namespace": "noded", "name": "gate", "port": 8080});
    from(
        &fleet,
        "noded",
        json!({"source": "NodePort", "service": named}),
    )
    .await;
    let api = services(east, "noded").await;
    let made = service("NodePort");
    let made = api.create(&PostParams::default(), &made).await.unwrap();
    let node_port = made.spec.unwrap().ports.unwrap()[0].node_port.unwrap();

    let without: Vec<_> = before.iter().map(String::as_str).collect();
    let mut with = without.clone();
    with.push("203.0.113.20");
    until_published(&fleet, "noded", "ipv4", &with).await;
    let seen = fleet.ready("noded", "hello").await.unwrap();
    let endpoint = seen.status.unwrap().clusters[0].endpoint.clone().unwrap();
    assert_eq!(i32::from(endpoint.port), node_port);

    set_cordoned(&nodes, true).await;
    until_published(&fleet, "noded", "ipv4", &without).await;
    set_cordoned(&nodes, false).await;
    set_ready(&nodes, "True").await;
    until_published(&fleet, "noded", "ipv4", &with).await;
    set_ready(&nodes, "False").await;
    until_published(&fleet, "noded", "ipv4", &without).await;
    nodes
        .delete(&spare.name_any(), &DeleteParams::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_hostname_that_is_not_resolved_says_so_and_keeps_no_address_out() {
    let fleet = shared().await;
    // No name server knows it (RFC 6761), and the bed may have none.
    let source =
        json!({"source": "Static", "addresses": ["lb.invalid", "203.0.113.30"], "port": 80});
    from(&fleet, "named", source).await;
    let words = "the hub can't resolve lb.invalid of east: ";
    until_said(&fleet, "named", "HostnameNotResolved", words).await;
    until_published(&fleet, "named", "ipv4", &["203.0.113.30"]).await;
}

#[tokio::test]
async fn a_member_cluster_bounds_what_is_published() {
    let fleet = alone().await;
    let members: Api<MemberCluster> = Api::all(fleet.hub().client().await.unwrap());
    let set = async |endpoint: Value| {
        let patch = Patch::Merge(json!({"spec": {"endpoint": endpoint}}));
        members.patch("east", &PatchParams::default(), &patch).await
    };
    let refused = set(json!({"allowedCidrs": ["203.0.113.0"]})).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("spec.endpoint.allowedCidrs[0]")
            && refused.contains("must be a range of IP addresses"),
        "{refused}"
    );

    set(json!({
        "source": "Static", "addresses": ["203.0.113.40", "198.51.100.40"], "port": 80,
        "allowedCidrs": ["203.0.113.0/24"],
    }))
    .await
    .unwrap();
    namespace(&fleet, "bounded").await;
    fleet.apply(&server("bounded", &["east"])).await.unwrap();
    until_published(&fleet, "bounded", "ipv4", &["203.0.113.40"]).await;
    let words = "198.51.100.40 (outside of allowedCidrs)";
    until_said(&fleet, "bounded", "AddressRefused", words).await;
    set(json!({"allowedCidrs": null})).await.unwrap();
    until_published(
        &fleet,
        "bounded",
        "ipv4",
        &["203.0.113.40", "198.51.100.40"],
    )
    .await;

    let gateway = fleet.member("east").unwrap().gateway_address().ip();
    set(Value::Null).await.unwrap();
    until_published(&fleet, "bounded", "ipv4", &[&gateway.to_string()]).await;
}
