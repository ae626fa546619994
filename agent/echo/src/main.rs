//! Echo, as a program.

use clap::Parser;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    echo::run(echo::args::Args::parse()).await
}
