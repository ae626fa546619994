//! Inferfleet on real clusters: a hub and two members, `east` and `west`, installed by their charts. One fleet for all
//! tests, a namespace for each.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod accelerators;
mod attacks;
mod charts;
mod drift;
mod endpoints;
mod faults;
mod foreign;
mod going;
mod input;
mod joining;
mod leaving;
mod lifecycle;
mod main_path;
mod namespaces;
mod probes;
mod rollouts;
mod routing;
mod sources;
mod timeline;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crds::labels;
use crds::v1alpha1::InferenceServer;
use e2e::installed::example_server;
use e2e::{Cluster, Fleet, Installed, Product};
use futures::StreamExt;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::task::AbortHandle;

/// Long enough for a busy machine; nothing waits this long when all is well.
const SOON: Duration = Duration::from_mins(1);

async fn start() -> Result<RwLock<Installed>, String> {
    let start = async {
        let product = tokio::task::spawn_blocking(Product::build).await??;
        let fleet = Fleet::builder()
            .members(2)
            .product(&product)
            .start()
            .await?;
        Installed::install(
            fleet,
            product,
            vec!["east".to_owned(), "west".to_owned()],
            |_, _| {},
        )
        .await
    };
    start
        .await
        .map(RwLock::new)
        .map_err(|error: anyhow::Error| format!("{error:#}"))
}

async fn installed() -> &'static RwLock<Installed> {
    // A failure is kept as well: no second test tries again.
    static INSTALLED: OnceCell<Result<RwLock<Installed>, String>> = OnceCell::const_new();
    INSTALLED.get_or_init(start).await.as_ref().unwrap()
}

/// The fleet, beside other tests.
async fn shared() -> RwLockReadGuard<'static, Installed> {
    installed().await.read().await
}

/// The fleet for one test alone: what it does to a cluster is felt by everybody there.
async fn alone() -> RwLockWriteGuard<'static, Installed> {
    installed().await.write().await
}

/// A new namespace of this name, in every cluster.
async fn namespace(fleet: &Installed, name: &str) {
    fleet.namespace(name).await.unwrap();
}

/// The example, in a namespace of the test's and for these clusters.
fn server(namespace: &str, targets: &[&str]) -> InferenceServer {
    let mut server = example_server(namespace, targets).unwrap();
    // What is about draining says so itself.
    server.spec.endpoints.drain_seconds = 0;
    server
}

/// Applies the example in a new namespace, and returns it once it is Ready.
async fn serving(installed: &Installed, namespace: &str, targets: &[&str]) -> InferenceServer {
    self::namespace(installed, namespace).await;
    installed.apply(&server(namespace, targets)).await.unwrap();
    installed.ready(namespace, "hello").await.unwrap()
}

async fn slices(hub: &Cluster, namespace: &str) -> Api<EndpointSlice> {
    Api::namespaced(hub.client().await.unwrap(), namespace)
}

/// The addresses of a slice, with their readiness.
fn endpoints(slice: &EndpointSlice) -> Vec<(IpAddr, bool)> {
    let of = |endpoint: &k8s_openapi::api::discovery::v1::Endpoint| {
        let ready = endpoint
            .conditions
            .as_ref()
            .and_then(|conditions| conditions.ready)
            .unwrap();
        (endpoint.addresses[0].parse().unwrap(), ready)
    };
    slice.endpoints.iter().map(of).collect()
}

/// How an endpoint stands: `ready`, `serving`, `draining` or `down`.
fn stands(endpoint: &k8s_openapi::api::discovery::v1::Endpoint) -> &'static str {
    let conditions = endpoint.conditions.as_ref().unwrap();
    match (conditions.ready, conditions.serving, conditions.terminating) {
        (Some(true), _, _) => "ready",
        (_, _, Some(true)) => "draining",
        (_, Some(true), _) => "serving",
        _ => "down",
    }
}

/// Everything that happens to the EndpointSlices of a namespace, from the moment of its making on.
struct SliceWatch {
    events: Arc<std::sync::Mutex<Vec<String>>>,
    task: AbortHandle,
}

impl SliceWatch {
    async fn start(hub: &Cluster, namespace: &str) -> Self {
        let api = slices(hub, namespace).await;
        let events = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (listed, begun) = tokio::sync::oneshot::channel();
        let kept = Arc::clone(&events);
        let watch = async move {
            let config = watcher::Config::default().labels(labels::CLUSTER);
            let mut stream = std::pin::pin!(watcher::watcher(api, config));
            let mut listed = Some(listed);
            while let Some(event) = stream.next().await {
                let line = match event.unwrap() {
                    Event::InitApply(_) => continue,
                    Event::Init if listed.is_some() => continue,
                    // What changed meanwhile would go unseen.
                    Event::Init => "the watch started over".to_owned(),
                    Event::InitDone => {
                        if let Some(listed) = listed.take() {
                            // Nobody waits any more: the test has ended.
                            let _ended = listed.send(());
                        }
                        continue;
                    }
                    Event::Apply(slice) => format!("{} {:?}", slice.name_any(), endpoints(&slice)),
                    Event::Delete(slice) => format!("{} deleted", slice.name_any()),
                };
                kept.lock().unwrap().push(line);
            }
        };
        let task = tokio::spawn(watch).abort_handle();
        begun.await.unwrap();
        Self { events, task }
    }

    fn seen(&self) -> Vec<String> {
        assert!(!self.task.is_finished(), "the watch itself has ended");
        self.events.lock().unwrap().clone()
    }

    /// Returns once so many events have been seen.
    async fn until(&self, count: usize) -> Vec<String> {
        let enough = || async {
            let seen = self.seen();
            anyhow::ensure!(seen.len() >= count, "only {seen:?}");
            Ok(seen)
        };
        e2e::wait::eventually("slice events", SOON, enough)
            .await
            .unwrap()
    }
}

impl Drop for SliceWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
