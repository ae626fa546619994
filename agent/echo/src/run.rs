//! Listens until SIGTERM, then drains: readiness turns 503 while requests still arrive and finish, and the process ends
//! when none is in flight. Kubernetes takes the Pod out of its Services meanwhile.

use anyhow::Context;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{Server, args::Args, router};

/// Serves until SIGTERM or SIGINT.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("can't listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("can't listen for SIGINT")?;
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("can't listen at {}", args.listen))?;

    let server = Server::new(args.pod, args.model_config);
    let drain = server.drain();
    let drained = async move {
        tokio::select! {
            _signal = terminate.recv() => {}
            _signal = interrupt.recv() => {}
        }
        drain.begin();
        drain.idle().await;
    };
    // What follows waits for responses that still stream their body.
    axum::serve(listener, router(server))
        .with_graceful_shutdown(drained)
        .await
        .context("can't serve")
}
