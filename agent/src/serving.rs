//! One ServerPlacement, from its facts to its report. Asks nobody but the caches, and needs no hub.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use agent_plan::{
    Drivers, GatewayFact, ObjectId, PlacementInput, Report, effective_gateway, judge, leaving, plan,
};
use crds::{
    labels,
    v1alpha1::{GatewayReference, ServerPlacement},
};
use gateway_api::{gateways::Gateway, httproutes::HttpRoute};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Node, Pod, Service},
    },
    jiff::Timestamp,
};
use kube::{Client, ResourceExt};
use operator::{cache::ObjectKey, wake::Next};
use proto::{PlacementKey, session::Held};

use crate::{
    apply::{self, Applied, Owner},
    link::{Clock, Machine},
    observe::{self, Caches, Sources},
    report::{self, Origin, Unwritten},
};

/// Reconciles placements.
pub(crate) struct Serving {
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) machine: Arc<Machine>,
    pub(crate) default_gateway: Option<GatewayReference>,
    pub(crate) drivers: Drivers,
    /// What time it is.
    pub(crate) clock: Clock,
}

impl Serving {
    /// Makes the cluster as the ServerPlacement says, and reports how it is, or that a newer value could not be written.
    /// Does nothing where there is none, or where no hub is behind it; plans nothing where it is on its way out.
    pub(crate) async fn reconcile(
        &self,
        key: &PlacementKey,
        unwritten: Option<&Unwritten>,
        going: bool,
    ) -> Next {
        let observed = self.machine.elapsed();
        let Some((placement, origin)) = self.placement(key) else {
            let is_told = |unwritten: &&Unwritten| {
                // Of what was never there, a refusal says enough. What was there and is gone must not be taken to serve.
                unwritten.refused.is_none() || self.machine.with(|machine| machine.has_report(key))
            };
            if let Some(unwritten) = unwritten.filter(is_told) {
                let report = report::absent(unwritten);
                self.machine
                    .with(|machine| machine.report(key.clone(), report, observed));
            }
            return Next::Rest;
        };
        self.introduce(key);
        // Of what is refused the hub is told as such: the report goes on about what serves.
        let unwritten = unwritten.filter(|unwritten| unwritten.refused.is_none());
        let report = |report: Report| match unwritten {
            None => self.report(key, &origin, &report, observed),
            // What serves goes on; of the newer value nothing is known.
            Some(Unwritten {
                origin, message, ..
            }) => {
                let verdicts = agent_plan::unwritten(message);
                self.report(key, origin, &Report { verdicts, ..report }, observed);
            }
        };
        if going || placement.metadata.deletion_timestamp.is_some() {
            report(leaving(&self.drivers, &self.facts(&placement).input()));
            return Next::Rest;
        }
        let planned = plan(&self.drivers, &self.facts(&placement).input());
        let Applied { outcomes, failed } =
            apply::apply(&self.client, &self.caches, &Owner::of(&placement), &planned).await;
        // What was written is in the caches by now: the verdicts are of the world as it is since.
        let facts = self.facts(&placement);
        let (input, now) = (facts.input(), self.now());
        let judged = judge(&self.drivers, &input, &planned, &outcomes, now);
        let within = judged.due.map(|due| due.duration_since(now));
        let within = within.and_then(|within| Duration::try_from(within).ok());
        report(judged);
        match (failed, within) {
            (true, None) => Next::Retry,
            (true, Some(within)) => Next::RetryWithin(within),
            (false, None) => Next::Rest,
            (false, Some(within)) => Next::After(within),
        }
    }

    /// Reports a placement as it is found, before anything is written, if this process has not reported it yet. The hub
    /// hears nothing of a cluster until all that it holds is reported, and a write may hang for long.
    pub(crate) fn introduce(&self, key: &PlacementKey) {
        if self.machine.with(|machine| machine.has_report(key)) {
            return;
        }
        let observed = self.machine.elapsed();
        if let Some((placement, origin)) = self.placement(key) {
            // A write of ours that was given up may come about late. What the hub never hears of, nobody takes away.
            if let Some(held) = held(&placement) {
                self.machine.with(|machine| machine.found(&held));
            }
            self.report(key, &origin, &self.as_found(&placement), observed);
        }
    }

    /// The ServerPlacement of the key, if an agent wrote it.
    fn placement(&self, key: &PlacementKey) -> Option<(Arc<ServerPlacement>, Origin)> {
        let object = ObjectKey::new(key.namespace(), key.name());
        let placement = self.caches.placements.get(&object)?;
        let origin = origin(&placement)?;
        Some((placement, origin))
    }

