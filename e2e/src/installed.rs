//! Inferfleet on a fleet: its charts installed as a person would, its clusters joined, its servers looked at.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use crds::condition::{CONNECTED, READY};
use crds::v1alpha1::{ClusterTarget, InferenceServer, MemberCluster};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::{Cluster, Fleet, Product, wait::until};

/// The namespace of hub and agents.
pub const NAMESPACE: &str = "inferfleet-system";
/// The Gateway of every cluster, as values of both charts.
const GATEWAY: &str = "gateway: {namespace: infra, name: public, listener: http}\n";
/// When set, what waits for an event, and a pass or a write that failed, is left alone this long in hub and agents, in
/// milliseconds: with an hour, a test passes only by events. Reconnects have pauses of their own.
const RETRY_MS: &str = "INFERFLEET_E2E_RETRY_MS";
/// How long one step of an installation may take.
const STEP_DEADLINE: Duration = Duration::from_mins(1);

/// A fleet with Inferfleet on it.
#[derive(Debug)]
pub struct Installed {
    fleet: Fleet,
    product: Product,
    names: Vec<String>,
}

impl Installed {
    /// Installs the hub, then joins each member under the name of its place in `names`, all at once. `progress` hears each
    /// step: the cluster's name in the fleet, and what it does now.
    pub async fn install(
        fleet: Fleet,
        product: Product,
        names: Vec<String>,
        progress: impl Fn(&str, &str) + Sync,
    ) -> Result<Self> {
        ensure!(
            names.len() == fleet.members().len(),
            "a name for each member"
        );
        let installed = Self {
            fleet,
            product,
            names,
        };
        progress("hub", "installing the charts");
        installed.install_hub("").await.context("install the hub")?;
        progress("hub", "ready");
        let joins = installed.members().map(|(name, cluster)| {
            let (installed, progress) = (&installed, &progress);
            async move {
                progress(name, "joining");
                installed
                    .join(name, cluster)
                    .await
                    .with_context(|| format!("join {name}"))?;
                progress(name, "connected");
                anyhow::Ok(())
            }
        });
        futures::future::try_join_all(joins).await?;
        Ok(installed)
    }

    /// The fleet below.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// The control cluster.
    pub fn hub(&self) -> &Cluster {
        self.fleet.hub()
    }

