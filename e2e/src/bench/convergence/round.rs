//! One run of the product and one of the bare client, of `convergence`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use crds::v1alpha1::InferenceServer;
use futures::stream::{self, TryStreamExt};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, runtime::watcher};

use crate::audit::{self, Request};
use crate::bench::bare::{Copies, Server};
use crate::bench::floor::{Floor, Writes};
use crate::bench::requests::{marks, quiet};
use crate::bench::setting;
use crate::bench::usage::{Usage, usage};
use crate::bench::watched::Watched;
use crate::{Cluster, Installed};

/// What one run of the product came to.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) time: Duration,
    pub(super) cpu: Duration,
    pub(super) writes: Writes,
}

/// The fleet, and what the benchmark holds of it.
pub(super) struct Run<'a> {
    pub(super) installed: &'a Installed,
    pub(super) hub: Client,
    pub(super) members: Vec<Client>,
    pub(super) servers: usize,
}

impl Run<'_> {
    fn clusters(&self) -> &[Cluster] {
        self.installed.fleet().clusters()
    }

    async fn watch(&self, namespace: &str) -> Result<Watched<InferenceServer>> {
        let api = Api::namespaced(self.hub.clone(), namespace);
        Watched::begin("the servers", api, watcher::Config::default()).await
    }

    pub(super) async fn ready(&self, namespace: &str) -> Result<()> {
        let watch = self.watch_all(namespace);
        setting::all(watch, self.servers, setting::is_ready).await?;
        quiet(self.installed).await
    }

    /// As `watch`, with what is there first.
    fn watch_all(&self, namespace: &str) -> Watched<InferenceServer> {
        let api = Api::namespaced(self.hub.clone(), namespace);
        Watched::with_what_is_there("the servers", api, watcher::Config::default())
    }

    /// Applies all servers, and returns with the product's last write.
    pub(super) async fn product(&self, namespace: &str) -> Result<Round> {
        let api: Api<InferenceServer> = Api::namespaced(self.hub.clone(), namespace);
        let watch = self.watch(namespace).await?;
        let (marks, before) = (marks(self.installed)?, used()?);
        setting::serve(
            self.installed,
            &api,
            watch,
            self.servers,
            setting::is_written,
        )
        .await?;
        quiet(self.installed).await?;
        let cpu = used()?.cpu.saturating_sub(before.cpu);
        let mut requests = Vec::new();
        for (cluster, mark) in self.clusters().iter().zip(&marks) {
            requests.push(audit::since(cluster, *mark)?);
        }
        let of_namespace =
            |request: &&Request| request.namespace == namespace && request.is_write();
        let first = requests
            .iter()
            .flatten()
            .filter(of_namespace)
            .map(|request| request.received);
        let last = requests.iter().flatten().filter(of_namespace);
        let last = last
            .filter(|request| request.is_ours())
            .map(|request| request.answered);
        let time = between(first.min(), last.max())?;
        for of_cluster in &mut requests {
            of_cluster.retain(Request::is_ours);
        }
        Ok(Round {
            time,
            cpu,
            writes: Writes::of(namespace, &requests),
        })
    }

    /// Has the bare client write the same, and returns how long it took.
    pub(super) async fn bare(
        &self,
        figure: &str,
        namespace: &str,
        writes: &Writes,
    ) -> Result<Duration> {
        let names: Vec<_> = (0..self.servers).map(setting::name).collect();
        let first = names.first().context("there is a server")?;
        let from = Server {
            namespace: figure,
            name: first,
        };
        let pattern = Copies::take(&self.hub, &self.members, from).await?;
        let copies: Vec<_> = names
            .iter()
            .map(|name| {
                (
                    name.as_str(),
                    pattern.of(&from, &Server { namespace, name }),
                )
            })
            .collect();
        let marks = marks(self.installed)?;
        let floor = Floor::new(self.hub.clone(), self.members.clone(), namespace);
        stream::iter(copies.iter().map(Ok))
            .try_for_each_concurrent(None, async |(name, copies)| {
                floor.write(name, copies, writes).await
            })
            .await?;
        let mut requests = Vec::new();
        for (cluster, mark) in self.clusters().iter().zip(&marks) {
            requests.extend(audit::since(cluster, *mark)?);
        }
        requests.retain(|request| {
            request.namespace == namespace && request.is_write() && request.user == "bed:admin"
        });
        let failed = requests.iter().find(|request| request.code >= 400);
        ensure!(failed.is_none(), "the bare client was refused: {failed:?}");
        let first = requests.iter().map(|request| request.received).min();
        between(first, requests.iter().map(|request| request.answered).max())
    }
}

/// What hub and agents have used, together.
fn used() -> Result<Usage> {
    let (hub, agents) = (usage("hub")?, usage("agent")?);
    Ok(Usage {
        cpu: hub.cpu + agents.cpu,
        resident: hub.resident + agents.resident,
        processes: hub.processes + agents.processes,
    })
}

fn between(first: Option<Timestamp>, last: Option<Timestamp>) -> Result<Duration> {
    let (first, last) = first.zip(last).context("nothing was written")?;
    Ok(last.duration_since(first).unsigned_abs())
}
