//! Does a member that answers nothing slow the others? A change of a server on the healthy members alone, beside a change
//! of one that targets a member with a frozen API server as well.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use crds::v1alpha1::{ClusterStatus, InferenceServer};
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::setting::{self, PROFILE, Setting};
use super::statistics::{Samples, milliseconds, ratio};
use super::verdict::{Verdict, say, show, tell};
use super::watched::Watched;
use crate::clock::monotonic;
use crate::{Cluster, Installed};

const NAMESPACE: &str = "blackhole";
/// The two servers: on the healthy members, and on all.
const HEALTHY: &str = "healthy";
const ALL: &str = "all";
/// The medians may differ by less than this part.
const TARGET: f64 = 0.1;

/// What a person asks of the benchmark.
#[derive(Debug, clap::Args)]
pub(super) struct Blackhole {
    /// Members that are well, beside the one that dies
    #[arg(long, default_value_t = 5)]
    healthy: usize,
    /// Pairs of both, in turn
    #[arg(long, default_value_t = 10)]
    pairs: u32,
    /// Changes in each half of a pair, of which the median counts
    #[arg(long, default_value_t = 25)]
    changes: u32,
}

/// What some changes of a server took.
struct Half {
    /// The first: beside a dead member, that of which nobody knows yet that it is dead.
    first: Duration,
    median: Duration,
}

/// What shows that a change is done.
struct Run<'a> {
    dead: &'a Cluster,
    names: Vec<&'a str>,
    api: Api<InferenceServer>,
    servers: Watched<InferenceServer>,
    deployments: Vec<Watched<Deployment>>,
    replicas: u32,
}

impl Blackhole {
    pub(super) async fn run(self, product: Option<&Path>) -> Result<Verdict> {
        ensure!(
            self.healthy > 0 && self.pairs > 0 && self.changes > 0,
            "something has to run"
        );
        let setting = Setting {
            members: self.healthy + 1,
            audit: false,
            fake_pods: 0,
        };
        let installed = setting::start(setting, product).await?;
        installed.namespace(NAMESPACE).await?;
        // Nothing of what is measured waits for a controller manager, and several take their time of the machine.
        setting::pause_controllers(&installed, true).await?;
        let mut run = Run::begin(&installed, self.healthy).await?;
        for name in [HEALTHY, ALL] {
            run.change(name).await?;
            installed
                .server_until(NAMESPACE, name, setting::is_written)
                .await?;
        }
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for pair in 0..self.pairs {
            tell(&format!("pair {}", pair + 1));
            // Neither is always the first.
            if pair.is_multiple_of(2) {
                alone.push(self.half(&mut run, HEALTHY).await?);
                beside.push(self.beside_the_dead(&mut run).await?);
            } else {
                beside.push(self.beside_the_dead(&mut run).await?);
                alone.push(self.half(&mut run, HEALTHY).await?);
            }
        }
        Ok(self.verdict(&alone, &beside))
    }

    /// Some changes of a server.
    async fn half(&self, run: &mut Run<'_>, name: &str) -> Result<Half> {
        let mut times = Vec::new();
        for _ in 0..self.changes {
            times.push(run.change(name).await?);
        }
        Ok(Half {
            first: times.first().copied().unwrap_or_default(),
            median: times.into_iter().collect::<Samples>().median(),
        })
    }

    async fn beside_the_dead(&self, run: &mut Run<'_>) -> Result<Half> {
        run.dead.pause_api_server().await?;
        let half = self.half(run, ALL).await;
        run.dead.resume_api_server().await?;
        run.caught_up().await?;
        half
    }

