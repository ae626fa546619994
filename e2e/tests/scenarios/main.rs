//! What a fleet goes through: a hub and three members, `east`, `north` and `west`, with fake nodes for servers whose Pods
//! cost nothing. Links are cut, API servers freeze, processes die; so one test runs at a time.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod api_servers;
mod control;
mod dark;
mod gateways;
mod isolation;
mod kills;
mod late;
mod nodes;
mod record;
mod shares;

use std::time::Duration;

use crds::v1alpha1::{ClusterStatus, InferenceServer};
use e2e::installed::example_server;
use e2e::{Cluster, Fleet, Installed, Product};
use kube::Api;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// Long enough for a busy machine; nothing waits this long when all is well.
const SOON: Duration = Duration::from_mins(1);
/// A silence is noticed after 40 s, and an agent that lost its hub dials again after 30 s at most.
const LATER: Duration = Duration::from_mins(3);
const HUB: [(&str, &str); 1] = [("app.kubernetes.io/name", "inferfleet-hub")];
const MEMBERS: [&str; 3] = ["east", "north", "west"];

async fn start() -> Result<Mutex<Installed>, String> {
    let start = async {
        let product = tokio::task::spawn_blocking(Product::build).await??;
        let fleet = Fleet::builder()
            .members(MEMBERS.len())
            .fake_nodes(1)
            .product(&product)
            .start()
            .await?;
        let names = MEMBERS.map(ToOwned::to_owned).to_vec();
        Installed::install(fleet, product, names, |_, _| {}).await
    };
    start
        .await
        .map(Mutex::new)
        .map_err(|error: anyhow::Error| format!("{error:#}"))
}

/// The fleet, for one test alone, with everybody connected.
async fn alone() -> MutexGuard<'static, Installed> {
    // A failure is kept as well: no second test tries again.
    static INSTALLED: OnceCell<Result<Mutex<Installed>, String>> = OnceCell::const_new();
    let installed = INSTALLED.get_or_init(start).await;
    let fleet = installed.as_ref().unwrap().lock().await;
    for cluster in fleet.fleet().members() {
        // What a test before has left behind when it failed.
        cluster.restore_link().await.unwrap();
        cluster.delay_api_server(Duration::ZERO).await.unwrap();
    }
    for name in MEMBERS {
        connected(&fleet, name, true).await;
    }
    fleet
}

/// Returns once the hub says whether the member has a session.
async fn connected(fleet: &Installed, name: &str, connected: bool) {
    fleet
        .connected_within(name, connected, LATER)
        .await
        .unwrap();
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

async fn servers(fleet: &Installed, namespace: &str) -> Api<InferenceServer> {
    Api::namespaced(fleet.hub().client().await.unwrap(), namespace)
}

/// Returns `hello` once `holds` does, however long a silence takes.
async fn until_server(
    fleet: &Installed,
    namespace: &str,
    holds: impl Fn(&InferenceServer) -> bool,
) -> InferenceServer {
    let held = fleet.server_within(namespace, "hello", LATER, holds);
    held.await.unwrap()
}

/// What the status says of a cluster.
fn status_of<'a>(server: &'a InferenceServer, cluster: &str) -> Option<&'a ClusterStatus> {
    let mut clusters = server.status.as_ref()?.clusters.iter();
    clusters.find(|status| status.cluster_id == cluster)
}

/// Do so many replicas serve in each of these clusters, of as many as are wanted?
fn serve(server: &InferenceServer, clusters: &[&str], replicas: u32) -> bool {
    clusters.iter().all(|cluster| {
        status_of(server, cluster).is_some_and(|status| {
            status.replicas.wanted == replicas && status.replicas.ready == replicas
        })
    })
}

/// Asks the hub's gateway once for a server's models: its answer, and the Pod that gave it.
async fn answer(fleet: &Installed, namespace: &str) -> anyhow::Result<String> {
    let answer = fleet.ask(&format!("/{namespace}/hello/v1/models")).await?;
    anyhow::ensure!(answer.status().is_success(), "{}", answer.status());
    let uid = answer.headers().get("x-echo-pod-uid");
    let uid = uid.ok_or_else(|| anyhow::anyhow!("no model server answered"))?;
    Ok(uid.to_str()?.to_owned())
}

/// The members, in the order of their names.
fn members(fleet: &Installed) -> Vec<&Cluster> {
    fleet.members().map(|(_, cluster)| cluster).collect()
}
