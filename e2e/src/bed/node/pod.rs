//! The life of one Pod: network, volumes, init containers, containers, end.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::watch;

use super::container::{Runner, Stop};
use super::environment::Place;
use super::status::{Facts, View, Views, status};
use super::volumes::Volumes;
use super::{Context, Newest};
use crate::bed::net::{DEFAULT, Netns, host};
use crate::clock;

/// How often volumes are compared with what they come from.
const REFRESH: Duration = Duration::from_secs(20);
/// Between two tries to set a Pod up or to write its status.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// What the Pod's status is made of.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) views: Views,
    pub(super) facts: Facts,
}

struct Worker {
    context: Arc<Context>,
    pod: Arc<Pod>,
    newest: Newest,
    shown: Arc<watch::Sender<Shown>>,
    stop: watch::Sender<Option<Duration>>,
}

/// Runs the Pod from its binding to its end.
pub(super) async fn run(context: Arc<Context>, pod: Arc<Pod>, newest: Newest) {
    let facts = Facts {
        address: None,
        node_address: context.addresses.node().to_string(),
        started: clock::time(),
        terminating: false,
    };
    let spec = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let views = spec.map(|container| (container.name.clone(), first_view(&context, container))).collect();
    let folder = context.pods.join(pod.uid().unwrap_or_default());
    let worker = Worker {
        context,
        pod,
        newest,
        shown: Arc::new(watch::channel(Shown { views, facts }).0),
        stop: watch::channel(None).0,
    };
    tokio::select! {
        () = worker.write_status() => {}
        ((), ()) = async { tokio::join!(worker.live(), worker.wait_for_deletion()) } => {}
    }
    worker.delete().await;
    // Mounted roots were private to processes that are gone.
    drop(std::fs::remove_dir_all(folder));
}

fn first_view(context: &Context, container: &Container) -> View {
    let image = container.image.as_deref().unwrap_or_default();
    if context.program(image).is_some() {
        return View::waiting("ContainerCreating", "");
    }
    let known: Vec<_> = context.images.keys().map(String::as_str).collect();
    let message = format!("the process node has no program for {image:?}; it has: {}", known.join(", "));
    View::waiting("ErrImagePull", &message)
}

