//! Starts the parts in order, and ends with any of them.

use std::{sync::Arc, time::SystemTime};

use agent_plan::Drivers;
use anyhow::{Context, bail};
use backon::{ExponentialBuilder, Retryable};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use operator::{
    client::Clients,
    wake::{Backoff, Next, SharedWakes, Wakes},
};
use prometheus_client::{metrics::gauge::Gauge, registry::Registry};
use proto::{
    PlacementKey,
    session::{AgentInfo, AgentMachine, Held},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::Instant,
};

use crate::{
    args::Args,
    link::{Link, Machine, Store},
    observe::{self, Caches},
    placement::{Placements, Unanswered, Wishes},
    serving::{self, Serving},
};

/// Placements that are reconciled at once: enough to hide the API server's latency, few enough not to burden it.
const CONCURRENCY: usize = 16;

/// Runs the agent until SIGTERM or SIGINT.
pub(crate) async fn run(args: Args, drivers: Drivers) -> anyhow::Result<()> {
    // A program that has a TLS provider already keeps it.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let mut terminate = signal(SignalKind::terminate()).context("can't listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("can't listen for SIGINT")?;
    let mut parts = JoinSet::new();
    tokio::select! {
        ended = start(args, drivers, &mut parts) => ended?,
        _signal = terminate.recv() => return Ok(()),
        _signal = interrupt.recv() => return Ok(()),
    }
    tokio::select! {
        ended = parts.join_next() => bail!("a part of the agent ended: {ended:?}"),
        _signal = terminate.recv() => {}
        _signal = interrupt.recv() => {}
    }
    // Everything that matters is in the cluster or in the hub: there is nothing to finish.
    Ok(())
}

async fn start(args: Args, drivers: Drivers, parts: &mut JoinSet<()>) -> anyhow::Result<()> {
    let Clients {
        write: client,
        watch,
        recoveries,
    } = operator::client::connect()
        .await
        .context("no way to the API server")?;
    let default_gateway = args.gateway();
    let caches = Caches::default();
    let wakes: SharedWakes<PlacementKey> = Arc::new(Wakes::default());
    let wishes = Arc::new(Wishes::new(Arc::clone(&wakes)));

    let connected = Gauge::default();
    let mut registry = Registry::default();
    registry.register(
        "inferfleet_agent_connected",
        "Whether a session with the hub is open",
        connected.clone(),
    );
    serve_admin(&args, registry, caches.clone(), parts).await?;

    let namespaces = Arc::clone(&wishes);
    let namespace_changed = move |name: &str| namespaces.namespace_changed(name);
    for watch in caches.watches(&watch, default_gateway.as_ref(), &wakes, namespace_changed) {
        parts.spawn(watch);
    }
    parts.spawn(observe::follow_gateway_api(&caches, &wakes));
    let info = info(&client).await?;
    // Before this, a report could say that something is gone which was only not seen yet.
    caches.synced().await;
    let machine = Arc::new(Machine::new(
        AgentMachine::new(held(&caches)),
        start_of_time(),
    ));

    let link = Link {
        machine: Arc::clone(&machine),
        wishes: Arc::clone(&wishes),
        store: Store {
            client: client.clone(),
            namespace: args.namespace.clone(),
        },
        info,
        hub: (args.hub_address.clone(), args.server_name.clone()),
        join: args.join.clone(),
        clock: now,
        random,
        connected,
    };
    let placements = Placements {
        client: client.clone(),
        caches: caches.clone(),
        machine: Arc::clone(&machine),
        wishes,
        create_namespaces: args.create_namespaces,
        unanswered: Unanswered::default(),
    };
    let serving = Serving {
        client,
        caches: caches.clone(),
        machine,
        default_gateway,
        drivers,
        clock: now,
    };
    introduce(&caches, &serving, &wakes);
    parts.spawn(link.run());
    let retrying = Arc::clone(&wakes);
    parts.spawn(async move { retrying.retry_on(recoveries).await });
    let backoff = args.common.backoff();
    parts.spawn(reconcile(wakes, placements, serving, backoff));
    Ok(())
}

/// Tells of every placement that was there before the agent, and looks at each.
fn introduce(caches: &Caches, serving: &Serving, wakes: &Wakes<PlacementKey>) {
    let placements = caches.placements.all();
    for key in placements.values().filter_map(|one| observe::key_of(one)) {
        serving.introduce(&key);
        wakes.wake(key);
    }
}

/// One loop for both halves of a key: it is never written and served at once.
async fn reconcile(
    wakes: SharedWakes<PlacementKey>,
    placements: Placements,
    serving: Serving,
    backoff: Backoff,
) {
    let both = Arc::new((placements, serving));
    let work = |key: PlacementKey| {
        let both = Arc::clone(&both);
        async move {
            let (placements, serving) = &*both;
            let kept = placements.keep(&key).await;
            let served = serving
                .reconcile(&key, kept.unwritten.as_ref(), kept.going)
                .await;
            if kept.next == Next::Retry {
                kept.next
            } else {
                served
            }
        }
    };
    wakes.run(CONCURRENCY, backoff, work).await;
}

/// What the cluster holds of a hub, including what is being removed.
pub(crate) fn held(caches: &Caches) -> Vec<Held> {
    let placements = caches.placements.all();
    let held = placements
        .values()
        .filter_map(|placement| serving::held(placement));
    held.collect()
}

/// Who the agent is. Asked for until the API server answers.
async fn info(client: &Client) -> anyhow::Result<AgentInfo> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let ask = async || -> Result<_, kube::Error> {
        let system = namespaces.get_metadata("kube-system").await?;
        let version = client.apiserver_version().await?;
        Ok((system.uid().unwrap_or_default(), version.git_version))
    };
    let (cluster_uid, kubernetes_version) = ask
        .retry(
            ExponentialBuilder::default()
                .with_jitter()
                .without_max_times(),
        )
        .notify(|error, delay| tracing::warn!(%error, ?delay, "the API server does not answer"))
        .await
        .context("asking the API server who it is")?;
    Ok(AgentInfo {
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        kubernetes_version,
        cluster_uid,
    })
}

async fn serve_admin(
    args: &Args,
    registry: Registry,
    caches: Caches,
    parts: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(args.common.admin_listen)
        .await
        .with_context(|| format!("can't listen at {}", args.common.admin_listen))?;
    let ready = move || (!caches.is_synced()).then_some("the caches are not filled yet");
    parts.spawn(async move {
        if let Err(error) = operator::admin::serve(listener, Arc::new(registry), ready).await {
            tracing::error!(%error, "the admin endpoint ended");
        }
    });
    Ok(())
}

/// The whole delay where there is no randomness.
fn random() -> f64 {
    let mut bytes = [0; 4];
    aws_lc_rs::rand::fill(&mut bytes).map_or(1.0, |()| {
        f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the clock is read"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the clock is read"
)]
pub(crate) fn start_of_time() -> Instant {
    Instant::now()
}
