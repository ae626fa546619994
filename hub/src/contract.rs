//! What whoever replaces a part of the hub has to keep, as tests that can be run on it. Each returns the first rule that is
//! broken, and what was seen.
//!
//! They write: run them on nothing that anybody uses.

mod sample;

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use crds::v1alpha1::{
    ClusterTarget, DeletionPolicy, EndpointPolicy, InferenceServer, InferenceServerSpec, Routing,
    Runtime,
};
use hub_plan::{Plan, facts::Observed};
use operator::cache::ObjectKey;

use self::sample::Sample;
use crate::{
    endpoints::{Provider, Publication, Publisher, Target},
    models::ModelConfigProvider,
    routing::{self, RouteIntent},
    server::Pass,
};

/// A look at that server, of which both clusters serve: for tests of steps.
pub fn pass(server: &InferenceServer) -> Pass {
    let plan = sample::plan(server, Sample::Both, Observed::default(), BTreeMap::new());
    Pass::new(ObjectKey::of(server), Arc::new(server.clone()), plan)
}

/// What is planned for that server where these objects are there already.
#[cfg(test)]
pub(crate) fn planned(server: &InferenceServer, observed: Observed) -> Plan {
    let sample = if server.spec.decommission {
        Sample::None
    } else {
        Sample::Both
    };
    sample::plan(server, sample, observed, BTreeMap::new())
}

/// A rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {seen}")]
pub struct Breach {
    /// The rule.
    pub rule: &'static str,
    /// What was seen instead.
    pub seen: String,
}

/// More waits than this in a row are no pace.
const WAITS_MAX: usize = 10;

fn same<T: PartialEq + Debug>(rule: &'static str, seen: &T, expected: &T) -> Result<(), Breach> {
    if seen == expected {
        return Ok(());
    }
    Err(Breach {
        rule,
        seen: format!("{seen:?} where {expected:?} was expected"),
    })
}

fn holds(rule: &'static str, holds: bool, seen: impl Debug) -> Result<(), Breach> {
    same(rule, &holds, &true).map_err(|_breach| Breach {
        rule,
        seen: format!("{seen:?}"),
    })
}

/// A server for a contract, that targets the clusters `east` and `west`. Where objects are written that it owns, it has to be
/// one that exists.
pub fn server(namespace: &str, name: &str) -> InferenceServer {
    let target = |cluster: &str| ClusterTarget {
        cluster_id: cluster.to_owned(),
        weight: 1,
        tier: 0,
        endpoint: None,
    };
    let spec = InferenceServerSpec {
        cluster_targets: vec![target("east"), target("west")],
        min_ready_clusters: 1,
        runtime: Runtime {
            profile: "echo".to_owned(),
        },
        model: None,
        resources: None,
        replicas: 1,
        routing: Routing::default(),
        endpoints: EndpointPolicy::default(),
        deletion_policy: DeletionPolicy::Delete,
        decommission: false,
    };
    let mut server = InferenceServer::new(name, spec);
    server.metadata.namespace = Some(namespace.to_owned());
    server.metadata.uid = Some(format!("uid-of-{name}"));
    server.metadata.generation = Some(1);
    server
}

/// Publishes two servers, changes one, and takes both away. Both target `east` and `west`. `observed` is what the hub's own
/// caches hold of a server: nothing, for who publishes elsewhere.
///
/// # Errors
/// The first rule that the publisher breaks.
pub async fn publisher(
    publisher: &dyn Publisher,
    [server, other]: [&InferenceServer; 2],
    observed: impl Fn(&InferenceServer) -> Observed,
) -> Result<(), Breach> {
    publisher.loaded().await;
    let plan = |server: &InferenceServer, sample| {
        sample::plan(server, sample, observed(server), publisher.get(server))
    };
    let nothing = BTreeMap::new();
    same(
        "get is empty where nothing was published",
        &publisher.get(server),
        &nothing,
    )?;
    for of in [server, other] {
        sync(publisher, of, &|| plan(of, Sample::Both)).await?;
    }
    sync(publisher, server, &|| plan(server, Sample::Changed)).await?;
    sync(publisher, server, &|| plan(server, Sample::One)).await?;
    let there = publisher.get(other);
    holds("sync touches no other server", there.len() == 2, &there)?;
    let deleted = publisher.delete(server).await;
    holds(
        "delete takes away what was published",
        deleted.is_ok(),
        &deleted,
    )?;
    same(
        "get is empty after delete",
        &publisher.get(server),
        &nothing,
    )?;
    let again = publisher.delete(server).await.map(|synced| synced.wrote);
    same("delete is idempotent", &again, &Ok(false))?;
    let there = publisher.get(other);
    holds("delete touches no other server", there.len() == 2, &there)?;
    let deleted = publisher.delete(other).await;
    holds(
        "delete takes away what was published",
        deleted.is_ok(),
        &deleted,
    )
}

