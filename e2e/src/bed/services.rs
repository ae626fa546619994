//! What kube-proxy and a cloud do in a real cluster: traffic to the addresses of Services.
//!
//! Services and `EndpointSlices` are watched. Each (address, port) of a Service with at least one ready
//! endpoint has a listener in the cluster's network namespace, on the `ClusterIP`, the load balancer's
//! address and the node port; without a ready endpoint nobody listens and a connection is refused.
//! Services of type `LoadBalancer` get an address, written to their status. TCP over IPv4 only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams};
use kube::runtime::reflector::{Store, store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::task::AbortHandle;

use super::addresses::Addresses;
use super::backoff::WatchBackoff;
use super::net::Netns;
use super::relay;

/// Ready endpoints by the address that clients use.
pub(super) type Table = BTreeMap<SocketAddr, Vec<SocketAddr>>;

/// The class of load balancers whose address the gateway keeps: see `gateway`.
pub(crate) const GATEWAY_CLASS: &str = "bed.inferfleet.io/gateway";

/// What befalls the connections of Pods and clients: those to the API server, and all others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    pub(crate) api: relay::Faults,
    pub(crate) others: relay::Faults,
}

struct Listeners {
    netns: Arc<Netns>,
    api: Ipv4Addr,
    faults: Faults,
    table: Arc<RwLock<Table>>,
    tasks: BTreeMap<SocketAddr, AbortHandle>,
}

/// Serves the Services of a cluster for ever.
pub(crate) async fn serve(
    client: Client,
    addresses: Addresses,
    netns: Arc<Netns>,
    faults: Faults,
) -> Result<()> {
    let (services, services_writer) = store::<Service>();
    let (slices, slices_writer) = store::<EndpointSlice>();
    let services_watch = watcher(
        Api::<Service>::all(client.clone()),
        watcher::Config::default(),
    )
    .backoff(WatchBackoff::default())
    .reflect(services_writer)
    .map(|event| log_error("services", event.err()));
    let slices_watch = watcher(
        Api::<EndpointSlice>::all(client.clone()),
        watcher::Config::default(),
    )
    .backoff(WatchBackoff::default())
    .reflect(slices_writer)
    .map(|event| log_error("endpointslices", event.err()));
    let mut changes = std::pin::pin!(futures::stream::select(services_watch, slices_watch));
    let mut listeners = Listeners {
        netns,
        api: addresses.api_service(),
        faults,
        table: Arc::default(),
        tasks: BTreeMap::new(),
    };
    while changes.next().await.is_some() {
        give_addresses(&client, addresses, &services).await;
        let slices: Vec<_> = slices.state();
        let table = table(addresses.node(), &services.state(), &slices);
        listeners.become_like(table).await;
    }
    Ok(())
}

fn log_error(what: &str, error: Option<watcher::Error>) {
    if let Some(error) = error {
        tracing::debug!(%error, what, "watch");
    }
}

impl Listeners {
    async fn become_like(&mut self, table: Table) {
        self.tasks.retain(|address, task| {
            let stays = table.contains_key(address);
            if !stays {
                task.abort();
            }
            stays
        });
        let wanted: Vec<SocketAddr> = table.keys().copied().collect();
        *self
            .table
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = table;
        for address in wanted {
            if self.tasks.contains_key(&address) {
                continue;
            }
            match self.netns.listen(address).await {
                Ok(listener) => {
                    let (table, turn) = (Arc::clone(&self.table), AtomicUsize::new(0));
                    let pick = move || pick(&table, address, &turn);
                    let faults = if address.ip() == self.api {
                        self.faults.api.clone()
                    } else {
                        self.faults.others.clone()
                    };
                    let netns = Arc::clone(&self.netns);
                    let task = tokio::spawn(relay::serve(listener, netns, pick, faults));
                    self.tasks.insert(address, task.abort_handle());
                }
                Err(error) => {
                    tracing::warn!(%address, error = format!("{error:#}"), "a Service's address");
                }
            }
        }
    }
}

/// One endpoint after the other.
fn pick(table: &RwLock<Table>, address: SocketAddr, turn: &AtomicUsize) -> Option<SocketAddr> {
    let table = table
        .read()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let endpoints = table.get(&address)?;
    let turn = turn.fetch_add(1, Ordering::Relaxed);
    endpoints.get(turn.checked_rem(endpoints.len())?).copied()
}

