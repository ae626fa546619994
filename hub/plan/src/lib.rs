//! The pure planner of the hub: facts in, placements, discovery objects and verdicts out.
//!
//! It has no client, no clock and no randomness. In the order of a pass:
//!
//! * [`facts`]: all that a plan is made from;
//! * [`revisions`]: what the profiles that a server names say to it;
//! * [`placements`]: what each member cluster is to hold;
//! * [`memory`]: what each cluster's endpoint was last;
//! * [`silence`] and [`drain`]: what becomes of it when the cluster can't be heard, or goes;
//! * [`probe`]: which endpoints are asked whether they lead to model servers;
//! * [`clusters`]: how each target is, judged once for everything that follows, with `tiers` of those that take traffic;
//! * [`endpoints`], `shards` and [`weights`]: the discovery Services and their EndpointSlices;
//! * [`routes`]: the discovery HTTPRoutes;
//! * [`conditions`]: one file and one function per condition;
//! * [`status`]: the status that carries them, once the steps have been taken, with the [`urgency`] of writing it.

pub mod clusters;
pub mod conditions;
pub mod drain;
pub mod endpoints;
pub mod facts;
pub mod memory;
pub mod overrides;
pub mod placements;
pub mod probe;
pub mod revisions;
pub mod routes;
mod shards;
pub mod silence;
pub mod status;
mod tiers;
pub mod urgency;
pub mod weights;

use std::collections::{BTreeMap, HashSet};

use crds::{
    ClusterName,
    condition::Verdict,
    labels,
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
    memory::PublishedEndpoint,
    probe::Probe,
};

/// All that the hub does for one server. No choices are left in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The discovery objects, in the order in which they are applied: what a route names exists before it.
    pub services: Vec<Service>,
    /// The EndpointSlices of those Services.
    pub slices: Vec<EndpointSlice>,
    /// The discovery HTTPRoutes. None while the Gateway API is not installed.
    pub routes: Vec<HttpRoute>,
    /// What is published of each cluster, whatever objects say so.
    pub endpoints: BTreeMap<ClusterName, PublishedEndpoint>,
    /// Discovery HTTPRoutes of ours that are no longer wanted.
    pub surplus_routes: Vec<Reference>,
    /// Slices of ours that are no longer wanted, whichever Service they are of.
    pub surplus: Vec<Reference>,
    /// Services of ours that are no longer wanted.
    pub retired: Retired,
    /// How each target is, and every other cluster that holds a part.
    pub clusters: Vec<Cluster>,
    /// How each step would be if all of this were written: those of creation, or those of the way out.
    pub steps: Vec<Verdict>,
    /// Is something of the server published or placed already?
    pub begun: bool,
    /// Is every member done with a server that is on its way out? What is published may go.
    pub emptied: bool,
    /// The clusters that have to be told later of what they are to let go; recorded before the finalizer goes.
    pub unconfirmed: Vec<ClusterName>,
    /// When time alone changes the plan.
    pub due: Option<Timestamp>,
}

/// Services that are no longer wanted. A route may lead there until the routes are as planned, and whether they are only whoever
/// keeps them can say: until then they are kept right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Retired {
    /// Their slices, as they are to be until then.
    pub slices: Vec<EndpointSlice>,
    /// What of them is there, no HTTPRoute of ours names, and is to go then: slices, then Services.
    pub surplus: Vec<Reference>,
}

/// Plans the discovery objects of one server, and judges its steps.
pub fn plan(facts: &Facts<'_>, now: Timestamp) -> Plan {
    let clusters = clusters::judge(facts, now);
    let leaving = placements::is_leaving(facts.server);
    let emptied = leaving && !clusters.iter().any(Cluster::is_left);
    let discovery = if emptied {
        endpoints::Discovery::default()
    } else {
        endpoints::discovery(facts, &clusters)
    };
    let routes = if leaving {
        Vec::new()
    } else {
        routes::discovery(facts, &discovery)
    };
    let of_routes = routes::verdict(facts, now);
    let steps = conditions::steps(facts, &clusters, &discovery, &of_routes.verdict);
    let due = clusters.iter().filter_map(|cluster| cluster.due);
    let due = due.chain(of_routes.due.filter(|_| !leaving)).min();
    let surplus = surplus(facts, &discovery);
    let surplus_of_retired = retired(facts, &discovery);
    let surplus_routes = surplus_routes(facts, &routes);
    let discovery = if leaving {
        still_there(facts, discovery)
    } else {
        discovery
    };
    let let_go = clusters
        .iter()
        .filter(|cluster| emptied && facts.is_deleted() && cluster.part == Part::LetGo);
    Plan {
        services: discovery.services,
        slices: discovery.slices,
        routes,
        endpoints: discovery.endpoints,
        surplus_routes,
        surplus,
        retired: Retired {
            slices: discovery.retired,
            surplus: surplus_of_retired,
        },
        begun: is_begun(facts),
        emptied,
        unconfirmed: let_go.map(|cluster| cluster.name.clone()).collect(),
        due,
        steps,
        clusters,
    }
}

