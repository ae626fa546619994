//! The pure planner of the hub: facts in, placements, discovery objects and verdicts out.
//!
//! It has no client, no clock and no randomness. In the order of a pass:
//!
//! * [`facts`]: all that a plan is made from;
//! * [`placements`]: what each member cluster is to hold;
//! * [`memory`]: what each cluster's endpoint was last;
//! * [`silence`] and [`drain`]: what becomes of it when the cluster can't be heard, or goes;
//! * [`clusters`]: how each target is, judged once for everything that follows, with `tiers` of those that take traffic;
//! * [`endpoints`], `shards` and [`weights`]: the discovery Services and their EndpointSlices;
//! * [`routes`]: the discovery HTTPRoutes;
//! * [`conditions`]: one file and one function per condition;
//! * [`status`]: the status that carries them.

pub mod clusters;
pub mod conditions;
pub mod drain;
pub mod endpoints;
pub mod facts;
pub mod memory;
pub mod placements;
pub mod routes;
mod shards;
pub mod silence;
pub mod status;
mod tiers;
pub mod weights;

use std::collections::BTreeSet;

use crds::{
    ClusterName, labels,
    v1alpha1::{InferenceServer, InferenceServerStatus},
};
use gateway_api::httproutes::HttpRoute;
use k8s_openapi::{
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
    jiff::Timestamp,
};

use crate::{
    clusters::{Cluster, Part},
    facts::{Facts, Observed, Reference},
};

/// All that the hub does for one server. No choices are left in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The discovery objects, in the order in which they are applied: what a route names exists before it.
    pub services: Vec<Service>,
    /// The EndpointSlices of those Services.
    pub slices: Vec<EndpointSlice>,
    /// The discovery HTTPRoutes. None while the Gateway API is not installed.
    pub routes: Vec<HttpRoute>,
    /// Objects of ours that are no longer wanted, routes first.
    pub surplus: Vec<Reference>,
    /// May the server's finalizer go?
    pub release: bool,
    /// The clusters that have to be told later of what they are to let go; recorded before the finalizer goes.
    pub unconfirmed: Vec<ClusterName>,
    /// What the server's status is to be.
    pub status: InferenceServerStatus,
    /// When time alone changes the plan.
    pub due: Option<Timestamp>,
}

/// Plans the discovery objects and the status of one server.
pub fn plan(facts: &Facts<'_>, now: Timestamp) -> Plan {
    let clusters = clusters::judge(facts, now);
    let empty = !clusters.iter().any(Cluster::is_left);
    let leaving = placements::is_leaving(facts.server);
    let discovery = if leaving && empty && !facts.is_deleted() {
        endpoints::Discovery::default()
    } else {
        endpoints::discovery(facts, &clusters)
    };
    let routes = if leaving {
        Vec::new()
    } else {
        routes::discovery(facts, &discovery)
    };
    let release = facts.is_deleted() && empty;
    let verdicts = conditions::judge(facts, &clusters, &discovery);
    let status = status::status(facts, &clusters, &verdicts, now);
    let surplus = surplus(facts, &discovery, &routes);
    let discovery = if leaving {
        still_there(facts, discovery)
    } else {
        discovery
    };
    Plan {
        services: discovery.services,
        slices: discovery.slices,
        routes,
        surplus,
        release,
        unconfirmed: clusters
            .iter()
            .filter(|cluster| release && cluster.part == Part::LetGo)
            .map(|cluster| cluster.name.clone())
            .collect(),
        status,
        due: clusters.iter().filter_map(|cluster| cluster.due).min(),
    }
}

/// What of the plan exists already: on its way out a server gets nothing new, whatever takes away what it had.
fn still_there(facts: &Facts<'_>, mut discovery: endpoints::Discovery) -> endpoints::Discovery {
    let stays = |meta: &ObjectMeta, there: Option<&ObjectMeta>| {
        meta.name.is_some() && there.is_some_and(|there| there.deletion_timestamp.is_none())
    };
    let Observed {
        services, slices, ..
    } = &facts.observed;
    discovery.services.retain(|service| {
        let there = services
            .iter()
            .find(|there| there.metadata.name == service.metadata.name);
        stays(&service.metadata, there.map(|there| &there.metadata))
    });
    discovery.slices.retain(|slice| {
        let there = slices
            .iter()
            .find(|there| there.metadata.name == slice.metadata.name);
        stays(&slice.metadata, there.map(|there| &there.metadata))
    });
    discovery
}

/// What we own and the plan no longer has: routes go before what they name.
fn surplus(
    facts: &Facts<'_>,
    discovery: &endpoints::Discovery,
    routes: &[HttpRoute],
) -> Vec<Reference> {
    let route_names: BTreeSet<_> = routes
        .iter()
        .filter_map(|route| route.metadata.name.as_deref())
        .collect();
    let slice_names: BTreeSet<_> = discovery
        .slices
        .iter()
        .filter_map(|slice| slice.metadata.name.as_deref())
        .collect();
    let service_names: BTreeSet<_> = discovery
        .services
        .iter()
        .filter_map(|service| service.metadata.name.as_deref())
        .collect();
    let absent = |meta: &ObjectMeta, names: &BTreeSet<&str>| {
        // What is on its way out already is not told again.
        meta.deletion_timestamp.is_none()
            && !meta
                .name
                .as_deref()
                .is_some_and(|name| names.contains(name))
    };
    let observed = &facts.observed;
    let routes = observed
        .routes
        .iter()
        .filter(|route| absent(&route.metadata, &route_names));
    let slices = observed
        .slices
        .iter()
        .filter(|slice| absent(&slice.metadata, &slice_names));
    let services = observed
        .services
        .iter()
        .filter(|service| absent(&service.metadata, &service_names));
    routes
        .map(|route| Reference::route(&route.metadata))
        .chain(slices.map(|slice| Reference::slice(&slice.metadata)))
        .chain(services.map(|service| Reference::service(&service.metadata)))
        .collect()
}

/// Who every discovery object is, and whose.
fn metadata(facts: &Facts<'_>, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(facts.namespace().to_owned()),
        labels: Some(
            [
                (labels::MANAGED_BY, labels::HUB),
                (labels::SERVER, facts.name()),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ),
        owner_references: Some(vec![owner(facts.server)]),
        ..ObjectMeta::default()
    }
}

/// The owner of every discovery object.
fn owner(server: &InferenceServer) -> OwnerReference {
    OwnerReference {
        api_version: "inferfleet.io/v1alpha1".to_owned(),
        kind: "InferenceServer".to_owned(),
        name: server.metadata.name.clone().unwrap_or_default(),
        uid: server.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
