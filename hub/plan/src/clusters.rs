//! How each cluster is with regard to one server: judged once, read by everything that follows.

mod bounds;
mod endpoint;
mod verdicts;

use std::net::IpAddr;

use crds::{
    ClusterName,
    v1alpha1::{
        ClusterState, ClusterStatus, ClusterTarget, DeletionPolicy, EndpointPolicy,
        InferenceServerStatus, ProbePolicy, Replicas, ServerState,
    },
};
use k8s_openapi::jiff::Timestamp;

use self::bounds::Bounds;
use crate::{
    drain::{Drain, drain, leading_route},
    facts::{ClusterFacts, Facts, Membership, Step, StepFacts},
    memory::{NOTHING, PublishedEndpoint},
    overrides::{replicas, targets},
    placements::is_leaving,
    probe::{self, Probe},
    silence::{self, Candidate, Silence, silence},
    tiers,
};

/// How one cluster is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its name.
    pub name: ClusterName,
    /// Its weight; `None`: it is no target any more.
    pub weight: Option<u32>,
    /// Its tier.
    pub tier: u32,
    /// In one word.
    pub state: ClusterState,
    /// The worst reason.
    pub reason: String,
    /// A sentence for a person.
    pub message: String,
    /// The member steps that are not done, and why.
    pub open: Vec<(Step, StepFacts)>,
    /// What became of its endpoint.
    pub endpoint: StepFacts,
    /// Where it admits traffic; what was last published when it can't be heard, or drains.
    pub addresses: Vec<IpAddr>,
    /// The port of all of them.
    pub port: u16,
    /// The host names that some of them came from.
    pub hostnames: std::collections::BTreeSet<String>,
    /// Does a request that arrives there reach a model server, as far as is known?
    pub routable: bool,
    /// Does it take traffic?
    pub ready: bool,
    /// Was some of it published when this was planned?
    pub remembered: bool,
    /// Since when it takes no new traffic, and goes on with the old.
    pub draining_since: Option<Timestamp>,
    /// Since when it could not be heard, where that alone keeps it out of the traffic.
    pub silent_since: Option<Timestamp>,
    /// Is it heard, and if not, what is made of it?
    pub silence: Silence,
    /// How its endpoint is to be asked whether it leads to model servers.
    pub probe: Option<Probe>,
    /// When time alone changes how it is.
    pub due: Option<Timestamp>,
    /// Replicas there.
    pub replicas: Replicas,
    /// Is something of the server left there?
    pub part: Part,
}

/// What is left of a server in one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Something, and it is waited for.
    Left,
    /// Perhaps something, and it is not waited for: its agent is told when it is back.
    LetGo,
    /// Nothing, or nobody is left who could say so.
    Gone,
}

/// What one cluster is judged from.
struct Draft<'a> {
    name: &'a ClusterName,
    facts: &'a ClusterFacts,
    memory: &'a PublishedEndpoint,
    weight: Option<u32>,
    tier: u32,
    /// Replicas that the server wants there.
    replicas: u32,
    /// Its part of the server is to go.
    leaving: bool,
    /// The discovery route that still leads to it.
    route: Option<&'a str>,
    silence: Silence,
}

/// What the endpoint of one cluster came to.
struct Judged {
    found: endpoint::Found,
    /// Does it lead somewhere, so that the hub may ask whether it does?
    asked: bool,
    /// Would a request that arrives there reach a model server, as far as is known, probes among it?
    serves: bool,
}

/// Judges every cluster, in the order of their names.
pub fn judge(facts: &Facts<'_>, now: Timestamp) -> Vec<Cluster> {
    let targets = targets(facts.server);
    let mut drafts: Vec<_> = facts
        .clusters
        .iter()
        .map(|(name, cluster)| {
            let memory = facts.published.get(name).unwrap_or(&NOTHING);
            let target = targets.get(name.as_str()).copied();
            draft(facts, name, cluster, memory, target, now)
        })
        .collect();
    let policy = &facts.server.spec.endpoints;
    let staying = drafts.iter_mut().filter(|draft| !draft.withdrawn());
    let mut silences: Vec<_> = staying.map(|draft| &mut draft.silence).collect();
    silence::trust_probes(policy, &mut silences, now);
    spare_the_last(&mut drafts, facts, now);
    let mut clusters: Vec<_> = drafts
        .iter()
        .map(|draft| draft.cluster(facts, now))
        .collect();
    tiers::admit(&mut clusters);
    clusters
}

