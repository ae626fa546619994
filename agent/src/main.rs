//! The agent, as a program.

use agent::{Agent, args::Args};
use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    operator::telemetry::start(args.common.log_format);
    Agent::builder().build()?.run(args).await
}
