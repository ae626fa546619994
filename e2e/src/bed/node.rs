//! The process node: a small kubelet that runs Pods as processes of this machine.
//!
//! It registers the node `process`, renews its Lease, and gives each Pod bound to it a worker
//! ([`pod`]). A Pod has a network namespace with its own address, each of its containers a mount
//! namespace with a root of its own ([`sandbox`]). Images are looked up in a table of programs; a Pod
//! with another image waits with `ErrImagePull`. What it does not do: cgroups, users, seccomp, exec
//! and HTTPS probes, `subPathExpr`, lifecycle hooks, `kubectl logs` and `exec`.

mod container;
mod environment;
mod pod;
mod probe;
mod register;
pub(super) mod sandbox;
mod status;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use nix::sys::signal::Signal;
use tokio::sync::watch;

use super::addresses::Addresses;
use super::member::watch_over;
use super::net::Netns;
use super::pki::{self, Pki};
use super::process::Running;
use crate::control::{ClusterSpec, ImageProgram};

/// The node's name in every cluster.
pub(crate) const NODE: &str = "process";

/// What every Pod of the node needs.
struct Context {
    client: Client,
    addresses: Addresses,
    netns: Arc<Netns>,
    /// Roots and volumes of Pods, in memory.
    pods: PathBuf,
    /// Logs of containers.
    logs: PathBuf,
    images: BTreeMap<String, ImageProgram>,
    serial: AtomicU16,
    processes: Arc<Processes>,
}

/// The processes of containers that run now, by Pod UID and container.
type Processes = Mutex<BTreeMap<(String, String), Process>>;

#[derive(Debug)]
struct Process {
    namespace: String,
    labels: BTreeMap<String, String>,
    running: Running,
}

impl Context {
    /// An address that no Pod has had, until the range has been used up once.
    fn next_address(&self) -> Ipv4Addr {
        // The upper half of the range belongs to Pods on fake nodes.
        self.addresses.pod(self.serial.fetch_add(1, Ordering::Relaxed) & 0x7fff)
    }

    /// The program that stands for an image, whatever its tag, digest or registry.
    fn program(&self, image: &str) -> Option<&ImageProgram> {
        let image = image.split('@').next().unwrap_or(image);
        let untagged = match image.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => name,
            _ => image,
        };
        let known = |name: &String| untagged == name || untagged.ends_with(&format!("/{name}"));
        self.images.iter().find_map(|(name, program)| known(name).then_some(program))
    }

    fn processes(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, String), Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct ProcessNode {
    processes: Arc<Processes>,
}

impl ProcessNode {
    /// Registers the node and runs its Pods from now on.
    pub(crate) async fn start(
        spec: &ClusterSpec,
        addresses: Addresses,
        netns: &Arc<Netns>,
        pods: &Path,
        pki: &Pki,
    ) -> Result<Self> {
        let kubeconfig = pki.kubeconfig(addresses, "bed:process-node", Some("system:masters"))?;
        let client = pki::client(&kubeconfig).await?;
        let processes = Arc::<Processes>::default();
        let logs = spec.folder.join("pods");
        std::fs::create_dir_all(&logs)?;
        register::node(&client, addresses).await?;
        watch_over("node lease", register::keep_lease(client.clone()));
        let context = Context {
            client,
            addresses,
            netns: Arc::clone(netns),
            pods: pods.to_owned(),
            logs,
            images: spec.images.clone(),
            serial: AtomicU16::new(0),
            processes: Arc::clone(&processes),
        };
        watch_over("process node", run_pods(Arc::new(context)));
        Ok(Self { processes })
    }

    /// Kills the processes of all Pods of a namespace that have these labels, and says how many.
    pub(crate) fn kill(&self, namespace: &str, labels: &BTreeMap<String, String>) -> Result<usize> {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let meant = processes.values().filter(|process| {
            process.namespace == namespace && labels.iter().all(|(key, value)| process.labels.get(key) == Some(value))
        });
        let mut killed = 0;
        for process in meant {
            process.running.signal_all(Signal::SIGKILL)?;
            killed += 1;
        }
        Ok(killed)
    }
}

/// The newest state of a Pod; none once it's gone from the API server.
type Newest = watch::Receiver<Option<Arc<Pod>>>;

/// Watches the node's Pods. Each has a worker that ends after the Pod has gone.
async fn run_pods(context: Arc<Context>) -> Result<()> {
    let api = Api::<Pod>::all(context.client.clone());
    let config = watcher::Config::default().fields(&format!("spec.nodeName={NODE}"));
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    let mut workers: BTreeMap<String, watch::Sender<Option<Arc<Pod>>>> = BTreeMap::new();
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(pod)) => {
                listed.insert(pod.uid().unwrap_or_default());
                update(&context, &mut workers, pod);
            }
            Ok(watcher::Event::Apply(pod)) => update(&context, &mut workers, pod),
            Ok(watcher::Event::InitDone) => workers.retain(|uid, worker| {
                let stays = listed.contains(uid);
                if !stays {
                    worker.send_replace(None);
                }
                stays
            }),
            Ok(watcher::Event::Delete(pod)) => {
                if let Some(worker) = workers.remove(&pod.uid().unwrap_or_default()) {
                    worker.send_replace(None);
                }
            }
            Err(error) => tracing::debug!(%error, "watch Pods"),
        }
    }
    Ok(())
}

fn update(context: &Arc<Context>, workers: &mut BTreeMap<String, watch::Sender<Option<Arc<Pod>>>>, pod: Pod) {
    let (uid, pod) = (pod.uid().unwrap_or_default(), Arc::new(pod));
    if let Some(worker) = workers.get(&uid) {
        worker.send_replace(Some(pod));
        return;
    }
    let (worker, newest) = watch::channel(Some(Arc::clone(&pod)));
    workers.insert(uid, worker);
    tokio::spawn(pod::run(Arc::clone(context), pod, newest));
}