/// Where silence takes a cluster out of the traffic, sees to it that one stays.
fn spare_the_last(drafts: &mut [Draft<'_>], facts: &Facts<'_>, now: Timestamp) {
    let is_unready = |draft: &Draft<'_>| draft.silence.unready_since().is_some();
    if !drafts.iter().any(is_unready) {
        return;
    }
    let mut candidates: Vec<_> = drafts
        .iter_mut()
        .filter(|draft| !draft.withdrawn() && draft.weight.unwrap_or(0) > 0)
        .map(|draft| Candidate {
            serves: draft.may_serve(facts, now),
            silence: &mut draft.silence,
        })
        .collect();
    silence::spare_the_last(&mut candidates);
}

fn draft<'a>(
    facts: &'a Facts<'_>,
    name: &'a ClusterName,
    cluster: &'a ClusterFacts,
    memory: &'a PublishedEndpoint,
    target: Option<&ClusterTarget>,
    now: Timestamp,
) -> Draft<'a> {
    let policy = &facts.server.spec.endpoints;
    Draft {
        name,
        facts: cluster,
        weight: target.map(|target| target.weight),
        tier: target.map_or(0, |target| target.tier),
        replicas: target.map_or(0, |one| replicas(facts.server, one.overrides.as_ref())),
        leaving: target.is_none() || is_leaving(facts.server),
        route: leading_route(facts.server, &facts.observed.routes, facts.gateway_api),
        silence: silence(policy, cluster, memory, &facts.fleet, now),
        memory,
    }
}

impl Draft<'_> {
    /// Its endpoints go: it is to hold nothing, and no route of the server waits to go first; or there is no such member.
    fn withdrawn(&self) -> bool {
        // What drains already goes on with that.
        let led_to = self.route.is_some() && self.memory.draining_since.is_none();
        (self.leaving && !led_to) || self.facts.membership != Membership::Joined
    }

    /// Would a request that arrives there reach a model server, as far as is known?
    fn serves(&self) -> bool {
        if self.facts.reporting {
            endpoint::is_routable(self.facts)
        } else {
            self.memory.served() && self.memory.draining_since.is_none()
        }
    }

    fn part(&self, facts: &Facts<'_>) -> Part {
        let joined = matches!(
            self.facts.membership,
            Membership::Joined | Membership::Leaving
        );
        let orphaned =
            facts.is_deleted() && facts.server.spec.deletion_policy == DeletionPolicy::Orphan;
        // A hub that has just started has heard no confirmation, but its last status counted all of them.
        let was_gone = was_decommissioned(facts) && self.facts.placement.is_none();
        if !joined || self.facts.gone || was_gone {
            Part::Gone
        } else if orphaned && !self.facts.reporting {
            Part::LetGo
        } else {
            Part::Left
        }
    }

    /// Would it take traffic, but for silence?
    fn may_serve(&self, facts: &Facts<'_>, now: Timestamp) -> bool {
        if self.facts.reporting {
            self.judged(facts, now).serves
        } else {
            self.serves()
        }
    }

    fn judged(&self, facts: &Facts<'_>, now: Timestamp) -> Judged {
        let mut found = self.endpoint(facts, now);
        let leads = !self.withdrawn()
            && found.draining_since.is_none()
            && !found.addresses.is_empty()
            && self.serves();
        let asked = leads && probe::is_on(&facts.server.spec.endpoints);
        let proven = !asked || !self.facts.reporting || found.prove(self, facts);
        Judged {
            found,
            asked,
            serves: leads && proven,
        }
    }

    fn cluster(&self, facts: &Facts<'_>, now: Timestamp) -> Cluster {
        let Judged {
            mut found,
            asked,
            serves,
        } = self.judged(facts, now);
        let policy = &facts.server.spec.endpoints;
        let probe = asked.then(|| self.probe(policy, &found)).flatten();
        let routable = serves && self.silence.unready_since().is_none();
        let remembered = !self.memory.addresses.is_empty();
        if !routable && !remembered {
            found.wait_for_replica(self);
        }
        let open: Vec<_> = Step::ALL
            .into_iter()
            .filter_map(|step| Some((step, verdicts::open(self, step)?)))
            .collect();
        let drains = found.draining_since.is_some() && found.due.is_some();
        let (state, worst) = if self.leaving {
            verdicts::leaving(self, drains)
        } else {
            verdicts::state(self.facts, &open, &found.verdict, routable)
        };
        let mut cluster = Cluster {
            name: self.name.clone(),
            weight: self.weight,
            tier: self.tier,
            state,
            reason: worst.reason,
            message: worst.message,
            open,
            endpoint: found.verdict,
            addresses: found.addresses,
            port: found.port,
            hostnames: found.hostnames,
            routable,
            ready: false,
            remembered,
            draining_since: found.draining_since,
            silent_since: self
                .silence
                .unready_since()
                .filter(|_| self.memory.served() && !self.withdrawn()),
            silence: self.silence,
            probe,
            due: found.due,
            replicas: self
                .facts
                .placement
                .as_ref()
                .map(|placement| placement.replicas)
                .unwrap_or_default(),
            part: if drains { Part::Left } else { self.part(facts) },
        };
        if cluster.is_quiet() && !self.leaving && !self.withdrawn() {
            cluster.stay_as(previous(facts, self.name));
        }
        cluster
    }

    /// A new endpoint is asked once; that of a cluster which can't be heard again and again, once its grace is over. One on which
    /// traffic depends does not wait for a long back-off; one that was lost does, so that many of these leave the others a turn.
    fn probe(&self, policy: &EndpointPolicy, found: &endpoint::Found) -> Option<Probe> {
        let grace = Some(policy.grace_seconds);
        let (max_age_seconds, retry_seconds) = match self.silence {
            Silence::Quiet { .. } => return None,
            Silence::Lost { .. } => {
                let is_lost = self.silence.unready_since().is_some();
                (grace, grace.filter(|_| !is_lost))
            }
            Silence::Heard | Silence::Settling { .. } => {
                let is_required = policy.probe == ProbePolicy::Required;
                (None, grace.filter(|_| is_required))
            }
        };
        Some(Probe {
            addresses: probe::asked(&found.addresses),
            port: found.port,
            max_age_seconds,
            retry_seconds,
        })
    }

    fn endpoint(&self, facts: &Facts<'_>, now: Timestamp) -> endpoint::Found {
        let drain = drain(facts.server, self.memory, now);
        let deleting = facts.is_deleted();
        if self.withdrawn() {
            return endpoint::withdrawn(self.memory, drain, deleting);
        }
        let unheard = !self.facts.reporting;
        if unheard && self.memory.draining_since.is_none() {
            return endpoint::silent(self.name, self.silence, self.memory);
        }
        let mut found = if unheard {
            endpoint::silent(self.name, self.silence, &NOTHING)
        } else {
            let bounds = Bounds {
                allowed: &self.facts.allowed_cidrs,
                own: facts.refused_cidrs,
            };
            endpoint::resolved(self.name, self.facts, self.silence, self.memory, &bounds)
        };
        // Where it admits no traffic any more, what it has goes on for a while.
        if found.addresses.is_empty()
            && let Drain::Since(since, until) = drain
        {
            found.addresses.clone_from(&self.memory.addresses);
            found.port = self.memory.port;
            found.hostnames.clone_from(&self.memory.hostnames);
            found.draining_since = Some(since);
            found.due = Some(until);
        }
        found
    }
}

