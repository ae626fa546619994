//! What benchmarks run on: a fleet with Inferfleet, namespaces, servers whose Pods cost nothing.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use crds::condition::{
    BACKEND_PROVISION, DISCOVERY_ROUTE_PROVISION, MODEL_CONFIG_PROVISION, READY,
    TRAFFIC_ROUTE_PROVISION, VALIDATION,
};
use crds::v1alpha1::{InferenceServer, RuntimeProfile};
use futures::stream::{self, TryStreamExt};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::verdict::tell;
use super::watched::Watched;
use crate::installed::is_true;
use crate::{Fleet, Installed, Product};

/// A RuntimeProfile whose image no program stands for: its Pods go to fake nodes.
pub(super) const PROFILE: &str = "bench";
/// Applies of the user at once.
const APPLIES_AT_ONCE: usize = 32;
/// Pods that a fake node takes.
const PODS_PER_NODE: usize = 200;

/// What a benchmark needs of its fleet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) members: usize,
    /// Whether API servers write audit logs.
    pub(super) audit: bool,
    /// Pods that each member's fake nodes have to hold.
    pub(super) fake_pods: usize,
}

/// Starts the fleet and installs Inferfleet on it: what is in `product`, or built as this program was.
pub(super) async fn start(setting: Setting, product: Option<&Path>) -> Result<Installed> {
    if cfg!(debug_assertions) {
        tell("this is not a release build: the bare client is slow, and the ratios flatter");
    }
    let product = if let Some(folder) = product {
        Product::at(folder)?
    } else {
        tell("building hub, agent, echo and kubectl-inferfleet");
        tokio::task::spawn_blocking(Product::build).await??
    };
    tell("starting the fleet");
    let fleet = Fleet::builder()
        .members(setting.members)
        .audit(setting.audit)
        .fake_nodes(setting.fake_pods.div_ceil(PODS_PER_NODE))
        .product(&product)
        .start()
        .await?;
    tell("installing Inferfleet");
    let names = (1..=setting.members).map(|number| format!("member-{number}"));
    let installed = Installed::install(fleet, product, names.collect(), |_, _| {}).await?;
    let api: Api<RuntimeProfile> = Api::all(installed.hub().client().await?);
    api.create(&PostParams::default(), &profile()?).await?;
    Ok(installed)
}

/// Freezes every controller manager, or lets them go on: they work at a pace of their own.
pub(super) async fn pause_controllers(installed: &Installed, paused: bool) -> Result<()> {
    for cluster in installed.fleet().clusters() {
        if paused {
            cluster.pause_controller_manager().await?;
        } else {
            cluster.resume_controller_manager().await?;
        }
    }
    Ok(())
}

/// A server like the example, with another profile. It asks for no probe: Pods of fake nodes would answer none, and each that is
/// not answered is news in a status.
pub(super) fn server(
    namespace: &str,
    name: &str,
    profile: &str,
    targets: &[&str],
    replicas: u32,
) -> Result<InferenceServer> {
    let targets: Vec<_> = targets
        .iter()
        .map(|name| json!({"clusterId": name}))
        .collect();
    Ok(serde_json::from_value(json!({
        "apiVersion": "inferfleet.io/v1alpha1",
        "kind": "InferenceServer",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "clusterTargets": targets,
            "runtime": {"profile": profile},
            "model": {"uri": "echo://hello"},
            "endpoints": {"probe": "Off"},
            "replicas": replicas,
            "resources": {
                "requests": {"cpu": "10m", "memory": "16Mi"},
                "limits": {"memory": "64Mi"},
            },
        },
    }))?)
}

/// Applies a server as a user would, on an API that is there already.
pub(super) async fn apply(
    api: &Api<InferenceServer>,
    server: &InferenceServer,
) -> Result<InferenceServer> {
    let name = server.metadata.name.as_deref().unwrap_or_default();
    let parameters = PatchParams::apply("bench").force();
    Ok(api.patch(name, &parameters, &Patch::Apply(server)).await?)
}

/// Applies so many servers for all members, as users would at one time, and returns once `holds` for all.
pub(super) async fn serve(
    installed: &Installed,
    api: &Api<InferenceServer>,
    watch: Watched<InferenceServer>,
    servers: usize,
    holds: fn(&InferenceServer) -> bool,
) -> Result<()> {
    let namespace = api.namespace().unwrap_or_default();
    let targets: Vec<_> = installed.members().map(|(name, _)| name).collect();
    let wanted: Vec<_> = (0..servers)
        .map(|number| server(namespace, &name(number), PROFILE, &targets, 1))
        .collect::<Result<_>>()?;
    let applies = stream::iter(wanted.iter().map(Ok)).try_for_each_concurrent(
        APPLIES_AT_ONCE,
        async |server| {
            apply(api, server).await?;
            anyhow::Ok(())
        },
    );
    tokio::try_join!(applies, all(watch, servers, holds))?;
    Ok(())
}

fn is(server: &InferenceServer, conditions: &[&str]) -> bool {
    server.status.as_ref().is_some_and(|status| {
        Some(status.observed_generation) == server.metadata.generation
            && conditions
                .iter()
                .all(|kind| is_true(&status.conditions, kind))
    })
}

/// All that can be without a controller manager: only the replicas are missing, and endpoints that lead to them.
pub(super) fn is_written(server: &InferenceServer) -> bool {
    is(
        server,
        &[
            VALIDATION,
            BACKEND_PROVISION,
            MODEL_CONFIG_PROVISION,
            TRAFFIC_ROUTE_PROVISION,
            DISCOVERY_ROUTE_PROVISION,
        ],
    )
}

/// Ready, for its generation.
pub(super) fn is_ready(server: &InferenceServer) -> bool {
    is(server, &[READY])
}

/// The name of one of many servers: all are of one length.
pub(super) fn name(number: usize) -> String {
    format!("server-{number:04}")
}

/// Returns once `holds` for so many servers.
pub(super) async fn all(
    mut watch: Watched<InferenceServer>,
    servers: usize,
    holds: fn(&InferenceServer) -> bool,
) -> Result<()> {
    let mut done = BTreeSet::new();
    let every = |server: &InferenceServer| {
        if holds(server) {
            done.insert(server.name_any());
        } else {
            done.remove(&server.name_any());
        }
        done.len() == servers
    };
    watch.until(every).await?;
    Ok(())
}

pub(super) fn profile() -> Result<RuntimeProfile> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "inferfleet.io/v1alpha1",
        "kind": "RuntimeProfile",
        "metadata": {"name": PROFILE},
        "spec": {
            "images": [{"vendor": "none", "image": "bench.invalid/nothing:1"}],
            "args": ["--listen=0.0.0.0:$(port.http)"],
            "ports": [{"name": "http", "port": 8080}],
            "probes": {
                "readiness": {"path": "/v2/health/ready"},
                "liveness": {"path": "/v2/health/live"},
            },
            "drainSeconds": 5,
        },
    }))?)
}
