//! How long one server's creation, its change, and a replica's readiness take to the member and to the hub's status.
//!
//! The controller managers are frozen, so that nobody else's pace counts: the benchmark itself writes a Deployment's
//! status when replicas become ready. The product and the bare client have their turns one after the other.

mod client;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use crds::condition::{BACKEND_PROVISION, DISCOVERY_ROUTE_PROVISION, TRAFFIC_ROUTE_PROVISION};
use crds::v1alpha1::InferenceServer;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};

use self::client::Bare;
use super::bare::{self, Copies, MANAGER, Server};
use super::setting::{self, PROFILE, Setting};
use super::statistics::{Samples, milliseconds, ratio};
use super::verdict::{Verdict, say, show, tell};
use super::watched::Watched;
use crate::clock::monotonic;

const FIGURE: &str = "figure-1";
const FLOOR: &str = "floors-1";
/// As long as the other names: what the bare client writes is as large as what the product does.
const PATTERN: &str = "server-none";
const TARGET: f64 = 1.5;

/// What a person asks of the benchmark.
#[derive(Debug, clap::Args)]
pub(super) struct Latency {
    /// Servers of the product, each created, changed and made ready once, and as many of the bare client
    #[arg(long, default_value_t = 100)]
    rounds: u32,
}

/// Where one of the two has its turn, and what shows what came of it.
struct Side {
    namespace: &'static str,
    kind: ApiResource,
    servers: Api<DynamicObject>,
    deployments: Api<Deployment>,
    seen_servers: Watched<DynamicObject>,
    seen_deployments: Watched<Deployment>,
}

/// From a request to what it is to bring about.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// Until the Deployment in the member is as asked for.
    member: Duration,
    /// Until the hub's status says that all of it is.
    status: Duration,
}

/// All that is measured of one of the two.
#[derive(Debug, Default)]
struct Times {
    created: Vec<Arrival>,
    changed: Vec<Arrival>,
    flipped: Vec<Duration>,
}

impl Times {
    fn samples(&self) -> [(&'static str, Samples); 5] {
        let member = |of: &[Arrival]| of.iter().map(|arrival| arrival.member).collect();
        let status = |of: &[Arrival]| of.iter().map(|arrival| arrival.status).collect();
        [
            ("created_member", member(&self.created)),
            ("created_status", status(&self.created)),
            ("changed_member", member(&self.changed)),
            ("changed_status", status(&self.changed)),
            ("flipped_status", self.flipped.iter().copied().collect()),
        ]
    }
}

impl Latency {
    pub(super) async fn run(self, product: Option<&Path>) -> Result<Verdict> {
        ensure!(self.rounds > 0, "something has to run");
        let setting = Setting {
            members: 1,
            audit: false,
            fake_pods: 0,
        };
        let installed = setting::start(setting, product).await?;
        for namespace in [FIGURE, FLOOR] {
            installed.namespace(namespace).await?;
        }
        setting::pause_controllers(&installed, true).await?;
        let hub = installed.hub().direct_client().await?;
        let [cluster] = installed.fleet().members() else {
            anyhow::bail!("the fleet has one member")
        };
        let member = cluster.direct_client().await?;
        bare::install(&hub).await?;
        bare::install(&member).await?;
        let product = ApiResource::erase::<InferenceServer>(&());
        let mut figure = Side::begin(FIGURE, product, &hub, &member).await?;
        figure.apply(PATTERN, 1).await?;
        installed
            .server_until(FIGURE, PATTERN, setting::is_written)
            .await?;
        let from = Server {
            namespace: FIGURE,
            name: PATTERN,
        };
        let member_clients = std::slice::from_ref(&member);
        let written = Copies::take(&hub, member_clients, from).await?;
        // The slices come with the first replica that is ready; the status stays that of a server without.
        figure.flip(PATTERN, 1).await?;
        let pattern = Copies {
            status: written.status,
            ..Copies::take(&hub, member_clients, from).await?
        };
        let bare = Bare::start(hub.clone(), member.clone(), pattern).await?;
        let mut floor = Side::begin(FLOOR, bare::servers(), &hub, &member).await?;

        tell("creating, changing and flipping");
        let (mut figures, mut floors) = (Times::default(), Times::default());
        for round in 0..self.rounds {
            let name = format!("server-{round:04}");
            for (side, times) in [(&mut figure, &mut figures), (&mut floor, &mut floors)] {
                times.created.push(side.apply(&name, 1).await?);
                times.changed.push(side.apply(&name, 2).await?);
            }
            ensure!(bare.runs(), "the bare client has ended");
        }
        // Only now: a slice that was written within the last second may have to wait for its next write.
        for round in 0..self.rounds {
            let name = format!("server-{round:04}");
            for (side, times) in [(&mut figure, &mut figures), (&mut floor, &mut floors)] {
                times.flipped.push(side.flip(&name, 2).await?);
            }
            ensure!(bare.runs(), "the bare client has ended");
        }
        Ok(verdict(&figures, &floors))
    }
}

impl Side {
    async fn begin(
        namespace: &'static str,
        kind: ApiResource,
        hub: &Client,
        member: &Client,
    ) -> Result<Self> {
        let servers: Api<DynamicObject> = Api::namespaced_with(hub.clone(), namespace, &kind);
        let deployments: Api<Deployment> = Api::namespaced(member.clone(), namespace);
        let all = watcher::Config::default;
        Ok(Self {
            namespace,
            kind,
            seen_servers: Watched::begin("the servers", servers.clone(), all()).await?,
            seen_deployments: Watched::begin("the Deployments", deployments.clone(), all()).await?,
            servers,
            deployments,
        })
    }

