//! How long the hub plans one server that targets a thousand clusters. No fleet: the planner alone, in this process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use crds::ClusterName;
use crds::v1alpha1::{EndpointPolicy, GatewayReference, InferenceServer};
use hub_plan::facts::{ClusterFacts, Facts, Fleet, Observed, RouteSchema};
use hub_plan::memory::published;
use hub_plan::overrides::{Pinned, Profiles};
use jiff::Timestamp;
use serde_json::json;

use super::setting;
use super::statistics::{Samples, milliseconds, ratio};
use super::verdict::{Verdict, show};
use crate::clock::monotonic;

const TARGET_MS: f64 = 5.0;
/// All that a status may be (etcd takes objects of 1.5 MiB).
const STATUS_MAX: usize = 256 * 1024;

/// What a person asks of the benchmark.
#[derive(Debug, clap::Args)]
pub(super) struct Plan {
    #[arg(long, default_value_t = 1000)]
    targets: usize,
    /// Plans, and as many encodings, in turn
    #[arg(long, default_value_t = 200)]
    rounds: usize,
}

impl Plan {
    pub(super) fn run(&self) -> Result<Verdict> {
        let names: Vec<_> = (0..self.targets)
            .map(|number| format!("member-{number:04}"))
            .collect();
        let targets: Vec<_> = names.iter().map(String::as_str).collect();
        let mut server = setting::server("bench", "server", setting::PROFILE, &targets, 2)?;
        // What a user writes who says nothing of them: each is probed.
        server.spec.endpoints = EndpointPolicy::default();
        let world = World {
            profiles: Profiles {
                runtime: Ok(Pinned {
                    revision: 1,
                    content: Arc::new(setting::profile()?.spec),
                }),
                ..Profiles::default()
            },
            clusters: (0..).zip(&names).map(cluster).collect::<Result<_>>()?,
            observed: Observed::default(),
            server,
        };
        let world = world.settled();
        let (mut plans, mut floors, mut size) = (Vec::new(), Vec::new(), 0);
        for _ in 0..self.rounds {
            // What a snapshot costs is the caches' to answer for.
            let facts = world.facts();
            let begin = monotonic();
            let plan = hub_plan::plan(&facts, Timestamp::UNIX_EPOCH);
            let status = plan.status(&world.server, &plan.steps, Timestamp::UNIX_EPOCH);
            plans.push(monotonic().duration_since(begin));
            let begin = monotonic();
            let encoded = serde_json::to_vec(&(&plan.services, &plan.slices, &plan.routes))?;
            size = serde_json::to_vec(&status)?.len();
            floors.push(monotonic().duration_since(begin));
            anyhow::ensure!(!encoded.is_empty() && plan.slices.len() == self.targets);
        }
        Ok(self.verdict(plans, floors, size))
    }

    fn verdict(&self, plans: Vec<Duration>, floors: Vec<Duration>, size: usize) -> Verdict {
        let (plans, floors): (Samples, Samples) =
            (plans.into_iter().collect(), floors.into_iter().collect());
        let row = |name: &str, samples: &Samples| {
            let of = |percent| format!("{:.2}", milliseconds(samples.percentile(percent)));
            vec![name.to_owned(), of(50), of(99)]
        };
        show(
            &["ms", "p50", "p99"],
            [
                row("plan and status", &plans),
                row("encode what was planned", &floors),
            ],
        );
        let (figure, floor) = (plans.median(), floors.median());
        let more = json!({"targets": self.targets, "status_bytes": size});
        Verdict {
            bench: "plan",
            figure: milliseconds(figure),
            unit: "ms",
            floor: Some(milliseconds(floor)),
            ratio: Some(ratio(figure, floor)),
            target: format!("≤ {TARGET_MS} ms, a status of at most {STATUS_MAX} bytes"),
            ok: milliseconds(figure) <= TARGET_MS && size <= STATUS_MAX,
            more: more.as_object().cloned().unwrap_or_default(),
        }
    }
}

/// All that a plan is made from.
struct World {
    server: InferenceServer,
    profiles: Profiles,
    clusters: Vec<(ClusterName, ClusterFacts)>,
    observed: Observed,
}

impl World {
    fn facts(&self) -> Facts<'_> {
        let slices = self.observed.slices.iter().map(AsRef::as_ref);
        Facts {
            server: &self.server,
            waiting: None,
            profiles: &self.profiles,
            clusters: self.clusters.iter().cloned().collect(),
            gateway: Some(gateway()),
            gateway_api: true,
            refused_cidrs: &[],
            route_schema: RouteSchema::default(),
            gateways: [(gateway().namespace.clone(), gateway().name.clone())].into(),
            published: published(slices, "server"),
            observed: self.observed.clone(),
            fleet: Arc::new(Fleet::default()),
        }
    }

    /// As it is once all that is planned is there.
    fn settled(mut self) -> Self {
        let plan = hub_plan::plan(&self.facts(), Timestamp::UNIX_EPOCH);
        let status = plan.status(&self.server, &plan.steps, Timestamp::UNIX_EPOCH);
        self.observed = Observed {
            services: plan.services.into_iter().map(Arc::new).collect(),
            slices: plan.slices.into_iter().map(Arc::new).collect(),
            routes: plan.routes.into_iter().map(Arc::new).collect(),
        };
        self.server.status = Some(status);
        self
    }
}

fn gateway() -> &'static GatewayReference {
    static GATEWAY: std::sync::LazyLock<GatewayReference> =
        std::sync::LazyLock::new(|| GatewayReference {
            namespace: "infra".to_owned(),
            name: "public".to_owned(),
            listener: None,
        });
    &GATEWAY
}

/// A cluster that serves at an address of its own.
fn cluster((number, name): (u32, &String)) -> Result<(ClusterName, ClusterFacts)> {
    let [_, _, high, low] = number.to_be_bytes();
    let facts = ClusterFacts::serving(&format!("10.9.{high}.{low}"));
    let name = name.parse().ok().context("a cluster's name")?;
    Ok((name, facts))
}