impl Worker {
    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.context.client.clone(), &self.pod.namespace().unwrap_or_default())
    }

    fn stopped(&self) -> Stop {
        self.stop.subscribe()
    }

    /// Waits until the Pod shall end, and passes that on. Returns when it shall end at once or its
    /// containers have been told.
    async fn wait_for_deletion(&self) {
        let mut newest = self.newest.clone();
        let deleted = |pod: &Option<Arc<Pod>>| {
            pod.as_ref().is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
        };
        let grace = match newest.wait_for(deleted).await.as_deref() {
            Ok(Some(pod)) => pod.metadata.deletion_grace_period_seconds.unwrap_or(30),
            Ok(None) | Err(_) => 0,
        };
        self.shown.send_modify(|shown| shown.facts.terminating = true);
        self.stop.send_replace(Some(Duration::from_secs(u64::try_from(grace).unwrap_or_default())));
    }

    /// Everything up to the end of the last container.
    async fn live(&self) {
        let images = self.pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
        let known = images.map(|container| container.image.as_deref().unwrap_or_default());
        if known.into_iter().any(|image| self.context.program(image).is_none()) {
            return;
        }
        let Some((netns, place)) = self.until_it_works(|| self.network()).await else { return };
        let mut volumes = Volumes::new(self.context.client.clone(), self.folder().join("volumes"));
        loop {
            match volumes.write(&self.pod).await {
                Ok(()) => break,
                Err(error) => self.explain(&error),
            }
            if stops_within(&mut self.stopped(), TRY_AGAIN).await {
                return;
            }
        }
        let spec = self.pod.spec.clone().unwrap_or_default();
        let policy = spec.restart_policy.clone().unwrap_or_else(|| "Always".to_owned());
        let runner = |container: Container, restart: &str| Runner {
            context: Arc::clone(&self.context),
            netns: Arc::clone(&netns),
            pod: Arc::clone(&self.pod),
            container,
            place: place.clone(),
            folder: self.folder(),
            volumes: self.folder().join("volumes"),
            shown: Arc::clone(&self.shown),
            stop: self.stopped(),
            restart: restart.to_owned(),
        };
        // An init container that fails is tried again, unless the Pod is never to be restarted.
        let restart = if policy == "Never" { "Never" } else { "OnFailure" };
        for container in spec.init_containers.into_iter().flatten() {
            if !runner(container, restart).run().await {
                return;
            }
        }
        let containers = join_all(spec.containers.into_iter().map(|container| runner(container, &policy).run()));
        tokio::select! {
            _ = containers => {}
            () = self.refresh(&mut volumes) => {}
        }
    }

    fn folder(&self) -> std::path::PathBuf {
        self.context.pods.join(self.pod.uid().unwrap_or_default())
    }

    async fn until_it_works<T, F: Future<Output = Result<T>>>(&self, attempt: impl Fn() -> F) -> Option<T> {
        loop {
            match attempt().await {
                Ok(value) => return Some(value),
                Err(error) => self.explain(&error),
            }
            if stops_within(&mut self.stopped(), TRY_AGAIN).await {
                return None;
            }
        }
    }

    /// Shows why the containers haven't been made yet.
    fn explain(&self, error: &anyhow::Error) {
        let view = View::waiting("ContainerCreating", &format!("{error:#}"));
        self.shown.send_if_modified(|shown| {
            let differs = shown.views.values().any(|shown| *shown != view);
            shown.views.values_mut().for_each(|shown| *shown = view.clone());
            differs
        });
    }

    /// The Pod's network namespace, behind the cluster's.
    async fn network(&self) -> Result<(Arc<Netns>, Place)> {
        let addresses = self.context.addresses;
        let address: Ipv4Addr = self.context.next_address();
        let [_, _, high, low] = address.octets();
        let (cluster, link) = (&self.context.netns, format!("pod-{high}-{low}"));
        let netns = Netns::create().await?;
        cluster.join(&link, &netns, "eth0").await.context("connect the Pod")?;
        netns.add_address("eth0", address, 32).await?;
        netns.route(host(addresses.pod_router()), "eth0", None).await?;
        netns.route(DEFAULT, "eth0", Some(addresses.pod_router())).await?;
        cluster.route(host(address), &link, None).await?;
        let address = address.to_string();
        self.shown.send_modify(|shown| shown.facts.address = Some(address.clone()));
        Ok((Arc::new(netns), Place { address, addresses }))
    }

    async fn refresh(&self, volumes: &mut Volumes) {
        let mut turns = tokio::time::interval(REFRESH);
        turns.tick().await;
        loop {
            turns.tick().await;
            let newest = self.newest.borrow().clone();
            if let Some(pod) = newest
                && let Err(error) = volumes.write(&pod).await
            {
                tracing::debug!(error = format!("{error:#}"), "refresh volumes");
            }
        }
    }

    /// Writes the status whenever it differs, for ever.
    async fn write_status(&self) {
        let mut changes = self.shown.subscribe();
        let mut written: Option<PodStatus> = None;
        loop {
            let shown = changes.borrow_and_update().clone();
            let newest = self.newest.borrow().clone();
            let Some(newest) = newest else { std::future::pending().await };
            let wanted = status(&newest, &shown.views, &shown.facts, &clock::time());
            if written.as_ref() != Some(&wanted) {
                match self.patch(&wanted).await {
                    Ok(()) => written = Some(wanted),
                    Err(error) => {
                        tracing::debug!(error = format!("{error:#}"), "write a Pod's status");
                        tokio::time::sleep(TRY_AGAIN).await;
                        continue;
                    }
                }
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn patch(&self, status: &PodStatus) -> Result<()> {
        // The UID makes sure that a namesake is left alone.
        let patch = json!({"metadata": {"uid": self.pod.uid()}, "status": status});
        let patch = Patch::Strategic(patch);
        self.api().patch_status(&self.pod.name_any(), &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Tells the API server that nothing of the Pod is left here.
    async fn delete(&self) {
        if self.newest.borrow().is_none() {
            return;
        }
        let shown = self.shown.borrow().clone();
        let last = status(&self.pod, &shown.views, &shown.facts, &clock::time());
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: self.pod.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        // The status is a courtesy; the deletion is tried until the Pod is gone.
        drop(self.patch(&last).await);
        while self.newest.borrow().is_some() {
            match self.api().delete(&self.pod.name_any(), &params).await {
                Ok(_) => return,
                // Gone, or another of the same name.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
                Err(error) => tracing::debug!(%error, "delete a Pod"),
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }
}

async fn stops_within(stop: &mut Stop, time: Duration) -> bool {
    tokio::time::timeout(time, stop.wait_for(Option::is_some)).await.is_ok()
}