impl Cluster {
    /// Is the cluster waited for?
    pub(crate) fn is_left(&self) -> bool {
        self.part == Part::Left
    }

    /// An endpoint is published once it leads somewhere, and from then on as long as it is there.
    pub(crate) fn is_published(&self) -> bool {
        !self.addresses.is_empty() && (self.routable || self.remembered)
    }

    /// It can't be heard, and that changes nothing yet.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self.silence, Silence::Quiet { .. })
    }

    /// Says what the status said, for the same specification.
    fn stay_as(&mut self, previous: Option<&ClusterStatus>) {
        if let Some(previous) = previous {
            self.state = previous.state;
            self.reason.clone_from(&previous.reason);
            self.message.clone_from(&previous.message);
            self.replicas = previous.replicas;
        }
    }
}

fn previous<'a>(facts: &'a Facts<'_>, name: &ClusterName) -> Option<&'a ClusterStatus> {
    let mut clusters = current_status(facts)?.clusters.iter();
    clusters.find(|cluster| cluster.cluster_id == name.as_str())
}

/// Had every member confirmed that its part is gone? One that is deleted is asked anew.
fn was_decommissioned(facts: &Facts<'_>) -> bool {
    let said = current_status(facts).map(|status| status.state);
    let is_said = said == Some(ServerState::Decommissioned);
    is_said && facts.server.spec.decommission && !facts.is_deleted()
}

/// The last status, if it is of this specification.
fn current_status<'a>(facts: &'a Facts<'_>) -> Option<&'a InferenceServerStatus> {
    let status = facts.last_status()?;
    let is_current = Some(status.observed_generation) == facts.server.metadata.generation;
    is_current.then_some(status)
}
