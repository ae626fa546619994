//! `kubectl inferfleet`: what a person does with a fleet that `kubectl` alone can't.

mod join;
mod leave;
mod placements;

use anyhow::Context;
use clap::{Parser, Subcommand};
use kube::Client;

/// Joins member clusters to an Inferfleet hub, and takes them out. Speaks to the cluster that the kubeconfig's current context names: the hub's.
#[derive(Debug, Parser)]
#[command(name = "kubectl-inferfleet", bin_name = "kubectl inferfleet", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Invite a cluster, and print the values for the agent's chart there.
    Join(join::Join),
    /// Take a cluster out of the fleet.
    Leave(leave::Leave),
    /// Show the clusters of an InferenceServer, worst first.
    Placements(placements::Placements),
}

/// The cluster that the kubeconfig's current context names: the hub's.
async fn hub() -> anyhow::Result<Client> {
    Client::try_default()
        .await
        .context("find the hub's API server: is KUBECONFIG set?")
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // A second provider can't be there: this is the first thing that is done.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    match Args::parse().command {
        Command::Join(join) => join.run().await,
        Command::Leave(leave) => leave.run().await,
        Command::Placements(placements) => placements.run().await,
    }
}
