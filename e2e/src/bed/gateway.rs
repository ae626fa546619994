//! A cluster's gateway: the Gateway API's CRDs, Contour as the Gateway API's controller, Envoy as the proxy.
//!
//! Both live in a network namespace of their own. Contour makes Envoy listen at a listener's port +
//! 8000; a relay of ours carries the port that clients use there. Every address of the cluster's
//! gateway range ends in that namespace, so any of them carries traffic; which of them the Gateway
//! announces is the status of the Service `projectcontour/envoy`, as with a cloud's load balancer.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use gateway_api::apis::standard::gateways::Gateway;
use kube::runtime::wait;
use kube::{Api, Client};
use serde_json::json;

use super::addresses::Addresses;
use super::controlplane::{START_DEADLINE, program};
use super::manifests::{self, MANAGER};
use super::net::{DEFAULT, Netns, host};
use super::pki::Pki;
use super::process::{Recipe, Running};
use super::{relay, services};
use crate::control::ClusterSpec;

/// The namespace and name of every cluster's Gateway, and its listener's port.
pub(crate) const NAMESPACE: &str = "infra";
pub(crate) const NAME: &str = "public";
pub(crate) const PORT: u16 = 80;
/// Contour's shift between a listener's port and Envoy's.
const SHIFT: u16 = 8000;
const XDS_PORT: &str = "8001";
const CONTROLLER: &str = "projectcontour.io/gateway-controller";

/// Starts both programs and returns once the Gateway is programmed.
pub(crate) async fn start(
    spec: &ClusterSpec,
    addresses: Addresses,
    cluster: &Netns,
    pki: &Pki,
    client: &Client,
) -> Result<()> {
    let netns = Arc::new(network(cluster, addresses).await?);
    let [standard, own] = ["gateway-api", "contour"].map(|folder| spec.manifests.join(folder));
    tokio::try_join!(
        manifests::install(client, &standard),
        manifests::install(client, &own)
    )?;
    for object in objects() {
        manifests::apply(client, &object)
            .await
            .context("set up the gateway")?;
    }
    announce(client, &addresses.gateway().to_string()).await?;
    let contour = contour(spec, addresses, &netns, pki).await?;
    envoy(spec, &netns).await?;
    let listener = netns.listen(([0, 0, 0, 0], PORT).into()).await?;
    let envoy_address = ([127, 0, 0, 1], PORT + SHIFT).into();
    tokio::spawn(relay::serve(
        listener,
        Arc::clone(&netns),
        move || Some(envoy_address),
        relay::Faults::default(),
    ));
    let gateways = Api::<Gateway>::namespaced(client.clone(), NAMESPACE);
    let programmed = wait::await_condition(gateways, NAME, |gateway: Option<&Gateway>| {
        is_programmed(gateway)
    });
    contour.until(programmed, START_DEADLINE).await??;
    Ok(())
}

/// Has the Gateway announce this address.
async fn announce(client: &Client, address: &str) -> Result<()> {
    let api =
        Api::<k8s_openapi::api::core::v1::Service>::namespaced(client.clone(), "projectcontour");
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}});
    let params = kube::api::PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..Default::default()
    };
    api.patch_status("envoy", &params, &kube::api::Patch::Merge(status))
        .await?;
    Ok(())
}

fn is_programmed(gateway: Option<&Gateway>) -> bool {
    let status = gateway.and_then(|gateway| gateway.status.as_ref());
    let conditions = status
        .and_then(|status| status.conditions.as_ref())
        .into_iter()
        .flatten();
    let programmed = conditions
        .filter(|condition| condition.type_ == "Programmed" && condition.status == "True");
    programmed.count() > 0
        && status.is_some_and(|status| !status.addresses.iter().flatten().count().eq(&0))
}

async fn network(cluster: &Netns, addresses: Addresses) -> Result<Netns> {
    let netns = Netns::create().await?;
    cluster.join("gateway", &netns, "cluster").await?;
    netns.own_range(addresses.gateways()).await?;
    netns
        .route(host(addresses.pod_router()), "cluster", None)
        .await?;
    netns
        .route(DEFAULT, "cluster", Some(addresses.pod_router()))
        .await?;
    cluster.route(addresses.gateways(), "gateway", None).await?;
    Ok(netns)
}

fn objects() -> Vec<serde_json::Value> {
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    vec![
        namespace("projectcontour"),
        namespace(NAMESPACE),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "envoy", "namespace": "projectcontour"},
            "spec": {
                "type": "LoadBalancer", "loadBalancerClass": services::GATEWAY_CLASS,
                "allocateLoadBalancerNodePorts": false,
                "ports": [{"name": "http", "port": PORT, "targetPort": PORT + SHIFT}],
            },
        }),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
            "metadata": {"name": "contour"},
            "spec": {"controllerName": CONTROLLER},
        }),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {
                "gatewayClassName": "contour",
                "listeners": [{
                    "name": "http", "port": PORT, "protocol": "HTTP",
                    "allowedRoutes": {"namespaces": {"from": "All"}},
                }],
            },
        }),
    ]
}

async fn contour(
    spec: &ClusterSpec,
    addresses: Addresses,
    netns: &Netns,
    pki: &Pki,
) -> Result<Running> {
    let config = spec.folder.join("contour.yaml");
    let text = json!({"gateway": {"gatewayRef": {"namespace": NAMESPACE, "name": NAME}}});
    std::fs::write(&config, text.to_string())?;
    let kubeconfig = pki.kubeconfig(addresses, "bed:contour", Some("system:masters"))?;
    let mut recipe = Recipe::new("contour", program(spec, "contour")?, &spec.folder)
        .arg("serve")
        .arg("--no-incluster")
        .flag("kubeconfig", &kubeconfig)
        .arg("--insecure")
        .arg("--disable-leader-election")
        .flag("xds-address", "127.0.0.1")
        .flag("xds-port", XDS_PORT)
        .flag("config-path", &config)
        .flag("envoy-service-namespace", "projectcontour")
        .flag("envoy-service-name", "envoy")
        // By default it writes five statuses a second: with many routes that is all that there is to see.
        .flag("kubernetes-client-qps", "200")
        .flag("kubernetes-client-burst", "400");
    // Kinds that the Gateway API's standard channel doesn't have, or not in the version Contour reads.
    for kind in ["tcproutes", "tlsroutes", "grpcroutes", "backendtlspolicies"] {
        recipe = recipe.flag("disable-feature", kind);
    }
    recipe.start(netns).await
}

async fn envoy(spec: &ClusterSpec, netns: &Netns) -> Result<()> {
    let bootstrap = spec.folder.join("envoy.json");
    let made = Recipe::new("contour-bootstrap", program(spec, "contour")?, &spec.folder)
        .arg("bootstrap")
        .flag("xds-address", "127.0.0.1")
        .flag("xds-port", XDS_PORT)
        .flag("admin-address", socket(&spec.folder))
        .arg(&bootstrap)
        .start(netns)
        .await?;
    anyhow::ensure!(
        made.ended().await.success(),
        "contour bootstrap failed: {}",
        made.log_end()
    );
    Recipe::new("envoy", program(spec, "envoy")?, &spec.folder)
        .arg("-c")
        .arg(&bootstrap)
        .arg("--service-cluster")
        .arg("bed")
        .arg("--service-node")
        .arg(&spec.name)
        .arg("--concurrency")
        .arg("1")
        .arg("--disable-hot-restart")
        .start(netns)
        .await?;
    Ok(())
}

fn socket(folder: &Path) -> std::path::PathBuf {
    folder.join("envoy.sock")
}