/// Which address leads where.
fn table(node: Ipv4Addr, services: &[Arc<Service>], slices: &[Arc<EndpointSlice>]) -> Table {
    let mut table = Table::new();
    for service in services {
        let Some(spec) = &service.spec else { continue };
        let cluster_ip = spec
            .cluster_ip
            .as_deref()
            .and_then(|ip| ip.parse::<Ipv4Addr>().ok());
        let balanced = balancer_addresses(service);
        for port in spec.ports.iter().flatten() {
            if port.protocol.as_deref().unwrap_or("TCP") != "TCP" {
                continue;
            }
            let endpoints = endpoints(service, port.name.as_deref().unwrap_or_default(), slices);
            if endpoints.is_empty() {
                continue;
            }
            let by_address = cluster_ip
                .iter()
                .chain(&balanced)
                .map(|ip| (*ip, port.port));
            for (ip, port) in by_address.chain(port.node_port.map(|port| (node, port))) {
                if let Ok(port) = u16::try_from(port) {
                    table.insert((IpAddr::V4(ip), port).into(), endpoints.clone());
                }
            }
        }
    }
    table
}

fn is_balanced(service: &Service) -> bool {
    service.spec.as_ref().is_some_and(|spec| {
        spec.type_.as_deref() == Some("LoadBalancer")
            && spec.load_balancer_class.as_deref() != Some(GATEWAY_CLASS)
    })
}

fn balancer_addresses(service: &Service) -> Vec<Ipv4Addr> {
    if !is_balanced(service) {
        return Vec::new();
    }
    let ingress = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    ingress
        .into_iter()
        .flatten()
        .filter_map(|ingress| ingress.ip.as_deref()?.parse().ok())
        .collect()
}

/// The ready endpoints of one port of a Service.
fn endpoints(service: &Service, port: &str, slices: &[Arc<EndpointSlice>]) -> Vec<SocketAddr> {
    let (name, namespace) = (service.name_any(), service.namespace());
    let mut found = BTreeSet::new();
    for slice in slices {
        let of_service = slice.labels().get("kubernetes.io/service-name") == Some(&name);
        if !of_service || slice.namespace() != namespace || slice.address_type != "IPv4" {
            continue;
        }
        let ports = slice.ports.iter().flatten();
        let ports = ports.filter(|candidate| candidate.name.as_deref().unwrap_or_default() == port);
        for number in ports.filter_map(|port| u16::try_from(port.port?).ok()) {
            let ready = slice.endpoints.iter().filter(|endpoint| {
                endpoint
                    .conditions
                    .as_ref()
                    .and_then(|conditions| conditions.ready)
                    .unwrap_or(true)
            });
            let ips = ready
                .flat_map(|endpoint| &endpoint.addresses)
                .filter_map(|ip| ip.parse::<IpAddr>().ok());
            found.extend(ips.map(|ip| SocketAddr::new(ip, number)));
        }
    }
    found.into_iter().collect()
}

/// Gives each load balancer that has no address the first that is free.
async fn give_addresses(client: &Client, addresses: Addresses, services: &Store<Service>) {
    let services = services.state();
    let mut taken: BTreeSet<Ipv4Addr> = services
        .iter()
        .flat_map(|service| balancer_addresses(service))
        .collect();
    for service in services.iter().filter(|service| is_balanced(service)) {
        if !balancer_addresses(service).is_empty() {
            continue;
        }
        let Some(address) = addresses
            .load_balancer_addresses()
            .find(|address| taken.insert(*address))
        else {
            tracing::warn!("no address is left for load balancers");
            return;
        };
        let api =
            Api::<Service>::namespaced(client.clone(), &service.namespace().unwrap_or_default());
        let status =
            json!({"status": {"loadBalancer": {"ingress": [{"ip": address.to_string()}]}}});
        let (name, params) = (service.name_any(), PatchParams::default());
        // A Service that is gone or changed comes round again with its next event.
        if let Err(error) = api
            .patch_status(&name, &params, &Patch::Merge(status))
            .await
        {
            tracing::warn!(%error, service = service.name_any(), "give an address");
        }
    }
}
