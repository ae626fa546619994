//! Wires the hub and keeps it going. A task that ends early ends the process.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use crds::v1alpha1::GatewayReference;
use futures::future::BoxFuture;
use ipnet::IpNet;
use operator::{cache::ObjectKey, client::Clients, wake::Backoff};
use prometheus_client::registry::Registry;
use proto::transport::{
    authority::Authority,
    server::{Admission, ServerTls, serve},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinSet,
};

use crate::{
    args::Args,
    clock::Clock,
    enrollment::{Enrollment, authority},
    metrics::Metrics,
    observe::{Caches, Wakeups},
    place::Placer,
    report::member::MemberReconciler,
    resolve::{Resolver, System},
    server::{Parts, Reconciler},
    session::{Fleet, Service, first_session},
};

/// Servers looked at at once. Each pass waits for the API server most of its time.
const SERVERS_AT_ONCE: usize = 32;
/// Member clusters whose status is written at once.
const MEMBERS_AT_ONCE: usize = 8;
/// How long streams may take to end on a stop.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Runs the hub until it is told to stop.
///
/// # Errors
/// When it can't start, or a part of it ends early.
pub async fn run(args: Args) -> anyhow::Result<()> {
    // A second provider can't be there: this is the first thing that is done.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let clients = operator::client::connect().await?;
    let client = clients.write.clone();
    let hub_id = authority::cluster_uid(&client).await?;
    let kept = authority::load(&client, &args.namespace, &hub_id).await?;
    authority::publish(
        &client,
        &args.namespace,
        &args.server_name,
        &kept.certificate_pem,
    )
    .await?;
    let server_authority = Authority::load(&kept)?;
    let tls = authority::serve_as(&server_authority, &kept.certificate_pem, &args.server_name)?;
    let enrollment = Enrollment::new(client.clone(), Authority::load(&kept)?, hub_id);

    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("listen at {}", args.listen))?;
    let admin = TcpListener::bind(args.common.admin_listen)
        .await
        .with_context(|| format!("listen at {}", args.common.admin_listen))?;
    let mut tasks = JoinSet::new();
    let backoff = args.common.backoff();
    let published = (args.gateway(), args.refused_cidrs);
    let fleet = start(&mut tasks, clients, published, backoff, enrollment);
    tasks.spawn(serve_admin(admin, Arc::clone(&fleet)));
    let renewal = authority::keep_serving(
        server_authority,
        kept.certificate_pem,
        args.server_name,
        tls.clone(),
    );
    tasks.spawn(async move { Err(renewal.await.into()) });
    tracing::info!(listen = %args.listen, "hub started");
    serve_agents(listener, tls, fleet, tasks).await
}

/// Starts the watches and the reconcilers.
fn start(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    clients: Clients,
    (gateway, refused_cidrs): (Option<GatewayReference>, Vec<IpNet>),
    backoff: Backoff,
    enrollment: Enrollment,
) -> Arc<Fleet> {
    let caches = Caches::default();
    let wakeups = Arc::new(Wakeups::default());
    let clock = Clock::start();
    let metrics = Arc::new(Metrics::new(clock));
    let placer = Arc::new(Placer::new(caches.clone(), clock));
    let resolver = Arc::new(Resolver::new(System::load()));
    let Clients {
        write: client,
        watch,
        recoveries,
    } = clients;
    for watch in caches.watches(&watch, &wakeups) {
        spawn(tasks, watch, "a watch");
    }
    let parts = Parts {
        client: client.clone(),
        caches: caches.clone(),
        placer: Arc::clone(&placer),
        resolver: Arc::clone(&resolver),
        clock,
        metrics: Arc::clone(&metrics),
    };
    let reconciler = Reconciler::new(parts, gateway, refused_cidrs);
    let woken = Arc::clone(&wakeups);
    let resolution = resolver.run(move |server| woken.servers.wake(server));
    spawn(tasks, Box::pin(resolution), "the resolution of hostnames");
    let gateway_api = follow_gateway_api(caches.clone(), Arc::clone(&wakeups));
    let members = MemberReconciler::new(
        client,
        caches.members.clone(),
        Arc::clone(&placer),
        Arc::clone(&wakeups),
        clock,
    );
    let members = reconcile_members(caches.clone(), Arc::new(members), backoff);
    let servers = reconcile_servers(
        caches.clone(),
        Arc::new(reconciler),
        Arc::clone(&wakeups),
        backoff,
    );
    let recovery = follow_recoveries(Arc::clone(&wakeups), recoveries);
    spawn(tasks, Box::pin(recovery), "the word of recoveries");
    spawn(tasks, Box::pin(gateway_api), "the Gateway API's watch");
    spawn(
        tasks,
        Box::pin(members),
        "the reconciler of member clusters",
    );
    spawn(tasks, Box::pin(servers), "the reconciler of servers");
    Arc::new(Fleet {
        caches,
        wakeups,
        enrollment: Arc::new(enrollment),
        placer,
        metrics,
        clock,
        sessions: first_session(),
    })
}

