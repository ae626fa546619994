//! Requests that go where Services and routes say.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use gateway_api::apis::standard::gateways::Gateway;
use gateway_api::apis::standard::httproutes::HttpRoute;
use k8s_openapi::api::core::v1::Service;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{SOON, ask, cluster_ip, create, fleet, pods, web};

#[tokio::test]
async fn a_cluster_ip_leads_to_every_ready_pod() {
    let hub = fleet().await.hub();
    let service = web(hub, "cluster-ip", 2, "ClusterIP").await;
    let known: BTreeSet<String> = pods(hub, "cluster-ip").await.iter().filter_map(ResourceExt::uid).collect();
    assert_eq!(known.len(), 2);
    let all = || async {
        let mut seen = BTreeSet::new();
        for _ in 0..8 {
            let answer = ask(hub, cluster_ip(&service), "/").await?;
            seen.insert(answer["env"]["POD_UID"].as_str().unwrap_or_default().to_owned());
        }
        anyhow::ensure!(seen == known, "{seen:?} of {known:?}");
        Ok(())
    };
    e2e::wait::eventually("both Pods", SOON, all).await.unwrap();
}

#[tokio::test]
async fn a_load_balancer_is_reached_from_a_pod_of_another_cluster() {
    let fleet = fleet().await;
    let (hub, member) = (fleet.hub(), &fleet.members()[0]);
    web(hub, "balanced", 1, "LoadBalancer").await;
    let from = web(member, "balanced-client", 1, "ClusterIP").await;
    let services = Api::<Service>::namespaced(hub.client().await.unwrap(), "balanced");
    let ip = |service: &Service| {
        let ingress = service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?.first()?;
        ingress.ip.clone()
    };
    let given = move |service: Option<&Service>| service.and_then(ip).is_some();
    let service = e2e::wait::until(services, "web", SOON, given).await.unwrap().unwrap();
    let path = format!("/get?{}:80", ip(&service).unwrap());
    let answer = || async {
        let answer = ask(member, cluster_ip(&from), &path).await?;
        let text = answer["text"].as_str().unwrap_or_default().to_owned();
        anyhow::ensure!(text.contains("HTTP/1.1 200 OK"), "{text}");
        Ok(text)
    };
    let text = e2e::wait::eventually("an answer from the hub", SOON, answer).await.unwrap();
    assert!(text.contains(&pods(hub, "balanced").await[0].uid().unwrap()));
}

#[tokio::test]
async fn a_service_of_one_cluster_is_nothing_in_another() {
    let fleet = fleet().await;
    let service = web(fleet.hub(), "private", 1, "ClusterIP").await;
    assert!(ask(fleet.hub(), cluster_ip(&service), "/").await.is_ok());
    assert!(fleet.members()[0].connect(cluster_ip(&service)).await.is_err());
}

#[tokio::test]
async fn a_route_answers_through_envoy_from_another_cluster_and_from_outside() {
    let fleet = fleet().await;
    let (hub, member) = (fleet.hub(), &fleet.members()[0]);
    web(member, "routed", 1, "ClusterIP").await;
    let client = member.client().await.unwrap();
    let route = json!({
        "metadata": {"name": "web"},
        "spec": {
            "parentRefs": [{"namespace": "infra", "name": "public"}],
            "rules": [{
                "matches": [{"path": {"type": "PathPrefix", "value": "/routed"}}],
                "filters": [{"type": "URLRewrite", "urlRewrite": {
                    "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/inside"},
                }}],
                "backendRefs": [{"name": "web", "port": 80}],
            }],
        },
    });
    create::<HttpRoute>(&client, "routed", route).await;
    let gateway = member.gateway_address();
    let answer = || ask(hub, gateway, "/routed/x");
    let answer = e2e::wait::eventually("an answer through Envoy", SOON, answer).await.unwrap();
    assert_eq!(answer["path"], "/inside/x");
    assert_eq!(answer["env"]["POD_UID"], json!(pods(member, "routed").await[0].uid()));

    let outside = member.forward(gateway).await.unwrap();
    let text = plain_get(outside.address(), "/routed/y").await;
    assert!(text.contains("\"path\":\"/inside/y\""), "{text}");

    // A change of the Gateway's address is announced, and both addresses answer.
    let other = member.other_gateway_address(1).unwrap();
    member.set_gateway_address(other.ip()).await.unwrap();
    let announces = move |gateway: Option<&Gateway>| {
        let status = gateway.and_then(|gateway| gateway.status.as_ref());
        let addresses = status.and_then(|status| status.addresses.as_ref());
        addresses.is_some_and(|addresses| addresses.len() == 1 && addresses[0].value == other.ip().to_string())
    };
    e2e::wait::until(Api::<Gateway>::namespaced(client, "infra"), "public", SOON, announces).await.unwrap();
    for address in [gateway, other] {
        assert!(ask(hub, address, "/routed/x").await.is_ok(), "{address}");
    }
    member.set_gateway_address(gateway.ip()).await.unwrap();
}

/// As a person's curl does it: over a plain TCP connection of this machine.
async fn plain_get(address: SocketAddr, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}