    /// How the placement is when nothing more is written.
    fn as_found(&self, placement: &ServerPlacement) -> Report {
        let facts = self.facts(placement);
        let input = facts.input();
        if placement.metadata.deletion_timestamp.is_some() {
            return leaving(&self.drivers, &input);
        }
        let planned = plan(&self.drivers, &input);
        let found = apply::found(&self.caches, &planned);
        judge(&self.drivers, &input, &planned, &found, self.now())
    }

    /// A clock that can't be read doubts nothing.
    fn now(&self) -> Timestamp {
        (self.clock)().try_into().unwrap_or(Timestamp::MIN)
    }

    fn facts<'a>(&'a self, placement: &'a ServerPlacement) -> Facts<'a> {
        Facts::of(&self.caches, placement, self.default_gateway.as_ref())
    }

    fn report(&self, key: &PlacementKey, origin: &Origin, report: &Report, observed: Duration) {
        self.machine.with(|machine| {
            machine.endpoint(key.clone(), report::endpoint(origin, report), observed);
            machine.report(key.clone(), report::placement(origin, report), observed);
        });
    }
}

/// Whose value it is; `None` when no agent wrote it.
pub(crate) fn origin(placement: &ServerPlacement) -> Option<Origin> {
    let annotations = placement.annotations();
    Some(Origin {
        server_uid: annotations.get(labels::SERVER_UID)?.clone(),
        generation: annotations.get(labels::GENERATION)?.parse().ok()?,
        hash: proto::Hash::from_hex(annotations.get(labels::HASH)?)?,
    })
}

/// What the hub is told that the cluster holds; `None` when no agent wrote it.
pub(crate) fn held(placement: &ServerPlacement) -> Option<Held> {
    let origin = origin(placement)?;
    Some(Held {
        key: observe::key_of(placement)?,
        uid: origin.server_uid,
        generation: origin.generation,
        hash: origin.hash,
    })
}

/// What the caches hold of one placement at one time.
struct Facts<'a> {
    sources: &'a Sources,
    placement: &'a ServerPlacement,
    default_gateway: Option<&'a GatewayReference>,
    has_gateway_api: bool,
    gateway: Option<Arc<Gateway>>,
    service: Option<Arc<Service>>,
    nodes: Option<Vec<Arc<Node>>>,
    runtime_classes: BTreeSet<String>,
    owned: Vec<ObjectId>,
    deployments: Vec<Arc<Deployment>>,
    routes: Vec<Arc<HttpRoute>>,
    pods: Vec<Arc<Pod>>,
}

impl<'a> Facts<'a> {
    fn of(
        caches: &'a Caches,
        placement: &'a ServerPlacement,
        default_gateway: Option<&'a GatewayReference>,
    ) -> Self {
        let owner = Owner::of(placement);
        let gateway = effective_gateway(placement, default_gateway);
        Self {
            sources: &caches.sources,
            placement,
            default_gateway,
            has_gateway_api: caches.has_gateway_api(),
            gateway: gateway.and_then(|gateway| {
                let key = ObjectKey::new(gateway.namespace.as_str(), gateway.name.as_str());
                caches.gateways.get(&key)
            }),
            service: caches.sources.service(placement),
            nodes: caches.sources.nodes(placement),
            runtime_classes: caches.runtime_classes(placement),
            owned: owner.owned(caches),
            deployments: owner.all(&caches.deployments),
            routes: owner.all(&caches.routes),
            pods: pods(caches, placement),
        }
    }

    fn input(&self) -> PlacementInput<'_> {
        PlacementInput {
            placement: self.placement,
            default_gateway: self.default_gateway,
            gateway: match &self.gateway {
                _ if !self.has_gateway_api => GatewayFact::ApiMissing,
                None => GatewayFact::NotFound,
                Some(gateway) => GatewayFact::Found(gateway),
            },
            service: self.sources.fact(self.service.as_deref()),
            nodes: self.nodes.as_deref(),
            runtime_classes: &self.runtime_classes,
            owned: &self.owned,
            deployments: &self.deployments,
            routes: &self.routes,
            pods: &self.pods,
        }
    }
}

/// The Pods that carry the server's label. Their names begin with the Deployment's, which is short enough not to be cut.
fn pods(caches: &Caches, placement: &ServerPlacement) -> Vec<Arc<Pod>> {
    let (namespace, name) = (
        placement.namespace().unwrap_or_default(),
        placement.name_any(),
    );
    let mut pods = caches.pods.prefixed(&namespace, &format!("{name}-"));
    pods.retain(|pod| pod.labels().get(labels::SERVER) == Some(&name));
    pods
}
