//! A fleet, as a test or the demo holds it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use indicatif::MultiProgress;

use crate::cluster::{Cluster, Holder};
use crate::control::{ClusterSpec, ImageProgram, SOCKET};
use crate::folder;
use crate::programs::{Product, Programs, supervisor};

/// How long the supervisor may take to make its namespaces.
const ENTRY_DEADLINE: Duration = Duration::from_secs(20);

type Listener = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// What a fleet is to be. Every cluster of it is alike.
#[must_use]
#[derive(Clone)]
pub struct FleetBuilder {
    members: usize,
    audit: bool,
    gateways: bool,
    fake_nodes: usize,
    fake_capacity: BTreeMap<String, String>,
    images: BTreeMap<String, ImageProgram>,
    supervisor: Option<PathBuf>,
    bars: MultiProgress,
    on_progress: Option<Listener>,
}

impl std::fmt::Debug for FleetBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FleetBuilder")
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

impl FleetBuilder {
    /// How many member clusters there are beside the hub. Default: 2.
    pub fn members(mut self, members: usize) -> Self {
        self.members = members;
        self
    }

    /// Whether API servers write an audit log (`Cluster::audit_log`). Default: no.
    pub fn audit(mut self, audit: bool) -> Self {
        self.audit = audit;
        self
    }

    /// Whether each cluster has a gateway: Gateway `infra/public`, listener `http`, port 80. Default: yes.
    pub fn gateways(mut self, gateways: bool) -> Self {
        self.gateways = gateways;
        self
    }

    /// Adds fake nodes to each cluster. Pods whose images no program stands for then go there.
    pub fn fake_nodes(mut self, nodes: usize) -> Self {
        self.fake_nodes = nodes;
        self
    }

    /// A further resource of each fake node, such as `nvidia.com/gpu` and `8`.
    pub fn fake_capacity(mut self, resource: &str, amount: &str) -> Self {
        self.fake_capacity
            .insert(resource.to_owned(), amount.to_owned());
        self
    }

    /// A program that process nodes run for an image. The name has no tag; every tag means this program.
    pub fn image(mut self, name: &str, program: ImageProgram) -> Self {
        self.images.insert(name.to_owned(), program);
        self
    }

    /// The images of the product's own programs.
    pub fn product(mut self, product: &Product) -> Self {
        self.images.extend(product.images());
        self
    }

    /// The program that supervises the fleet; by default this crate's, wherever it is found.
    pub fn supervisor(mut self, program: impl Into<PathBuf>) -> Self {
        self.supervisor = Some(program.into());
        self
    }

    /// Where bars for builds and downloads are drawn. By default on standard error, if it's a terminal.
    pub fn bars(mut self, bars: &MultiProgress) -> Self {
        self.bars = bars.clone();
        self
    }

