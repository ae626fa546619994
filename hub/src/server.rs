//! One pass over one InferenceServer: snapshot, plan, apply, report. Decides nothing: `hub-plan` does.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crds::{
    labels,
    v1alpha1::{GatewayReference, InferenceServer},
};
use hub_plan::{
    Plan,
    facts::{Facts, Failure, GatewayName},
    routes,
};
use ipnet::IpNet;
use kube::{Api, Client, Resource};
use operator::{cache::ObjectKey, wake::Next};
use serde_json::json;

use crate::{
    apply::{Applied, Applier},
    clock::Clock,
    metrics::Metrics,
    observe::Caches,
    place::{Placer, has_finalizer},
    report::{self, events::Events, member},
    resolve::Resolver,
};

/// Reconciles InferenceServers.
pub struct Reconciler {
    client: Client,
    caches: Caches,
    placer: Arc<Placer>,
    resolver: Arc<Resolver>,
    applier: Applier,
    clock: Clock,
    metrics: Arc<Metrics>,
    events: Events,
    gateway: Option<GatewayReference>,
    refused_cidrs: Vec<IpNet>,
}

/// What a reconciler works with.
pub struct Parts {
    /// For writes.
    pub client: Client,
    /// What is read.
    pub caches: Caches,
    /// What each cluster is told, and said.
    pub placer: Arc<Placer>,
    /// Addresses of host names.
    pub resolver: Arc<Resolver>,
    /// What time it is.
    pub clock: Clock,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Reconciler {
    /// Routes attach to `gateway`; nothing within `refused_cidrs` is published.
    pub fn new(parts: Parts, gateway: Option<GatewayReference>, refused_cidrs: Vec<IpNet>) -> Self {
        let Parts {
            client,
            caches,
            placer,
            resolver,
            clock,
            metrics,
        } = parts;
        let applier = Applier::new(client.clone(), caches.clone(), clock, Arc::clone(&metrics));
        let events = Events::new(client.clone());
        Self {
            client,
            caches,
            placer,
            resolver,
            applier,
            clock,
            metrics,
            events,
            gateway,
            refused_cidrs,
        }
    }

    /// One pass.
    pub async fn reconcile(self: Arc<Self>, key: ObjectKey) -> Next {
        let Some(server) = self.caches.servers.get(&key) else {
            self.placer.place(&key);
            self.metrics.published(&key, None);
            self.resolver.forget(&key);
            return Next::Rest;
        };
        self.metrics.passed();
        // No member is told anything before the finalizer says that it has to be asked on the way out.
        if server.metadata.deletion_timestamp.is_none() && !has_finalizer(&server) {
            match self.set_finalizer(&server, true).await {
                Ok(()) => {}
                Err(error) => return retry(&key, &error),
            }
        }
        self.placer.place(&key);
        let Some(plan) = self.plan(&key, Vec::new()) else {
            return Next::Rest;
        };
        let Applied {
            failures,
            postponed,
        } = self.applier.apply(&key, &plan).await;
        // The status speaks of what is published: it comes with the rest.
        if let Some(wait) = postponed {
            return Next::After(wait);
        }
        // Also what is refused for good: what stands in the way is often somebody else's, which no watch of ours shows.
        let apply_again = !failures.is_empty();
        let plan_failures: Vec<_> = failures.iter().map(|failure| failure.reason).collect();
        // What was written is in the caches: the status speaks of the world after the writes.
        let applied = plan;
        let Some(plan) = self.plan(&key, failures) else {
            return Next::Rest;
        };
        // A member has spoken meanwhile: the status must not say that it is published what is still to be written.
        let asks_more = plan.slices != applied.slices
            || plan.services != applied.services
            || plan.routes != applied.routes;
        if asks_more && !apply_again {
            return Next::After(Duration::ZERO);
        }
        for failure in &plan_failures {
            self.metrics.failed(failure);
        }
        self.metrics.published(&key, Some(&plan));
        let failed = match self.report(&key, &plan).await {
            Ok(()) => apply_again,
            Err(error) => retry(&key, &error) == Next::Retry,
        };
        match (failed, plan.due.map(|due| self.clock.until(due))) {
            (true, Some(within)) => Next::RetryWithin(within),
            (true, None) => Next::Retry,
            (false, Some(within)) => Next::After(within),
            (false, None) => Next::Rest,
        }
    }

    fn plan(&self, key: &ObjectKey, failures: Vec<Failure>) -> Option<Plan> {
        let server = self.caches.servers.get(key)?;
        let profile = self
            .caches
            .profiles
            .get(&ObjectKey::new("", &server.spec.runtime.profile));
        let mut clusters = self.placer.clusters(&server);
        self.resolver.resolve(key, &mut clusters);
        let facts = Facts {
            server: &server,
            profile: profile.as_deref(),
            clusters,
            gateway: self.gateway.as_ref(),
            gateway_api: self.caches.routes.is_installed(),
            refused_cidrs: &self.refused_cidrs,
            route_schema: *self.caches.route_schema.borrow(),
            gateways: self.gateways(&server),
            observed: self.caches.discovery(&server),
            failures,
            fleet: self.placer.fleet(),
        };
        Some(hub_plan::plan(&facts, self.clock.now()))
    }

    /// Those that exist of the Gateways that the server's routes attach to.
    fn gateways(&self, server: &InferenceServer) -> BTreeSet<GatewayName> {
        let mut gateways = routes::gateways(server, self.gateway.as_ref());
        gateways.retain(|(namespace, name)| {
            let key = ObjectKey::new(namespace, name);
            self.caches.gateways.get(&key).is_some()
        });
        gateways
    }

    async fn report(&self, key: &ObjectKey, plan: &Plan) -> Result<(), report::Error> {
        let Some(server) = self.caches.servers.get(key) else {
            return Ok(());
        };
        if plan.release && has_finalizer(&server) {
            for cluster in &plan.unconfirmed {
                let record = ObjectKey::new("", cluster.as_str());
                if let Some(record) = self.caches.members.get(&record) {
                    let written = member::record(&self.client, &record, &server).await?;
                    self.caches.members.note(written);
                }
            }
            tracing::info!(server = %key, unconfirmed = plan.unconfirmed.len(), "released");
            return self.set_finalizer(&server, false).await;
        }
        if server.status.as_ref() == Some(&plan.status) {
            return Ok(());
        }
        let before = server.status.as_ref();
        let before = before.map_or(&[][..], |status| &status.conditions);
        let after = &plan.status.conditions;
        report::transitions(key, before, after);
        let patch = json!({"metadata": {"uid": server.metadata.uid}, "status": plan.status});
        let written = report::patch_status(&self.servers_of(&server), &server, &patch).await?;
        self.caches.servers.note(written);
        self.metrics.wrote();
        let of = server.object_ref(&());
        self.events.transitions(&of, before, after).await;
        Ok(())
    }

    async fn set_finalizer(
        &self,
        server: &InferenceServer,
        held: bool,
    ) -> Result<(), report::Error> {
        let api = self.servers_of(server);
        let written = report::set_finalizer(&api, server, labels::CLEANUP, held).await?;
        self.caches.servers.note(written);
        Ok(())
    }

    /// The servers of a server's namespace.
    fn servers_of(&self, server: &InferenceServer) -> Api<InferenceServer> {
        let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.client.clone(), namespace)
    }
}

fn retry(key: &ObjectKey, error: &report::Error) -> Next {
    if error.is_gone() {
        return Next::Rest;
    }
    tracing::warn!(server = %key, error = error.sentence(), "will try again");
    Next::Retry
}
