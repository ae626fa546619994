//! One pass over one InferenceServer: snapshot, plan, steps, report. Decides nothing: `hub-plan` does, and the steps of
//! [`plugin`].

pub mod actors;
mod hold;
mod pass;
pub mod plugin;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crds::{
    condition::{CLEANUP, Verdict},
    v1alpha1::{GatewayReference, InferenceServer, InferenceServerStatus},
};
use hub_plan::{
    facts::{Facts, GatewayName},
    routes,
    urgency::urgency,
};
use ipnet::IpNet;
use kube::{Api, Client, Resource};
use operator::{
    cache::ObjectKey,
    conditions::{Again, Engine, Outcome, Pace, Plugin},
    wake::Next,
};
use serde_json::json;

pub use self::pass::Pass;
use self::plugin::{ServerPlugin, steps_of};
use crate::{
    clock::Clock,
    endpoints::{Provider, Publisher, Target},
    metrics::Metrics,
    observe::Caches,
    place::{Placer, has_finalizer},
    probe::Prober,
    report::{self, events::Events},
    resolve::Resolver,
};

/// One bad cluster holds up no other.
const ENGINE: Engine = Engine {
    pace: Pace::AllSteps,
    kill_reason: None,
};

/// Reconciles InferenceServers.
pub struct Reconciler {
    parts: Parts,
    events: Events,
    /// Of each server's status.
    pace: report::pace::Pace,
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
    /// Whether endpoints lead to model servers.
    pub prober: Arc<Prober>,
    /// Where clusters admit traffic.
    pub provider: Arc<dyn Provider>,
    /// What is published of that.
    pub publisher: Arc<dyn Publisher>,
    /// The steps that servers go through.
    pub plugin: Arc<dyn ServerPlugin>,
    /// What time it is.
    pub clock: Clock,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What routes attach to, where the server does not say.
    pub gateway: Option<GatewayReference>,
    /// Nothing within them is published.
    pub refused_cidrs: Vec<IpNet>,
}

impl Reconciler {
    /// Nothing has been looked at yet.
    pub fn new(parts: Parts) -> Self {
        let events = Events::new(parts.client.clone());
        Self {
            parts,
            events,
            pace: report::pace::Pace::default(),
        }
    }

    /// One pass.
    pub async fn reconcile(self: Arc<Self>, key: ObjectKey) -> Next {
        let Parts {
            caches,
            placer,
            resolver,
            prober,
            metrics,
            ..
        } = &self.parts;
        let Some(server) = caches.servers.get(&key) else {
            placer.place(&key);
            metrics.published(&key, None);
            metrics.propagation.forget(&key);
            resolver.forget(&key);
            prober.forget(&key);
            self.events.forget(&key);
            self.pace.forget(&key);
            return Next::Rest;
        };
        metrics.passed();
        if let Err(error) = self.hold(&server).await {
            return self.hindered(&key, &error).await;
        }
        let Some((pass, outcome)) = self.take_steps(&key).await else {
            return Next::Rest;
        };
        for reason in &outcome.failures {
            metrics.failed(reason);
        }
        // The status speaks of what is published: it comes with what has to wait for its turn, unless something has failed.
        let rest = outcome.wait().filter(|_| outcome.failures.is_empty());
        let now = self.parts.clock.elapsed();
        if let Some(wait) = self.pace.hold(&key, rest, now) {
            // What is kept tells how things are once that is written.
            let status = self.status(&pass, &pass.server, &pass.plan.steps);
            self.put_off(&pass, status);
            return Next::After(wait);
        }
        metrics.published(&key, Some(&pass.plan));
        let reported = self.report(&pass, &outcome).await;
        self.next(&pass, &outcome, reported)
    }

    /// Takes the steps of the server until nothing is left to write: each time on what is there after the last. `None`: it is
    /// gone.
    async fn take_steps(&self, key: &ObjectKey) -> Option<(Pass, Outcome)> {
        let mut turns = 0;
        loop {
            let mut pass = self.look(key)?;
            let steps = steps_of(self.parts.plugin.as_ref(), &pass.server);
            let outcome = ENGINE.run(steps, &mut pass).await;
            turns += 1;
            // A step that says it is done each time it is run, and never when it is asked, must not go round for ever.
            if outcome.again != Again::AtOnce || turns > steps.actors().len() {
                return Some((pass, outcome));
            }
        }
    }

    /// `reported`: how long the status waits for its turn.
    fn next(
        &self,
        pass: &Pass,
        outcome: &Outcome,
        reported: Result<Option<Duration>, report::Error>,
    ) -> Next {
        let (failed, wait) = match reported {
            Ok(wait) => (!outcome.failures.is_empty(), wait),
            Err(error) => (retry(&pass.key, &error) == Next::Retry, None),
        };
        let due = pass.plan.due.map(|due| self.parts.clock.until(due));
        let due = due.into_iter().chain(wait).chain(outcome.wait()).min();
        // A write that another hand undoes each time, after which a pass gives up, is left to the next event.
        // Also what is refused for good: what stands in the way is often somebody else's, which no watch of ours shows.
        match (failed, outcome.terminal, due) {
            (true, _, Some(within)) => Next::RetryWithin(within),
            (true, _, None) => Next::Retry,
            (false, true, Some(within)) => Next::After(within),
            (false, true, None) => Next::Rest,
            (false, false, within) => Next::Recheck { within },
        }
    }

