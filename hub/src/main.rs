//! The hub's program.

use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = hub::args::Args::parse();
    operator::telemetry::start(args.common.log_format);
    hub::run::run(args).await
}
