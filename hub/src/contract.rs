//! What whoever replaces a part of the hub has to keep, as tests that can be run on it. Each returns the first rule that is
//! broken, and what was seen.
//!
//! They write: run them on nothing that anybody uses.

mod plugin;
mod publisher;
mod routing;
mod sample;
#[cfg(test)]
mod tests;

pub use operator::conditions::contract::{Breach, condition_actor};

pub use self::{plugin::server_plugin, publisher::publisher, routing::routing};

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crds::v1alpha1::{
    ClusterTarget, DeletionPolicy, EndpointPolicy, InferenceServer, InferenceServerSpec, Routing,
    Runtime, Spreading,
};
#[cfg(test)]
use hub_plan::Plan;
use hub_plan::facts::Observed;
use operator::{
    cache::ObjectKey,
    conditions::contract::{holds, same},
};

use self::sample::Sample;
use crate::{
    endpoints::{Provider, Target},
    models::ModelConfigProvider,
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

/// More turns than this in a row are no pace.
const TURNS_MAX: usize = 10;
/// How long a turn has to come true whose part asks for no time.
const PAUSE: Duration = Duration::from_millis(100);

async fn pause(wait: Option<Duration>) {
    tokio::time::sleep(wait.unwrap_or(PAUSE)).await;
}

/// A server for a contract, that targets the clusters `east` and `west`. Where objects are written that it owns, it has to be
/// one that exists.
pub fn server(namespace: &str, name: &str) -> InferenceServer {
    let spec = InferenceServerSpec {
        cluster_targets: vec![ClusterTarget::new("east"), ClusterTarget::new("west")],
        min_ready_clusters: 1,
        runtime: Runtime::new("echo"),
        model: None,
        resources: None,
        accelerator: None,
        replicas: 1,
        spreading: Spreading::Preferred,
        disruption: None,
        node_selector: BTreeMap::new(),
        tolerations: Vec::new(),
        image_pull_secrets: Vec::new(),
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

/// The servers that are most like this one and are others: of another namespace, and of another time.
fn strangers(server: &InferenceServer) -> [InferenceServer; 2] {
    let (mut elsewhere, mut before) = (server.clone(), server.clone());
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    elsewhere.metadata.namespace = Some(format!("not-{namespace}"));
    elsewhere.metadata.uid = Some("uid-of-another-namespace".to_owned());
    before.metadata.uid = Some("uid-of-another-time".to_owned());
    [elsewhere, before]
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