/// Publishes what is planned, in as many goes as the publisher asks for.
async fn sync(
    publisher: &dyn Publisher,
    server: &InferenceServer,
    plan: &impl Fn() -> Plan,
) -> Result<(), Breach> {
    for _ in 0..WAITS_MAX {
        let plan = plan();
        let publication = Publication {
            server,
            plan: &plan,
            routed: true,
        };
        if publisher.is_synced(&publication) {
            let there = publisher.get(server);
            same("get gives back what sync put", &there, &plan.endpoints)?;
            let again = publisher.sync(&publication).await;
            return same(
                "sync is idempotent",
                &again.map(|synced| synced.wrote),
                &Ok(false),
            );
        }
        let synced = publisher.sync(&publication).await;
        holds("sync publishes what is planned", synced.is_ok(), &synced)?;
        if let Some(wait) = synced.ok().and_then(|synced| synced.wait) {
            tokio::time::sleep(wait).await;
        }
    }
    holds("sync comes to an end", false, publisher.get(server))
}

/// Keeps the routes of a server, and takes them away. `observed` is as for [`publisher`].
///
/// # Errors
/// The first rule that it breaks.
pub async fn routing(
    routing: &dyn routing::Routing,
    server: &InferenceServer,
    observed: impl Fn(&InferenceServer) -> Observed,
) -> Result<(), Breach> {
    for sample in [Sample::Both, Sample::None] {
        for turn in 0..2 {
            let there = observed(server);
            let plan = sample::plan(server, sample, there, BTreeMap::new());
            let intent = RouteIntent {
                server,
                routes: &plan.routes,
                surplus: &plan.surplus_routes,
            };
            if turn == 1 {
                holds(
                    "what was synced is_synced",
                    routing.is_synced(&intent),
                    &plan.routes,
                )?;
            }
            let synced = routing.sync(&intent).await;
            holds("sync makes what is wanted", synced.is_ok(), &synced)?;
            let wrote = synced.is_ok_and(|synced| synced.wrote);
            holds("sync is idempotent", turn == 0 || !wrote, &plan.routes)?;
        }
    }
    Ok(())
}

/// Asks for the endpoints of two clusters.
///
/// # Errors
/// The first rule that it breaks.
pub fn provider(provider: &dyn Provider, server: &InferenceServer) -> Result<(), Breach> {
    let clusters = sample::clusters(Sample::Both);
    for (cluster, facts) in &clusters {
        let target = Target {
            server,
            cluster,
            facts,
        };
        let (first, second) = (provider.resolve(&target), provider.resolve(&target));
        same("the same is said of the same", &first, &second)?;
        let Some(endpoint) = first else { continue };
        let somewhere = !endpoint.addresses.is_empty() || !endpoint.hostnames.is_empty();
        let says = if somewhere {
            endpoint.port > 0
        } else {
            !endpoint.reason.is_empty() && !endpoint.message.is_empty()
        };
        holds(
            "an endpoint has a port, and none has a reason and a sentence",
            says,
            &endpoint,
        )?;
    }
    Ok(())
}

/// Asks for the models of two clusters.
///
/// # Errors
/// The first rule that it breaks.
pub fn model_config_provider(
    models: &dyn ModelConfigProvider,
    server: &InferenceServer,
) -> Result<(), Breach> {
    for cluster in sample::clusters(Sample::Both).keys() {
        let (first, second) = (models.model(server, cluster), models.model(server, cluster));
        same("the same is said of the same", &first, &second)?;
        if let Err(refusal) = first {
            let says = !refusal.reason.is_empty() && !refusal.message.is_empty();
            holds("a refusal has a reason and a sentence", says, &refusal)?;
        }
    }
    Ok(())
}