/// Serves agents until SIGTERM, or until any part of the hub ends.
async fn serve_agents(
    listener: TcpListener,
    tls: ServerTls,
    fleet: Arc<Fleet>,
    mut tasks: JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let mut stop = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
    let streams = serve(listener, tls, Admission::default(), Service(fleet), async {
        drop(stopped.await);
    });
    let mut streams = std::pin::pin!(streams);
    tokio::select! {
        _ = stop.recv() => {}
        ended = &mut streams => ended.context("serve agents")?,
        Some(ended) = tasks.join_next() => ended.context("a task panicked")??,
    }
    drop(stopping);
    tracing::info!("hub stops");
    // Agents hold their streams open: they are not waited for longer than this.
    drop(tokio::time::timeout(STOP_GRACE, streams).await);
    Ok(())
}

fn spawn(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    task: BoxFuture<'static, ()>,
    what: &'static str,
) {
    tasks.spawn(async move {
        task.await;
        Err(anyhow::anyhow!("{what} ended"))
    });
}

async fn serve_admin(listener: TcpListener, fleet: Arc<Fleet>) -> anyhow::Result<()> {
    let mut registry = Registry::default();
    fleet
        .metrics
        .register(&mut registry, Arc::clone(&fleet.wakeups));
    let ready =
        move || (!fleet.caches.is_synced()).then_some("the watch caches are not filled yet");
    operator::admin::serve(listener, Arc::new(registry), ready)
        .await
        .context("serve the admin endpoint")
}

/// Looks at every server when the Gateway API appears or goes.
async fn follow_gateway_api(caches: Caches, wakeups: Arc<Wakeups>) {
    let mut installed = caches.routes.installed();
    while installed.changed().await.is_ok() {
        wakeups.wake_all(&caches.servers);
    }
}

/// Tries again what has failed, as soon as the API server answers again.
async fn follow_recoveries(wakeups: Arc<Wakeups>, recoveries: watch::Receiver<u64>) {
    let servers = wakeups.servers.retry_on(recoveries.clone());
    tokio::join!(servers, wakeups.members.retry_on(recoveries));
}

async fn reconcile_servers(
    caches: Caches,
    reconciler: Arc<Reconciler>,
    wakeups: Arc<Wakeups>,
    backoff: Backoff,
) {
    caches.synced().await;
    tracing::info!("caches filled");
    wakeups
        .servers
        .run(SERVERS_AT_ONCE, backoff, |key: ObjectKey| {
            Arc::clone(&reconciler).reconcile(key)
        })
        .await;
}

async fn reconcile_members(caches: Caches, reconciler: Arc<MemberReconciler>, backoff: Backoff) {
    caches.synced().await;
    let wakeups = Arc::clone(&reconciler.wakeups);
    wakeups
        .members
        .run(MEMBERS_AT_ONCE, backoff, |name| {
            Arc::clone(&reconciler).reconcile(name)
        })
        .await;
}