    fn verdict(&self, alone: &[Half], beside: &[Half]) -> Verdict {
        say(&format!(
            "ms from the apply of a change until it is done in {} healthy members, medians of {}",
            self.healthy, self.changes
        ));
        let rows = alone.iter().zip(beside).zip(1..);
        show(
            &[
                "pair",
                "healthy alone",
                "beside a dead one",
                "ratio",
                "first change",
            ],
            rows.map(|((alone, beside), pair): ((&Half, &Half), u32)| {
                vec![
                    pair.to_string(),
                    format!("{:.1}", milliseconds(alone.median)),
                    format!("{:.1}", milliseconds(beside.median)),
                    format!("{:.2}", ratio(beside.median, alone.median)),
                    format!("{:.1}", milliseconds(beside.first)),
                ]
            }),
        );
        let median = |halves: &[Half], of: fn(&Half) -> Duration| {
            halves.iter().map(of).collect::<Samples>().median()
        };
        let floor = median(alone, |half| half.median);
        let figure = median(beside, |half| half.median);
        let first = [alone, beside].map(|halves| median(halves, |half| half.first));
        let [first_alone, first_beside] = first.map(milliseconds);
        let ratio = ratio(figure, floor);
        let more = json!({
            "pairs": self.pairs, "healthy": self.healthy, "changes": self.changes,
            "first_alone": first_alone, "first_beside": first_beside,
        });
        Verdict {
            bench: "blackhole",
            figure: milliseconds(figure),
            unit: "ms (median)",
            floor: Some(milliseconds(floor)),
            ratio: Some(ratio),
            target: "medians differ by less than 10 %".to_owned(),
            ok: (ratio - 1.0).abs() < TARGET,
            more: more.as_object().cloned().unwrap_or_default(),
        }
    }
}

impl<'a> Run<'a> {
    async fn begin(installed: &'a Installed, healthy: usize) -> Result<Self> {
        let api: Api<InferenceServer> =
            Api::namespaced(installed.hub().direct_client().await?, NAMESPACE);
        let all = watcher::Config::default;
        let mut deployments = Vec::new();
        for (_, cluster) in installed.members().take(healthy) {
            let client = cluster.direct_client().await?;
            let of_member = Api::namespaced(client, NAMESPACE);
            deployments.push(Watched::begin("Deployments", of_member, all()).await?);
        }
        Ok(Self {
            dead: installed.fleet().members().last().context("a member")?,
            names: installed.members().map(|(name, _)| name).collect(),
            servers: Watched::begin("the servers", api.clone(), all()).await?,
            api,
            deployments,
            replicas: 0,
        })
    }

    /// Changes a server: until the Deployment in each healthy member is as asked for, and the hub's status says so.
    async fn change(&mut self, name: &str) -> Result<Duration> {
        self.replicas = self.replicas % 100 + 1;
        let replicas = self.replicas;
        let healthy = self.names.get(..self.deployments.len()).unwrap_or_default();
        let targets = if name == ALL { &self.names } else { healthy };
        let server = setting::server(NAMESPACE, name, PROFILE, targets, replicas)?;
        let wanted = i32::try_from(replicas)?;
        let begin = monotonic();
        let written = self.deployments.iter_mut().map(|deployments| {
            deployments.until(move |deployment| {
                let spec = deployment.spec.as_ref();
                deployment.name_any() == name
                    && spec.is_some_and(|spec| spec.replicas == Some(wanted))
            })
        });
        let told = self
            .servers
            .until(|server| server.name_any() == name && tells(server, healthy, replicas));
        let (_, written, (_, told)) = tokio::try_join!(
            setting::apply(&self.api, &server),
            try_join_all(written),
            told
        )?;
        let last: Option<Instant> = written.into_iter().map(|(_, seen)| seen).max();
        let done = last.map_or(told, |last| last.max(told));
        Ok(done.saturating_duration_since(begin))
    }

    /// Returns once the member that was dead holds the newest as well.
    async fn caught_up(&mut self) -> Result<()> {
        let (names, replicas) = (&self.names, self.replicas);
        let api = self.api.clone();
        let mut servers =
            Watched::with_what_is_there("the servers", api, watcher::Config::default());
        servers
            .until(|server| server.name_any() == ALL && tells(server, names, replicas))
            .await?;
        Ok(())
    }
}

/// Does the status say that each of these clusters has been told of so many replicas, and holds all objects?
fn tells(server: &InferenceServer, clusters: &[&str], replicas: u32) -> bool {
    let told = server.status.iter().flat_map(|status| &status.clusters);
    let is_done = |status: &&ClusterStatus| {
        clusters.contains(&status.cluster_id.as_str()) && status.replicas.wanted == replicas
    };
    told.filter(is_done).count() == clusters.len()
}
