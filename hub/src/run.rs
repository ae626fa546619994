//! Wires the hub and keeps it going. A task that ends early ends the process.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use crds::v1alpha1::GatewayReference;
use futures::future::BoxFuture;
use ipnet::IpNet;
use kube::Client;
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
    apply::Applier,
    args::Args,
    builder::{Own, Replaced, Wake},
    clock::Clock,
    endpoints::{DiscoverySlices, ReportedEndpoints},
    enrollment::{Enrollment, authority},
    leftovers::Leftovers,
    metrics::Metrics,
    models::SpecifiedModel,
    observe::{Caches, Wakeups},
    place::Placer,
    probe::{Http, Prober},
    report::member::MemberReconciler,
    resolve::{Resolver, System},
    revisions::Keeper,
    routing::GatewayRoutes,
    server::{Parts, Reconciler},
    session::{Fleet, Service, first_session},
};

/// Servers looked at at once. Each pass waits for the API server most of its time.
const SERVERS_AT_ONCE: usize = 32;
/// Member clusters whose status is written at once.
const MEMBERS_AT_ONCE: usize = 8;
/// Profiles whose records are written at once.
const PROFILES_AT_ONCE: usize = 4;
/// How long streams may take to end on a stop.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Runs the hub until it is told to stop.
///
/// # Errors
/// When it can't start, or a part of it ends early.
pub(crate) async fn run(args: Args, parts: Replaced) -> anyhow::Result<()> {
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
    let own = (args.namespace, parts);
    let fleet = start(&mut tasks, (clients, own), published, backoff, enrollment);
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

/// What the hub is made of where nothing was set.
pub(crate) fn own_parts(
    client: &Client,
    caches: &Caches,
    clock: Clock,
    metrics: &Arc<Metrics>,
) -> Own {
    let applier = Arc::new(Applier::new(client.clone(), clock, Arc::clone(metrics)));
    let slices = DiscoverySlices::new(caches.clone(), Arc::clone(&applier), clock);
    Own {
        provider: Arc::new(ReportedEndpoints),
        publisher: Arc::new(slices),
        routing: Arc::new(GatewayRoutes::new(caches.clone(), Arc::clone(&applier))),
        leftovers: Arc::new(Leftovers::new(caches.clone(), applier)),
        models: Arc::new(SpecifiedModel),
    }
}

/// Starts the watches and the reconcilers.
fn start(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    (clients, (namespace, parts)): (Clients, (String, Replaced)),
    (gateway, refused_cidrs): (Option<GatewayReference>, Vec<IpNet>),
    backoff: Backoff,
    enrollment: Enrollment,
) -> Arc<Fleet> {
    let caches = Caches::default();
    let wakeups = Arc::new(Wakeups::default());
    let clock = Clock::start();
    let metrics = Arc::new(Metrics::new(clock));
    let resolver = Arc::new(Resolver::new(System::load()));
    let prober = Arc::new(Prober::new(Http, clock));
    let Clients {
        write: client,
        watch,
        recoveries,
    } = clients;
    let own = own_parts(&client, &caches, clock, &metrics);
    let chosen = parts.choose(own, &Wake::new(Arc::clone(&wakeups)));
    let placer = Arc::new(Placer::new(
        caches.clone(),
        clock,
        Arc::clone(&chosen.publisher),
        chosen.models,
    ));
    for watch in caches.watches(&watch, &namespace, &wakeups) {
        spawn(tasks, watch, "a watch");
    }
    let parts = Parts {
        client: client.clone(),
        caches: caches.clone(),
        placer: Arc::clone(&placer),
        resolver: Arc::clone(&resolver),
        prober: Arc::clone(&prober),
        provider: chosen.provider,
        publisher: Arc::clone(&chosen.publisher),
        plugin: chosen.plugin,
        clock,
        metrics: Arc::clone(&metrics),
        gateway,
        refused_cidrs,
    };
    let reconciler = Reconciler::new(parts);
    ask_outside(tasks, resolver, prober, Arc::clone(&wakeups));
    let keeper = Keeper {
        client: client.clone(),
        namespace,
        caches: caches.clone(),
        wakeups: Arc::clone(&wakeups),
        metrics: Arc::clone(&metrics),
    };
    let members = MemberReconciler::new(
        client,
        caches.members.clone(),
        Arc::clone(&placer),
        Arc::clone(&wakeups),
        clock,
    );
    keep_records(tasks, keeper, members, backoff);
    let (reconciler, woken) = (Arc::new(reconciler), Arc::clone(&wakeups));
    let servers = reconcile_servers(Arc::clone(&placer), reconciler, woken, backoff);
    let (known, woken) = (caches.clone(), Arc::clone(&wakeups));
    let follow = follow_api_server(known, woken, recoveries);
    spawn(tasks, Box::pin(follow), "the word of the API server");
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

/// Starts what keeps records: of what profiles say, and of member clusters.
fn keep_records(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    keeper: Keeper,
    members: MemberReconciler,
    backoff: Backoff,
) {
    let caches = keeper.caches.clone();
    let profiles = keep_profiles(caches.clone(), Arc::new(keeper), backoff);
    spawn(tasks, Box::pin(profiles), "the keeper of profiles");
    let members = Box::pin(reconcile_members(caches, Arc::new(members), backoff));
    spawn(tasks, members, "the reconciler of member clusters");
}

/// Starts what asks others than the API server: name servers, and endpoints.
fn ask_outside(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    resolver: Arc<Resolver>,
    prober: Arc<Prober>,
    wakeups: Arc<Wakeups>,
) {
    let wake = move |server| wakeups.servers.wake(server);
    spawn(tasks, Box::pin(prober.run(wake.clone())), "the probes");
    let resolution = Box::pin(resolver.run(wake));
    spawn(tasks, resolution, "the resolution of hostnames");
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
    let ready = move || (!fleet.placer.is_ready()).then_some("the watch caches are not filled yet");
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

/// Tries again what has failed, as soon as the API server answers again; and follows the coming and going of the Gateway API.
async fn follow_api_server(
    caches: Caches,
    wakeups: Arc<Wakeups>,
    recoveries: watch::Receiver<u64>,
) {
    let gateway_api = follow_gateway_api(caches, Arc::clone(&wakeups));
    let servers = wakeups.servers.retry_on(recoveries.clone());
    let profiles = wakeups.profiles.retry_on(recoveries.clone());
    let members = wakeups.members.retry_on(recoveries);
    tokio::join!(gateway_api, servers, profiles, members);
}

async fn reconcile_servers(
    placer: Arc<Placer>,
    reconciler: Arc<Reconciler>,
    wakeups: Arc<Wakeups>,
    backoff: Backoff,
) {
    placer.ready().await;
    tracing::info!("caches filled");
    wakeups
        .servers
        .run(SERVERS_AT_ONCE, backoff, |key: ObjectKey| {
            Arc::clone(&reconciler).reconcile(key)
        })
        .await;
}

async fn keep_profiles(caches: Caches, keeper: Arc<Keeper>, backoff: Backoff) {
    // Until every server is known, a record that one has may look like nobody's.
    caches.synced().await;
    let wakeups = Arc::clone(&keeper.wakeups);
    wakeups
        .profiles
        .run(PROFILES_AT_ONCE, backoff, |profile| {
            Arc::clone(&keeper).reconcile(profile)
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
