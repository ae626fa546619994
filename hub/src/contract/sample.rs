//! Servers and plans for contracts: made by the hub's own planner, so that they are such as the hub asks for.

use std::{collections::BTreeMap, sync::Arc};

use crds::{
    ClusterName,
    v1alpha1::{GatewayReference, InferenceServer},
};
use hub_plan::{
    Plan,
    facts::{ClusterFacts, Facts, Fleet, Observed, RouteSchema},
    memory::PublishedEndpoint,
    overrides::Profiles,
};
use k8s_openapi::jiff::Timestamp;

/// What the clusters of a sample are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    /// East and west serve.
    Both,
    /// East admits traffic elsewhere.
    Changed,
    /// West is gone.
    One,
    /// Both are gone, and the server is on its way out.
    None,
}

/// The clusters of a sample.
pub(super) fn clusters(sample: Sample) -> BTreeMap<ClusterName, ClusterFacts> {
    let addresses = match sample {
        Sample::Both => ["203.0.113.1", "203.0.113.2"],
        Sample::Changed | Sample::One | Sample::None => ["203.0.113.9", "203.0.113.2"],
    };
    let named = ["east", "west"].into_iter().zip(addresses);
    let named = named.filter_map(|(name, address)| Some((name.parse().ok()?, address)));
    named
        .map(|(name, address): (ClusterName, _)| {
            let gone = match sample {
                Sample::Both | Sample::Changed => false,
                Sample::One => name.as_str() == "west",
                Sample::None => true,
            };
            let facts = if gone {
                ClusterFacts {
                    gone: true,
                    ..ClusterFacts::default()
                }
            } else {
                ClusterFacts::serving(address)
            };
            (name, facts)
        })
        .collect()
}

/// What the hub plans for the server.
pub(super) fn plan(
    server: &InferenceServer,
    sample: Sample,
    observed: Observed,
    published: BTreeMap<ClusterName, PublishedEndpoint>,
) -> Plan {
    let mut server = server.clone();
    server.spec.decommission |= sample == Sample::None;
    server.spec.endpoints.drain_seconds = 0;
    let gateway = GatewayReference {
        namespace: "infra".to_owned(),
        name: "public".to_owned(),
        listener: None,
    };
    let facts = Facts {
        server: &server,
        waiting: None,
        profiles: &Profiles::default(),
        clusters: clusters(sample),
        gateway: Some(&gateway),
        gateway_api: true,
        refused_cidrs: &[],
        route_schema: RouteSchema::default(),
        gateways: [(gateway.namespace.clone(), gateway.name.clone())].into(),
        observed,
        published,
        fleet: Arc::new(Fleet::default()),
    };
    hub_plan::plan(&facts, Timestamp::UNIX_EPOCH)
}
