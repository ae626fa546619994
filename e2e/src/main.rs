//! The test bed's program: fleets for a person, and the supervisor that every fleet runs under.
//!
//! There is no runtime here until one is needed: namespaces are made by a process with one thread.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use e2e::{Fleet, Product, bed};

#[derive(Debug, Parser)]
#[command(name = "e2e", about = "Fleets of real control planes on this machine")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The main job: a fleet, one InferenceServer, an answer from each cluster
    Demo(e2e::demo::Demo),
    /// Measure it beside a bare client
    Bench(e2e::bench::Bench),
    /// Start a hub and its members, and keep them until Ctrl-C
    Up(Up),
    /// Parts of a fleet that run inside its namespaces
    #[command(subcommand, hide = true)]
    Bed(Bed),
    /// A program that answers HTTP with who it is
    #[command(hide = true)]
    BedHttp {
        #[arg(long, default_value_t = 8080)]
        port: u16,
    },
}

#[derive(Debug, clap::Args)]
struct Up {
    /// Member clusters beside the hub
    #[arg(long, default_value_t = 2)]
    members: usize,
    /// Fake nodes in each cluster
    #[arg(long, default_value_t = 0)]
    fake_nodes: usize,
    /// Start no gateways
    #[arg(long)]
    no_gateways: bool,
    /// Build hub, agent and echo, and have the process nodes run their images
    #[arg(long)]
    product: bool,
}

#[derive(Debug, Subcommand)]
enum Bed {
    /// Make the namespaces and start process 1
    Enter { folder: PathBuf },
    /// Process 1
    Init { folder: PathBuf },
    /// Become a container's program
    Pod { sandbox: PathBuf },
}

#[expect(
    clippy::print_stderr,
    reason = "a program's last word, without a backtrace"
)]
fn main() -> ExitCode {
    run(Args::parse().command).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Demo(demo) => runtime()?.block_on(demo.run()),
        Command::Bench(bench) => runtime()?.block_on(bench.run()),
        Command::Up(up) => runtime()?.block_on(run_fleet(up)),
        Command::Bed(Bed::Enter { folder }) => bed::enter::enter(&folder),
        Command::Bed(Bed::Init { folder }) => {
            tracing_subscriber::fmt()
                .with_env_filter(tracing_subscriber::EnvFilter::new(
                    "info,e2e=debug,kube_client=off",
                ))
                .with_ansi(false)
                .with_writer(std::io::stderr)
                .init();
            e2e::install_crypto();
            runtime()?.block_on(bed::init::run(&folder))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Bed(Bed::Pod { sandbox }) => match bed::enter_pod(&sandbox)? {},
        Command::BedHttp { port } => {
            bed::serve_identity(port)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?)
}

#[expect(clippy::print_stdout, reason = "this is what the command is for")]
async fn run_fleet(up: Up) -> Result<ExitCode> {
    let began = e2e::clock::monotonic();
    let seconds = move || e2e::clock::monotonic().duration_since(began).as_secs_f32();
    let mut builder = Fleet::builder();
    if up.product {
        builder = builder.product(&tokio::task::spawn_blocking(Product::build).await??);
    }
    let fleet = builder
        .members(up.members)
        .fake_nodes(up.fake_nodes)
        .gateways(!up.no_gateways)
        .supervisor(std::env::current_exe()?)
        .on_progress(move |cluster, step| println!("{:6.1} s  {cluster}: {step}", seconds()))
        .start()
        .await?;
    for cluster in fleet.clusters() {
        println!("export KUBECONFIG={}", cluster.kubeconfig().display());
    }
    println!("logs: {}", fleet.folder().display());
    println!("everything is up after {:.1} s; Ctrl-C ends it", seconds());
    tokio::signal::ctrl_c().await?;
    Ok(ExitCode::SUCCESS)
}