    /// The members by their names in the fleet.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Cluster)> {
        self.names
            .iter()
            .map(String::as_str)
            .zip(self.fleet.members())
    }

    /// The member of that name.
    pub fn member(&self, name: &str) -> Result<&Cluster> {
        let member = self.members().find(|(of, _)| *of == name);
        Ok(member
            .with_context(|| format!("there is no member {name}"))?
            .1)
    }

    /// Installs or upgrades the hub's charts. `values` come after the bed's own.
    pub async fn install_hub(&self, values: &str) -> Result<()> {
        let hub = self.hub();
        hub.helm_install("inferfleet-crds", NAMESPACE, &chart("inferfleet-crds"), "")
            .await?;
        hub.helm_install(
            "inferfleet-hub",
            NAMESPACE,
            &chart("inferfleet-hub"),
            &format!("{}{values}", bed_values()?),
        )
        .await?;
        let client = hub.client().await?;
        rolled_out(Api::namespaced(client.clone(), NAMESPACE), "inferfleet-hub").await?;
        // What `join` reads: written by the hub, and by the load balancer.
        let published = |config: Option<&ConfigMap>| config.is_some();
        until(
            Api::namespaced(client.clone(), NAMESPACE),
            "inferfleet-hub",
            STEP_DEADLINE,
            published,
        )
        .await?;
        let balanced = |service: Option<&Service>| {
            let status =
                service.and_then(|service| service.status.as_ref()?.load_balancer.as_ref());
            status.is_some_and(|balancer| {
                balancer
                    .ingress
                    .as_ref()
                    .is_some_and(|ingress| !ingress.is_empty())
            })
        };
        until(
            Api::namespaced(client, NAMESPACE),
            "inferfleet-hub",
            STEP_DEADLINE,
            balanced,
        )
        .await?;
        Ok(())
    }

    /// Joins a member as its person would: `kubectl inferfleet join`, and the agent's charts with what it prints.
    pub async fn join(&self, name: &str, cluster: &Cluster) -> Result<()> {
        let values = self.invite(name).await?;
        cluster
            .helm_install("inferfleet-crds", NAMESPACE, &chart("inferfleet-crds"), "")
            .await?;
        cluster
            .helm_install(
                "inferfleet-agent",
                NAMESPACE,
                &chart("inferfleet-agent"),
                &format!("{values}\n{}", bed_values()?),
            )
            .await?;
        rolled_out(
            Api::namespaced(cluster.client().await?, NAMESPACE),
            "inferfleet-agent",
        )
        .await?;
        self.connected(name).await
    }

    /// `kubectl inferfleet join NAME`: returns the values that it prints.
    pub async fn invite(&self, name: &str) -> Result<String> {
        self.inferfleet(&["join", name, "--namespace", NAMESPACE])
            .await
    }

    /// `kubectl inferfleet …` as the hub's person: returns what it prints.
    pub async fn inferfleet(&self, args: &[&str]) -> Result<String> {
        let output = tokio::process::Command::new(self.product.path("kubectl-inferfleet"))
            .args(args)
            .env("KUBECONFIG", self.hub().kubeconfig())
            .output()
            .await
            .context("run kubectl-inferfleet")?;
        ensure!(
            output.status.success(),
            "kubectl inferfleet {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Makes a namespace of this name in every cluster.
    pub async fn namespace(&self, name: &str) -> Result<()> {
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        for cluster in self.fleet.clusters() {
            let api = Api::all(cluster.client().await?);
            api.create(&PostParams::default(), &namespace).await?;
        }
        Ok(())
    }

    /// Returns once the hub says that the member has a session.
    pub async fn connected(&self, name: &str) -> Result<()> {
        self.connected_within(name, true, STEP_DEADLINE).await
    }

    /// Returns once the hub says whether the member has a session.
    pub async fn connected_within(
        &self,
        name: &str,
        connected: bool,
        within: Duration,
    ) -> Result<()> {
        let api: Api<MemberCluster> = Api::all(self.hub().client().await?);
        let says = |member: Option<&MemberCluster>| {
            let status = member.and_then(|member| member.status.as_ref());
            status.is_some_and(|status| is_true(&status.conditions, CONNECTED) == connected)
        };
        until(api, name, within, says).await?;
        Ok(())
    }

    /// Applies a server, as `kubectl apply --server-side` would.
    pub async fn apply(&self, server: &InferenceServer) -> Result<InferenceServer> {
        let namespace = server.metadata.namespace.as_deref().unwrap_or("default");
        let name = server
            .metadata
            .name
            .as_deref()
            .context("a server has a name")?;
        let api: Api<InferenceServer> = Api::namespaced(self.hub().client().await?, namespace);
        Ok(api
            .patch(
                name,
                &PatchParams::apply("e2e").force(),
                &Patch::Apply(server),
            )
            .await?)
    }

    /// Returns the server once it is Ready for its generation.
    pub async fn ready(&self, namespace: &str, name: &str) -> Result<InferenceServer> {
        self.server_until(namespace, name, |server| {
            let current = server.status.as_ref().is_some_and(|status| {
                Some(status.observed_generation) == server.metadata.generation
                    && is_true(&status.conditions, READY)
            });
            current && server.metadata.deletion_timestamp.is_none()
        })
        .await
    }

    /// Returns the server once `holds` does.
    pub async fn server_until(
        &self,
        namespace: &str,
        name: &str,
        holds: impl Fn(&InferenceServer) -> bool,
    ) -> Result<InferenceServer> {
        self.server_within(namespace, name, STEP_DEADLINE, holds)
            .await
    }

    /// Returns the server once `holds` does, however long that may take.
    pub async fn server_within(
        &self,
        namespace: &str,
        name: &str,
        within: Duration,
        holds: impl Fn(&InferenceServer) -> bool,
    ) -> Result<InferenceServer> {
        let api: Api<InferenceServer> = Api::namespaced(self.hub().client().await?, namespace);
        let condition = |server: Option<&InferenceServer>| server.is_some_and(&holds);
        match until(api.clone(), name, within, condition).await {
            Ok(server) => server.context("it was there"),
            Err(error) => {
                let now = api
                    .get_opt(name)
                    .await
                    .ok()
                    .flatten()
                    .and_then(|server| server.status);
                let now = serde_json::to_string(&now)?;
                Err(error.context(format!("InferenceServer {namespace}/{name} is {now}")))
            }
        }
    }

    /// Asks the hub's gateway, from the hub's own machine.
    pub async fn ask(&self, path: &str) -> Result<http::Response<String>> {
        let address: SocketAddr = self.hub().gateway_address();
        self.hub().get(address, path).await
    }
}

/// What the bed adds to a chart's values.
fn bed_values() -> Result<String> {
    let Some(pause) = std::env::var_os(RETRY_MS) else {
        return Ok(GATEWAY.to_owned());
    };
    let pause: u64 = pause
        .to_str()
        .and_then(|pause| pause.parse().ok())
        .with_context(|| format!("{RETRY_MS} must be a number of milliseconds"))?;
    Ok(format!(
        "{GATEWAY}retry: {{firstMs: {pause}, lastMs: {pause}}}\n"
    ))
}

/// Is the condition there and True?
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    conditions
        .iter()
        .any(|condition| condition.type_ == kind && condition.status == "True")
}

/// What a server's status says of a condition.
pub fn condition<'a>(server: &'a InferenceServer, kind: &str) -> Option<&'a Condition> {
    let mut conditions = server.status.as_ref()?.conditions.iter();
    conditions.find(|condition| condition.type_ == kind)
}

/// The example, in a namespace and for these clusters.
pub fn example_server(namespace: &str, targets: &[&str]) -> Result<InferenceServer> {
    let mut server: InferenceServer = example("inferenceserver.yaml")?;
    server.metadata.namespace = Some(namespace.to_owned());
    server.spec.cluster_targets = targets.iter().copied().map(ClusterTarget::new).collect();
    Ok(server)
}

/// Returns once a Deployment's replicas are ready.
pub async fn rolled_out(api: Api<Deployment>, name: &str) -> Result<()> {
    let ready = |deployment: Option<&Deployment>| {
        let status = deployment.and_then(|deployment| deployment.status.as_ref());
        let current = |deployment: &Deployment| {
            deployment
                .status
                .as_ref()
                .and_then(|status| status.observed_generation)
                == deployment.metadata.generation
        };
        status.is_some_and(|status| {
            status
                .ready_replicas
                .is_some_and(|ready| Some(ready) == status.replicas)
        }) && deployment.is_some_and(current)
    };
    until(api, name, STEP_DEADLINE, ready).await?;
    Ok(())
}

/// Reads an object from one of the repository's YAML files.
pub fn example<K: DeserializeOwned + Debug>(file: &str) -> Result<K> {
    let path = repository().join("examples").join(file);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))
}

/// A chart's folder.
pub fn chart(name: &str) -> PathBuf {
    repository().join("charts").join(name)
}

fn repository() -> &'static Path {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder.parent().unwrap_or(crate_folder)
}
