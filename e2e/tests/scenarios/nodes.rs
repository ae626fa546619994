//! A cluster with more addresses than two slices hold.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use e2e::Cluster;
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::record::Record;
use super::{SOON, alone, namespace, server};

const NODES: u32 = 250;

fn address(number: u32) -> IpAddr {
    let first = Ipv4Addr::new(198, 19, 0, 1).to_bits();
    Ipv4Addr::from_bits(first + number).into()
}

fn name(number: u32) -> String {
    format!("spare-{number}")
}

/// A Ready node, tainted, so that no Pod of another test goes there.
async fn add(nodes: &Api<Node>, number: u32) {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name(number)},
        "spec": {"taints": [{"key": "test", "effect": "NoSchedule"}]},
    }))
    .unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": address(number).to_string()}],
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "Test", "message": "",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }});
    nodes
        .patch_status(
            &name(number),
            &PatchParams::default(),
            &Patch::Merge(status),
        )
        .await
        .unwrap();
}

async fn remove(nodes: &Api<Node>, number: u32) {
    let parameters = DeleteParams::default();
    nodes.delete(&name(number), &parameters).await.unwrap();
}

/// Returns once all of these addresses are published.
async fn until_published(hub: &Cluster, namespace: &str, wanted: &BTreeSet<IpAddr>) {
    let api: Api<EndpointSlice> = Api::namespaced(hub.client().await.unwrap(), namespace);
    let look = || async {
        let slices = api.list(&ListParams::default()).await?;
        let endpoints = slices.items.iter().flat_map(|slice| &slice.endpoints);
        let addresses = endpoints.flat_map(|endpoint| &endpoint.addresses);
        let held: BTreeSet<IpAddr> = addresses.map(|one| one.parse().unwrap()).collect();
        anyhow::ensure!(held.is_superset(wanted), "{} addresses", held.len());
        Ok(())
    };
    e2e::wait::eventually("all addresses", SOON, look)
        .await
        .unwrap();
}

/// The server, with east's nodes as its endpoint.
async fn at_node_ports(fleet: &e2e::Installed, namespace: &str) {
    self::namespace(fleet, namespace).await;
    let client = fleet.member("east").unwrap().client().await.unwrap();
    let services: Api<Service> = Api::namespaced(client, namespace);
    let gate: Service = serde_json::from_value(json!({
        "metadata": {"name": "gate"},
        "spec": {"type": "NodePort", "ports": [{"name": "web", "port": 8080}]},
    }))
    .unwrap();
    services
        .create(&PostParams::default(), &gate)
        .await
        .unwrap();
    let mut wanted = server(namespace, &["east"]);
    let source = json!({
        "source": "NodePort",
        "service": {"namespace": namespace, "name": "gate", "port": 8080},
    });
    wanted.spec.cluster_targets[0].endpoint = serde_json::from_value(source).unwrap();
    fleet.apply(&wanted).await.unwrap();
    fleet.ready(namespace, "hello").await.unwrap();
}

#[tokio::test]
async fn one_address_more_or_less_among_250_writes_one_slice() {
    let fleet = alone().await;
    let (hub, east) = (fleet.hub(), fleet.member("east").unwrap());
    at_node_ports(&fleet, "nodes").await;
    // It would take nodes without a kubelet for dead.
    east.pause_controller_manager().await.unwrap();
    let nodes: Api<Node> = Api::all(east.client().await.unwrap());
    stream::iter(0..NODES)
        .for_each_concurrent(16, |number| add(&nodes, number))
        .await;
    until_published(hub, "nodes", &(0..NODES).map(address).collect()).await;

    let record = Record::start(hub, "nodes").await;
    assert_eq!(record.before.len(), 3, "of 100 addresses at most");
    add(&nodes, NODES).await;
    record.until(|changes| !changes.is_empty()).await;
    remove(&nodes, 100).await;
    record.until(|changes| changes.len() >= 2).await;
    add(&nodes, NODES + 1).await;
    let changes = record.until(|changes| changes.len() >= 3).await;

    let addresses = |endpoints: &[(IpAddr, &str)]| -> BTreeSet<IpAddr> {
        endpoints.iter().map(|(address, _)| *address).collect()
    };
    let held = |change: &super::record::Change| {
        let endpoints = change.endpoints.as_deref().unwrap_or_default();
        (change.slice.clone(), addresses(endpoints))
    };
    let mut slices: BTreeMap<_, _> = record.before.iter().map(held).collect();
    let mut differences: Vec<BTreeSet<IpAddr>> = Vec::new();
    for change in &changes {
        let (slice, now) = held(change);
        let before = slices.insert(slice, now.clone()).unwrap();
        differences.push(before.symmetric_difference(&now).copied().collect());
    }
    let one = |number| BTreeSet::from([address(number)]);
    assert_eq!(differences, [one(NODES), one(100), one(NODES + 1)]);
    assert_eq!(slices.len(), 3);

    for number in (0..NODES + 2).filter(|number| *number != 100) {
        remove(&nodes, number).await;
    }
    east.resume_controller_manager().await.unwrap();
}
