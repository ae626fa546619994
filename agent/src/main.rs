//! The agent, as a program.

use anyhow::Context;
use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_provider| anyhow::anyhow!("a TLS provider is installed already"))?;
    let args = agent::args::Args::parse();
    operator::telemetry::start(args.common.log_format);
    agent::run(args).await.context("the agent ends")
}