impl Plan {
    /// The server's status, by what the steps came to.
    pub fn status(
        &self,
        server: &InferenceServer,
        steps: &[Verdict],
        now: Timestamp,
    ) -> InferenceServerStatus {
        let verdicts = conditions::conclusion(server, &self.clusters, steps);
        status::status(server, &self.clusters, &verdicts, now)
    }

    /// The endpoints that are to be asked whether they lead to model servers.
    pub fn probes(&self) -> BTreeMap<ClusterName, Probe> {
        let probes = self.clusters.iter().filter_map(|cluster| {
            let probe = cluster.probe.clone()?;
            Some((cluster.name.clone(), probe))
        });
        probes.collect()
    }
}

/// Is something of it published or placed, so that it has to be kept right whatever becomes of the specification?
fn is_begun(facts: &Facts<'_>) -> bool {
    let placed = facts
        .clusters
        .values()
        .any(|cluster| cluster.placement.is_some());
    placed || !facts.published.is_empty() || !facts.observed.services.is_empty()
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
    for planned in [&mut discovery.slices, &mut discovery.retired] {
        planned.retain(|slice| {
            let there = slices
                .iter()
                .find(|there| there.metadata.name == slice.metadata.name);
            stays(&slice.metadata, there.map(|there| &there.metadata))
        });
    }
    discovery
}

/// The routes that we own and the plan no longer has.
fn surplus_routes(facts: &Facts<'_>, routes: &[HttpRoute]) -> Vec<Reference> {
    let wanted = names(routes.iter().map(|route| &route.metadata));
    let there = facts.observed.routes.iter().map(|route| &route.metadata);
    there
        .filter(|meta| is_surplus(meta, &wanted))
        .map(Reference::route)
        .collect()
}

/// The slices that we own and the plan no longer has.
fn surplus(facts: &Facts<'_>, discovery: &endpoints::Discovery) -> Vec<Reference> {
    let wanted = discovery.slices.iter().chain(&discovery.retired);
    let wanted = names(wanted.map(|slice| &slice.metadata));
    let there = facts.observed.slices.iter().map(|slice| &slice.metadata);
    there
        .filter(|meta| is_surplus(meta, &wanted))
        .map(Reference::slice)
        .collect()
}

/// The Services that we own and the plan no longer has, after those of their slices that are not surplus already. What an
/// HTTPRoute of ours names stays: one that is on its way out leads there until it is gone.
fn retired(facts: &Facts<'_>, discovery: &endpoints::Discovery) -> Vec<Reference> {
    let observed = &facts.observed;
    let named = routes::services(observed.routes.iter().map(AsRef::as_ref));
    let is_named = |service: Option<&str>| service.is_some_and(|name| named.contains(name));
    let going = discovery.retired.iter();
    let going = going.filter(|slice| !is_named(memory::label(slice, labels::SERVICE_NAME)));
    let of_retired = names(going.map(|slice| &slice.metadata));
    let is_of_retired = |meta: &&ObjectMeta| {
        let name = meta.name.as_deref();
        meta.deletion_timestamp.is_none() && name.is_some_and(|name| of_retired.contains(name))
    };
    let services = names(discovery.services.iter().map(|service| &service.metadata));
    let slices = observed.slices.iter().map(|slice| &slice.metadata);
    let there = observed.services.iter().map(|service| &service.metadata);
    slices
        .filter(is_of_retired)
        .map(Reference::slice)
        .chain(
            there
                .filter(|meta| is_surplus(meta, &services) && !is_named(meta.name.as_deref()))
                .map(Reference::service),
        )
        .collect()
}

fn names<'a>(objects: impl Iterator<Item = &'a ObjectMeta>) -> HashSet<&'a str> {
    objects.filter_map(|meta| meta.name.as_deref()).collect()
}

/// What is on its way out already is not told again.
fn is_surplus(meta: &ObjectMeta, wanted: &HashSet<&str>) -> bool {
    let name = meta.name.as_deref();
    meta.deletion_timestamp.is_none() && !name.is_some_and(|name| wanted.contains(name))
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