    /// Tells each member what it is to hold, then looks at the server; `None`: it is gone.
    fn look(&self, key: &ObjectKey) -> Option<Pass> {
        let Parts {
            caches,
            placer,
            resolver,
            prober,
            provider,
            publisher,
            metrics,
            ..
        } = &self.parts;
        placer.place(key);
        let server = caches.servers.get(key)?;
        let seen = metrics.propagation.seen(key);
        let profiles = caches.profiles_of(&server);
        let published = publisher.get(&server);
        let mut clusters = placer.clusters(&server, &published);
        for (cluster, facts) in &mut clusters {
            let target = Target {
                server: &server,
                cluster,
                facts,
            };
            facts.endpoint = provider.resolve(&target);
        }
        resolver.resolve(key, &mut clusters);
        prober.answers(&server, &mut clusters);
        let uid = server.metadata.uid.as_deref().unwrap_or_default();
        let waiting = self.pace.waiting(key, uid);
        let facts = Facts {
            server: &server,
            waiting: waiting.as_deref(),
            profiles: &profiles,
            clusters,
            gateway: self.parts.gateway.as_ref(),
            gateway_api: caches.routes.is_installed(),
            refused_cidrs: &self.parts.refused_cidrs,
            route_schema: caches.route_schema.borrow().unwrap_or_default(),
            gateways: self.gateways(&server),
            observed: caches.discovery(&server),
            published,
            fleet: placer.fleet(),
        };
        let plan = hub_plan::plan(&facts, self.parts.clock.now());
        let endpoints = [&facts.published, &plan.endpoints];
        metrics
            .propagation
            .planned(key, &seen, endpoints, self.parts.clock.elapsed());
        prober.wish(&server, &plan.probes());
        Some(Pass::new(key.clone(), server, plan))
    }

    /// Those that exist of the Gateways that the server's routes attach to.
    fn gateways(&self, server: &InferenceServer) -> BTreeSet<GatewayName> {
        let mut gateways = routes::gateways(server, self.parts.gateway.as_ref());
        gateways.retain(|(namespace, name)| {
            let key = ObjectKey::new(namespace, name);
            self.parts.caches.gateways.get(&key).is_some()
        });
        gateways
    }

    /// Writes the status, or returns how long it waits for its turn; or lets the server go.
    async fn report(
        &self,
        pass: &Pass,
        outcome: &Outcome,
    ) -> Result<Option<Duration>, report::Error> {
        let Some(server) = self.parts.caches.servers.get(&pass.key) else {
            return Ok(None);
        };
        // What was planned is of another specification, or of another server of that name: of this one a pass is to come.
        let planned = &pass.server.metadata;
        if (&server.metadata.uid, server.metadata.generation) != (&planned.uid, planned.generation)
        {
            return Ok(None);
        }
        let deleted = server.metadata.deletion_timestamp.is_some();
        if deleted && pass.plan.emptied && outcome.satisfied && has_finalizer(&server) {
            let Err(error) = self.release(pass, &server).await else {
                return Ok(None);
            };
            if !error.is_gone() {
                let mut steps = pass.steps.clone();
                steps.retain(|step| step.kind != CLEANUP);
                steps.push(error.verdict(CLEANUP));
                self.tell(pass, &server, &steps).await?;
            }
            return Err(error);
        }
        self.tell(pass, &server, &pass.steps).await
    }

    /// Writes the status that the steps came to, or returns how long it waits for its turn.
    async fn tell(
        &self,
        pass: &Pass,
        server: &InferenceServer,
        steps: &[Verdict],
    ) -> Result<Option<Duration>, report::Error> {
        let key = &pass.key;
        let status = self.status(pass, server, steps);
        if server.status.as_ref() == Some(&status) {
            self.pace.rest(key);
            return Ok(None);
        }
        let urgency = urgency(server.status.as_ref(), &status);
        let now = self.parts.clock.elapsed();
        if let Some(wait) = self.pace.wait(key, urgency, now) {
            self.put_off(pass, status);
            return Ok(Some(wait));
        }
        let before = server.status.as_ref();
        let before = before.map_or(&[][..], |status| &status.conditions);
        let after = &status.conditions;
        let patch = json!({"metadata": {"uid": server.metadata.uid}, "status": status});
        let written = match report::patch_status(&self.servers_of(server), server, &patch).await {
            Ok(written) => written,
            Err(error) => {
                self.put_off(pass, status);
                return Err(error);
            }
        };
        self.parts.caches.servers.note(written);
        self.pace.written(key, now);
        report::transitions(server, before, after);
        self.parts.metrics.wrote();
        let of = server.object_ref(&());
        self.events.of_server(key, &of, before, after).await;
        Ok(None)
    }

    /// The status that the steps came to.
    fn status(
        &self,
        pass: &Pass,
        server: &InferenceServer,
        steps: &[Verdict],
    ) -> InferenceServerStatus {
        let mut status = pass.plan.status(server, steps, self.parts.clock.now());
        self.parts.plugin.finish(pass, &mut status);
        status
    }

    /// Keeps a status of the server that the pass looked at until its turn comes.
    fn put_off(&self, pass: &Pass, status: InferenceServerStatus) {
        let uid = pass.server.metadata.uid.as_deref().unwrap_or_default();
        self.pace.put_off(&pass.key, uid, status);
    }

    /// The servers of a server's namespace.
    fn servers_of(&self, server: &InferenceServer) -> Api<InferenceServer> {
        let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.parts.client.clone(), namespace)
    }
}

fn retry(key: &ObjectKey, error: &report::Error) -> Next {
    if error.is_gone() {
        return Next::Rest;
    }
    tracing::warn!(server = %key, error = error.sentence(), "will try again");
    Next::Retry
}
