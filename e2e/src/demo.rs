//! The main job, as a person runs it: a fleet, one InferenceServer, and an answer from each cluster.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use crds::v1alpha1::{ClusterTarget, InferenceServer};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;

use crate::clock::monotonic;
use crate::installed::{Installed, example};
use crate::{Fleet, Product};

/// How long all clusters may take to have answered at least once.
const ANSWERS_DEADLINE: Duration = Duration::from_secs(30);
/// The first members' names; further ones are numbered.
const NAMES: [&str; 4] = ["east", "west", "north", "south"];
/// How often a bar moves.
const TICK: Duration = Duration::from_millis(100);

/// What a person asks of the demo.
#[derive(Debug, clap::Args)]
pub struct Demo {
    /// Member clusters beside the hub
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    members: u8,
    /// End after the checks
    #[arg(long)]
    once: bool,
}

/// One answer of a model server, as the runtime `echo` gives it.
#[derive(Debug)]
struct Answer {
    pod_uid: String,
    body: String,
}

impl Demo {
    /// Runs the demo; exits with 1 when a check fails.
    pub async fn run(self) -> Result<ExitCode> {
        let began = monotonic();
        let bars = Bars::default();
        let names: Vec<String> = (0..usize::from(self.members))
            .map(|place| {
                NAMES
                    .get(place)
                    .map_or_else(|| format!("cluster-{place}"), ToString::to_string)
            })
            .collect();
        let installed = start(&bars, names.clone()).await?;
        let applied = monotonic();
        bars.step("hello", "applying examples/inferenceserver.yaml");
        let server = installed.apply(&server(&names)?).await?;
        let (namespace, name) = (
            server.metadata.namespace.unwrap_or_default(),
            server.metadata.name.unwrap_or_default(),
        );
        installed.ready(&namespace, &name).await?;
        let ready = monotonic().duration_since(applied);
        bars.done(
            "hello",
            &format!("Ready after {:.1} s", ready.as_secs_f32()),
        );
        let answers = answers(&installed, &format!("/{namespace}/{name}/")).await?;
        bars.clear();
        show(&installed, &namespace, &name, &answers).await?;
        if !self.once {
            look_around(&installed, &namespace, &name).await?;
        }
        let total = monotonic().duration_since(began).as_secs_f32();
        say(&format!(
            "demo: ok in {total:.1} s (apply → Ready {:.1} s)",
            ready.as_secs_f32()
        ));
        Ok(ExitCode::SUCCESS)
    }
}

/// Gets what is missing, starts the fleet, and installs Inferfleet on it.
async fn start(bars: &Bars, names: Vec<String>) -> Result<Installed> {
    bars.step(
        "programs",
        "building hub, agent, echo and kubectl-inferfleet",
    );
    let product = tokio::task::spawn_blocking(Product::build).await??;
    bars.done("programs", "built");
    let (steps, of) = (bars.clone(), names.clone());
    let fleet = Fleet::builder()
        .members(names.len())
        .product(&product)
        .bars(&bars.all)
        .on_progress(move |cluster, step| steps.step(&named(cluster, &of), step))
        .start()
        .await?;
    Installed::install(fleet, product, names, |cluster, step| match step {
        "connected" | "ready" => bars.done(cluster, step),
        step => bars.step(cluster, step),
    })
    .await
}

/// The name in the fleet of a cluster that the bed calls `member-N`.
fn named(cluster: &str, names: &[String]) -> String {
    let place = cluster
        .strip_prefix("member-")
        .and_then(|number| number.parse::<usize>().ok());
    let name = place.and_then(|place| names.get(place.checked_sub(1)?));
    name.map_or_else(|| cluster.to_owned(), ToOwned::to_owned)
}

/// The example, for the clusters that there are.
fn server(names: &[String]) -> Result<InferenceServer> {
    let mut server: InferenceServer = example("inferenceserver.yaml")?;
    server.spec.cluster_targets = names.iter().map(ClusterTarget::new).collect();
    Ok(server)
}

