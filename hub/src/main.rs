//! The hub's program.

use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = hub::args::Args::parse();
    operator::telemetry::start(args.common.log_format);
    hub::Hub::builder().build()?.run(args).await
}