    /// Hears each step of each cluster: the cluster's name, and what it does now.
    pub fn on_progress(mut self, hear: impl Fn(&str, &str) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(hear));
        self
    }

    /// Starts the hub and all members, at the same time, and returns when every API server is ready and,
    /// if wanted, every gateway is programmed.
    pub async fn start(self) -> Result<Fleet> {
        ensure!(
            cfg!(target_os = "linux"),
            "the test bed needs Linux: run it in a virtual machine or a container of it"
        );
        crate::install_crypto();
        let bars = self.bars.clone();
        let programs = tokio::task::spawn_blocking(move || Programs::find(&bars)).await??;
        let program = self.supervisor.clone().map_or_else(supervisor, Ok)?;
        let bed = Bed::start(&program).await?;
        let names = (0..=self.members).map(|number| match number {
            0 => "hub".to_owned(),
            number => format!("member-{number}"),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fleet")
            .enable_all()
            .build()
            .context("start the fleet's runtime")?;
        let holder = Arc::new(Holder {
            folder: bed.folder.clone(),
            runtime: runtime.handle().clone(),
            programs: programs.clone(),
        });
        // From here on the fleet's end is in the hands of `Fleet`.
        let mut fleet = Fleet {
            clusters: Vec::new(),
            programs,
            bed,
            runtime: Some(runtime),
        };
        let starts = names
            .enumerate()
            .map(|(number, name)| self.start_cluster(Arc::clone(&holder), number, name));
        match try_join_all(starts).await {
            Ok(clusters) => fleet.clusters = clusters,
            Err(error) => {
                fleet.keep();
                return Err(error.context(format!("logs are kept in {}", fleet.folder().display())));
            }
        }
        Ok(fleet)
    }

    async fn start_cluster(
        &self,
        holder: Arc<Holder>,
        number: usize,
        name: String,
    ) -> Result<Cluster> {
        let folder = holder.folder.join(&name);
        std::fs::create_dir(&folder)?;
        let spec = ClusterSpec {
            number,
            name: name.clone(),
            folder,
            programs: holder.programs.paths().clone(),
            manifests: holder.programs.manifests().to_owned(),
            images: self.images.clone(),
            audit: self.audit,
            gateway: self.gateways,
            fake_nodes: self.fake_nodes,
            fake_capacity: self.fake_capacity.clone(),
        };
        let hear = |step: &str| {
            if let Some(hear) = &self.on_progress {
                hear(&name, step);
            }
        };
        let cluster = Cluster::start(holder, spec, hear).await;
        let cluster = cluster.with_context(|| format!("start cluster {name}"))?;
        hear("ready");
        Ok(cluster)
    }
}

/// The supervisor's process. Dropping it ends everything that the fleet has started.
#[derive(Debug)]
struct Bed {
    folder: PathBuf,
    process: Child,
}

impl Bed {
    async fn start(program: &Path) -> Result<Self> {
        let folder = folder::create()?;
        let log = folder.join("bed.log");
        let mut command = Command::new(program);
        command.args(["bed", "enter"]).arg(&folder);
        // The other end of this pipe is the fleet's life line. A group of its own: Ctrl-C is for the holder.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let process = command
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let mut bed = Self { folder, process };
        let socket = bed.folder.join(SOCKET);
        let ready = async {
            while tokio::net::UnixStream::connect(&socket).await.is_err() {
                if bed.process.try_wait()?.is_some() {
                    let why = std::fs::read_to_string(&log).unwrap_or_default();
                    bail!("the test bed can't start: {}", why.trim());
                }
                crate::clock::pause_between_looks().await;
            }
            Ok(())
        };
        tokio::time::timeout(ENTRY_DEADLINE, ready)
            .await
            .context("the test bed's supervisor doesn't answer")??;
        Ok(bed)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // It ends with the life line; a failure to wait is of no use to anyone.
        drop(self.process.wait());
        folder::forget(&self.folder);
        // The bed has done so, unless it couldn't even start.
        if let Err(error) = folder::remove(&self.folder) {
            tracing::warn!(error = format!("{error:#}"), "a fleet's folder is left");
        }
    }
}

/// A hub and its members, running. Dropping it ends them all and removes their folder.
#[derive(Debug)]
pub struct Fleet {
    clusters: Vec<Cluster>,
    programs: Programs,
    bed: Bed,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Fleet {
    pub fn builder() -> FleetBuilder {
        FleetBuilder {
            members: 2,
            audit: false,
            gateways: true,
            fake_nodes: 0,
            fake_capacity: BTreeMap::new(),
            images: BTreeMap::new(),
            supervisor: None,
            bars: MultiProgress::new(),
            on_progress: None,
        }
    }

    /// The control cluster.
    #[expect(
        clippy::expect_used,
        reason = "a fleet is handed out with its hub only"
    )]
    pub fn hub(&self) -> &Cluster {
        self.clusters.first().expect("a fleet has a hub")
    }

    /// The member clusters.
    pub fn members(&self) -> &[Cluster] {
        self.clusters.get(1..).unwrap_or_default()
    }

    /// The hub, then the members.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The programs it was made of, kubectl and helm among them.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Logs, kubeconfigs and data, in a folder per cluster.
    pub fn folder(&self) -> &Path {
        &self.bed.folder
    }

    /// Has the folder kept when the fleet ends. A panic does so by itself.
    pub fn keep(&self) {
        if let Err(error) = folder::keep(&self.bed.folder) {
            tracing::warn!(error = format!("{error:#}"), "keep the fleet's folder");
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Allowed inside another runtime, unlike a plain drop.
            runtime.shutdown_background();
        }
    }
}
