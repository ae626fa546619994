//! Benchmarks of Inferfleet on real control planes, each beside what a bare client needs for the same.
//!
//! The figure and its floor are measured in one run, turn by turn, so that a slow machine slows both. What each measures,
//! and why so, stands in `docs/benchmarks.md`.

mod bare;
mod blackhole;
mod convergence;
mod fields;
mod floor;
mod idle;
mod latency;
mod plan;
mod propagation;
mod requests;
mod setting;
mod statistics;
mod usage;
mod verdict;
mod watched;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Measures Inferfleet.
#[derive(Debug, clap::Args)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
    /// A folder with hub, agent, echo and kubectl-inferfleet as they are to be measured. Without it they are built as this
    /// program was
    #[arg(long, global = true)]
    product: Option<PathBuf>,
}

/// The benchmarks.
#[derive(Debug, Subcommand)]
enum What {
    /// A member's gateway address changes → the hub's EndpointSlice holds it
    Propagation(propagation::Propagation),
    /// One server created, changed, and its replicas ready → in the member, and in the hub's status
    Latency(latency::Latency),
    /// Many servers on several members, from the first apply to the last write
    Convergence(convergence::Convergence),
    /// One member that answers nothing, beside healthy ones
    Blackhole(blackhole::Blackhole),
    /// Many Ready servers, and nothing that changes
    Idle(idle::Idle),
    /// One server with a thousand targets, planned
    Plan(plan::Plan),
}

impl Bench {
    /// Runs it; the program ends with 1 when the target is missed.
    pub async fn run(self) -> Result<ExitCode> {
        let product = self.product.as_deref();
        let verdict = match self.what {
            What::Propagation(bench) => Box::pin(bench.run(product)).await?,
            What::Latency(bench) => Box::pin(bench.run(product)).await?,
            What::Convergence(bench) => Box::pin(bench.run(product)).await?,
            What::Blackhole(bench) => Box::pin(bench.run(product)).await?,
            What::Idle(bench) => Box::pin(bench.run(product)).await?,
            What::Plan(bench) => bench.run()?,
        };
        verdict.print()
    }
}
