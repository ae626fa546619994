//! A cluster's control plane: etcd, API server, controller manager and scheduler.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;

use super::addresses::{API_PORT, Addresses, ETCD_PORT};
use super::net::Netns;
use super::pki::{Pki, client};
use super::process::{Recipe, Running};
use crate::control::{ApiServerFault, ClusterSpec};

/// How long a program may take to become ready. Generous: machines are slow when several fleets start.
pub(crate) const START_DEADLINE: Duration = Duration::from_mins(2);

/// Logs every request once, when it ends; watches also when they start.
const AUDIT_POLICY: &str =
    r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}"#;

pub(crate) struct ControlPlane {
    netns: Arc<Netns>,
    client: kube::Client,
    api_server: Recipe,
    running_api_server: Mutex<Running>,
    controller_manager: Running,
}

impl ControlPlane {
    /// Starts all four and returns once the API server is ready. The other two follow by themselves.
    pub(crate) async fn start(
        spec: &ClusterSpec,
        addresses: Addresses,
        netns: &Arc<Netns>,
        pki: &Pki,
    ) -> Result<Self> {
        let folder = &spec.folder;
        etcd(spec, netns).await?;
        let api_server = api_server(spec, addresses, pki)?;
        let running = api_server.start(netns).await?;
        let kubeconfig = pki.kubeconfig(addresses, "bed:supervisor", Some("system:masters"))?;
        let client = client(&kubeconfig).await?;
        running.until(ready(&client), START_DEADLINE).await?;

        let user = "system:kube-controller-manager";
        let kubeconfig = pki.kubeconfig(addresses, user, None)?;
        let controller_manager = as_client(
            Recipe::new(
                "kube-controller-manager",
                program(spec, "kube-controller-manager")?,
                folder,
            ),
            &kubeconfig,
        )
        .flag("cert-dir", folder.join("controller-manager-certs"))
        .flag(
            "service-account-private-key-file",
            pki.file("service-account.key"),
        )
        .flag("root-ca-file", pki.file("ca.crt"))
        .flag("use-service-account-credentials", "true");
        let controller_manager = controller_manager.start(netns).await?;

        let kubeconfig = pki.kubeconfig(addresses, "system:kube-scheduler", None)?;
        let scheduler = as_client(
            Recipe::new("kube-scheduler", program(spec, "kube-scheduler")?, folder),
            &kubeconfig,
        )
        .flag("cert-dir", folder.join("scheduler-certs"));
        scheduler.start(netns).await?;
        Ok(Self {
            netns: Arc::clone(netns),
            client,
            api_server,
            running_api_server: Mutex::new(running),
            controller_manager,
        })
    }

    /// A client with every right.
    pub(crate) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Freezes the controller manager, or lets it go on.
    pub(crate) fn pause_controller_manager(&self, paused: bool) -> Result<()> {
        self.controller_manager.signal(if paused {
            Signal::SIGSTOP
        } else {
            Signal::SIGCONT
        })
    }

    fn running(&self) -> Running {
        self.running_api_server
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) async fn fault(&self, fault: ApiServerFault) -> Result<()> {
        let running = self.running();
        match fault {
            ApiServerFault::Stop => running.kill().await,
            ApiServerFault::Pause => running.signal(Signal::SIGSTOP),
            ApiServerFault::Resume => running.signal(Signal::SIGCONT),
            ApiServerFault::Start => {
                running.kill().await?;
                let running = self.api_server.start(&self.netns).await?;
                *self
                    .running_api_server
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = running.clone();
                running.until(ready(&self.client), START_DEADLINE).await
            }
        }
    }
}

pub(crate) fn program<'a>(spec: &'a ClusterSpec, name: &str) -> Result<&'a Path> {
    Ok(spec
        .programs
        .get(name)
        .with_context(|| format!("no program {name} was given"))?)
}

async fn etcd(spec: &ClusterSpec, netns: &Arc<Netns>) -> Result<()> {
    let (client, peer) = (
        format!("http://127.0.0.1:{ETCD_PORT}"),
        "http://127.0.0.1:2380",
    );
    let running = Recipe::new("etcd", program(spec, "etcd")?, &spec.folder)
        .flag("data-dir", spec.folder.join("etcd"))
        .flag("listen-client-urls", &client)
        .flag("advertise-client-urls", &client)
        .flag("listen-peer-urls", peer)
        // Nothing outlives the fleet, so nothing has to reach the disk.
        .flag("unsafe-no-fsync", "true")
        .start(netns)
        .await?;
    let listens = async {
        while netns
            .connect(([127, 0, 0, 1], ETCD_PORT).into())
            .await
            .is_err()
        {
            crate::clock::pause_between_looks().await;
        }
    };
    running.until(listens, START_DEADLINE).await
}

fn api_server(spec: &ClusterSpec, addresses: Addresses, pki: &Pki) -> Result<Recipe> {
    let mut recipe = Recipe::new(
        "kube-apiserver",
        program(spec, "kube-apiserver")?,
        &spec.folder,
    )
    .flag("etcd-servers", format!("http://127.0.0.1:{ETCD_PORT}"))
    .flag("bind-address", "0.0.0.0")
    .flag("secure-port", API_PORT.to_string())
    .flag("advertise-address", addresses.node().to_string())
    .flag("cert-dir", spec.folder.join("apiserver-certs"))
    .flag("tls-cert-file", pki.file("server.crt"))
    .flag("tls-private-key-file", pki.file("server.key"))
    .flag("client-ca-file", pki.file("ca.crt"))
    .flag(
        "service-account-issuer",
        "https://kubernetes.default.svc.cluster.local",
    )
    .flag("service-account-key-file", pki.file("service-account.pub"))
    .flag(
        "service-account-signing-key-file",
        pki.file("service-account.key"),
    )
    .flag("authorization-mode", "Node,RBAC")
    .flag("service-cluster-ip-range", addresses.services().to_string())
    .flag("allow-privileged", "true");
    if spec.audit {
        let policy = spec.folder.join("audit-policy.yaml");
        std::fs::write(&policy, AUDIT_POLICY)?;
        recipe = recipe
            .flag("audit-policy-file", policy)
            .flag("audit-log-path", spec.folder.join("audit.log"))
            // In order and at once: tests read the file.
            .flag("audit-log-mode", "blocking");
    }
    Ok(recipe)
}

/// The flags by which a controller finds its API server. One of each: no leader to elect.
fn as_client(recipe: Recipe, kubeconfig: &Path) -> Recipe {
    recipe
        .flag("kubeconfig", kubeconfig)
        .flag("authentication-kubeconfig", kubeconfig)
        .flag("authorization-kubeconfig", kubeconfig)
        .flag("leader-elect", "false")
        .flag("bind-address", "127.0.0.1")
}

/// Waits until the API server says that it is ready.
async fn ready(client: &kube::Client) {
    loop {
        // A server that accepts but doesn't answer must not hold us.
        let look = async {
            let request = http::Request::get("/readyz").body(Vec::new()).ok()?;
            client.request_text(request).await.ok()
        };
        if tokio::time::timeout(Duration::from_secs(2), look)
            .await
            .ok()
            .flatten()
            .is_some()
        {
            return;
        }
        crate::clock::pause_between_looks().await;
    }
}