    /// Creates a server, or changes how many replicas it has.
    async fn apply(&mut self, name: &str, replicas: u32) -> Result<Arrival> {
        let server = setting::server(self.namespace, name, PROFILE, &["member-1"], replicas)?;
        let mut server = serde_json::to_value(server)?;
        if let Some(version) = server.pointer_mut("/apiVersion") {
            *version = self.kind.api_version.clone().into();
        }
        let parameters = PatchParams::apply(MANAGER).force();
        let begin = monotonic();
        let apply = async {
            let patch = Patch::Apply(&server);
            self.servers.patch(name, &parameters, &patch).await?;
            Ok(())
        };
        let wanted = i32::try_from(replicas)?;
        let ((), (_, member), (_, status)) = tokio::try_join!(
            apply,
            self.seen_deployments.until(|deployment| {
                let spec = deployment.spec.as_ref();
                deployment.name_any() == name
                    && spec.is_some_and(|spec| spec.replicas == Some(wanted))
            }),
            self.seen_servers
                .until(|server| server.name_any() == name && holds_all(server, replicas)),
        )?;
        Ok(Arrival {
            member: member.saturating_duration_since(begin),
            status: status.saturating_duration_since(begin),
        })
    }

    /// Has all replicas become ready, as the Deployment controller would say it: until the hub's status says so.
    async fn flip(&mut self, name: &str, replicas: u32) -> Result<Duration> {
        let generation = self.deployments.get(name).await?.metadata.generation;
        let status = json!({"status": {
            "observedGeneration": generation,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": replicas,
            "availableReplicas": replicas,
        }});
        let parameters = PatchParams::default();
        let begin = monotonic();
        let flip = async {
            let patch = Patch::Merge(&status);
            self.deployments
                .patch_status(name, &parameters, &patch)
                .await?;
            Ok(())
        };
        let ((), (_, told)) = tokio::try_join!(
            flip,
            self.seen_servers.until(|server| {
                server.name_any() == name && cluster(server, "ready") == Some(replicas.into())
            }),
        )?;
        Ok(told.saturating_duration_since(begin))
    }
}

/// Replicas of the one cluster in a server's status.
fn cluster(server: &DynamicObject, replicas: &str) -> Option<u64> {
    let status = server.data.get("status")?;
    let path = format!("/clusters/0/replicas/{replicas}");
    status.pointer(&path)?.as_u64()
}

/// Does the status say, of this generation, that the member holds all objects of so many replicas, and that both routes are
/// accepted?
fn holds_all(server: &DynamicObject, replicas: u32) -> bool {
    let Some(status) = server.data.get("status") else {
        return false;
    };
    let observed = status.get("observedGeneration").and_then(Value::as_i64);
    let conditions = status.get("conditions").and_then(Value::as_array);
    let is_true = |kind: &str| {
        conditions.into_iter().flatten().any(|condition| {
            condition.get("type").and_then(Value::as_str) == Some(kind)
                && condition.get("status").and_then(Value::as_str) == Some("True")
        })
    };
    let steps = [
        BACKEND_PROVISION,
        TRAFFIC_ROUTE_PROVISION,
        DISCOVERY_ROUTE_PROVISION,
    ];
    let provisioned = steps.into_iter().all(is_true);
    observed == server.metadata.generation
        && provisioned
        && cluster(server, "wanted") == Some(replicas.into())
}

fn verdict(figures: &Times, floors: &Times) -> Verdict {
    let mut rows = Vec::new();
    let mut more = Map::new();
    // The one that is furthest from its floor stands for all.
    let mut worst = (Duration::ZERO, Duration::ZERO, 0.0);
    for ((what, figure), (_, floor)) in figures.samples().into_iter().zip(floors.samples()) {
        let mut part = Map::new();
        for percent in [50, 99] {
            let (figure, floor) = (figure.percentile(percent), floor.percentile(percent));
            let ratio = ratio(figure, floor);
            rows.push(vec![
                format!("{what}, p{percent}"),
                format!("{:.1}", milliseconds(figure)),
                format!("{:.1}", milliseconds(floor)),
                format!("{ratio:.2}"),
            ]);
            part.insert(format!("p{percent}"), milliseconds(figure).into());
            part.insert(format!("floor_p{percent}"), milliseconds(floor).into());
            if percent == 99 && ratio > worst.2 {
                worst = (figure, floor, ratio);
            }
        }
        more.insert(what.to_owned(), part.into());
    }
    say(&format!("{} servers each, in ms", figures.created.len()));
    show(&["", "product", "bare client", "ratio"], rows);
    let (figure, floor, ratio) = worst;
    Verdict {
        bench: "latency",
        figure: milliseconds(figure),
        unit: "ms (p99 of the worst)",
        floor: Some(milliseconds(floor)),
        ratio: Some(ratio),
        target: format!("each p99 ≤ {TARGET} × floor"),
        ok: ratio <= TARGET,
        more,
    }
}