/// Asks the hub's gateway until a Pod of each cluster has answered, and checks each Pod against its own API server.
async fn answers(installed: &Installed, path: &str) -> Result<BTreeMap<String, Answer>> {
    let mut pods = BTreeMap::new();
    for (name, cluster) in installed.members() {
        let api: Api<Pod> = Api::all(cluster.client().await?);
        let found = api
            .list(&ListParams::default().labels(crds::labels::SERVER))
            .await?;
        let uids = found.items.into_iter().filter_map(|pod| pod.metadata.uid);
        pods.extend(uids.map(|uid| (uid, name.to_owned())));
    }
    let mut answers = BTreeMap::new();
    let asking = async {
        while answers.len() < installed.members().count() {
            let response = installed.ask(path).await?;
            ensure!(
                response.status() == 200,
                "the hub's gateway answered {}: {}",
                response.status(),
                response.body()
            );
            let uid = response
                .headers()
                .get("x-echo-pod-uid")
                .context("the answer names no Pod")?;
            let pod_uid = uid.to_str()?.to_owned();
            let cluster = pods
                .get(&pod_uid)
                .with_context(|| format!("no member has a Pod {pod_uid}"))?;
            answers.insert(
                cluster.clone(),
                Answer {
                    pod_uid,
                    body: response.into_body(),
                },
            );
        }
        Ok(())
    };
    tokio::time::timeout(ANSWERS_DEADLINE, asking)
        .await
        .context("not every cluster has answered")??;
    Ok(answers)
}

async fn show(
    installed: &Installed,
    namespace: &str,
    name: &str,
    answers: &BTreeMap<String, Answer>,
) -> Result<()> {
    let hub = installed.hub();
    for args in [
        vec!["get", "inferenceserver", "--all-namespaces"],
        vec!["get", "membercluster"],
        vec![
            "get",
            "endpointslices",
            "--namespace",
            namespace,
            "--selector",
            "inferfleet.io/cluster",
        ],
    ] {
        say(&format!(
            "$ kubectl {}\n{}",
            args.join(" "),
            hub.kubectl(&args).await?
        ));
    }
    for (cluster, answer) in answers {
        say(&format!(
            "GET /{namespace}/{name}/ at the hub's gateway, answered in {cluster} by Pod {}:\n{}\n",
            answer.pod_uid, answer.body
        ));
    }
    Ok(())
}

/// Stays, with what a person needs to look around.
async fn look_around(installed: &Installed, namespace: &str, name: &str) -> Result<()> {
    let gateway = installed.hub().forward(installed.hub().gateway_address())?;
    say("# Look around. The hub:");
    say(&format!(
        "export KUBECONFIG={}",
        installed.hub().kubeconfig().display()
    ));
    for (member, cluster) in installed.members() {
        say(&format!(
            "# {member}:\nexport KUBECONFIG={}",
            cluster.kubeconfig().display()
        ));
    }
    say(&format!(
        "# A request:\ncurl http://{}/{namespace}/{name}/v1/models",
        gateway.address()
    ));
    say(&format!(
        "# Logs: {}\n# Ctrl-C ends everything.",
        installed.fleet().folder().display()
    ));
    tokio::signal::ctrl_c().await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the demo shows what it did")]
fn say(text: &str) {
    println!("{text}");
}

/// A line for each cluster, with what it does and for how long.
#[derive(Clone, Debug, Default)]
struct Bars {
    all: MultiProgress,
    lines: std::sync::Arc<std::sync::Mutex<BTreeMap<String, ProgressBar>>>,
}

impl Bars {
    fn step(&self, of: &str, step: &str) {
        self.line(of).set_message(step.to_owned());
    }

    fn done(&self, of: &str, how: &str) {
        self.line(of).finish_with_message(how.to_owned());
    }

    fn line(&self, of: &str) -> ProgressBar {
        let mut lines = self
            .lines
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let line = lines.entry(of.to_owned()).or_insert_with(|| {
            let bar = self.all.add(ProgressBar::new_spinner());
            if let Ok(style) =
                ProgressStyle::with_template("{elapsed:>5} {spinner} {prefix:10} {msg}")
            {
                bar.set_style(style);
            }
            bar.enable_steady_tick(TICK);
            bar.with_prefix(of.to_owned())
        });
        line.clone()
    }

    /// The lines stay where they are; nothing moves any more.
    fn clear(&self) {
        let lines = self
            .lines
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        lines.values().for_each(ProgressBar::abandon);
    }
}
