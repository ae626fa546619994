//! How each cluster is with regard to one server: judged once, read by everything that follows.

use std::net::IpAddr;

use crds::{
    ClusterName,
    condition::State,
    reason,
    v1alpha1::{ClusterState, Replicas},
};

use crate::{
    facts::{ClusterFacts, Facts, Membership, Step, StepFacts},
    memory,
};

/// How one cluster is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its name.
    pub name: ClusterName,
    /// Its weight; `None`: it is no target any more.
    pub weight: Option<u32>,
    /// In one word.
    pub state: ClusterState,
    /// The worst reason.
    pub reason: String,
    /// A sentence for a person.
    pub message: String,
    /// What each member step came to.
    pub steps: Vec<(Step, StepFacts)>,
    /// What became of its endpoint.
    pub endpoint: StepFacts,
    /// Where it admits traffic; what was last published when it can't be heard.
    pub addresses: Vec<IpAddr>,
    /// The port of all of them.
    pub port: u16,
    /// Does a request that arrives there reach a model server?
    pub routable: bool,
    /// Replicas there.
    pub replicas: Replicas,
    /// Nothing of the server is left there, or nobody is left who could say so.
    pub gone: bool,
}

/// Judges every cluster, in the order of their names.
pub fn judge(facts: &Facts<'_>) -> Vec<Cluster> {
    facts
        .clusters
        .iter()
        .map(|(name, cluster)| judge_one(facts, name, cluster))
        .collect()
}

fn judge_one(facts: &Facts<'_>, name: &ClusterName, cluster: &ClusterFacts) -> Cluster {
    let weight = facts.weight(name);
    let memory = memory::remembered(facts, name);
    // A cluster that can't be heard keeps what it last had: silence changes nothing.
    let (endpoint, addresses, port) = if cluster.reporting {
        resolved(name, cluster)
    } else {
        silent_endpoint(&memory)
    };
    let routable = if cluster.reporting {
        is_routable(cluster) && !addresses.is_empty()
    } else {
        memory.ready
    };
    let steps: Vec<_> = Step::ALL
        .iter()
        .map(|step| (*step, step_facts(name, cluster, *step)))
        .collect();
    let leaving = weight.is_none() || facts.server.metadata.deletion_timestamp.is_some();
    let (state, worst) = if leaving {
        (ClusterState::Removing, removing(name, cluster))
    } else {
        state(cluster, &steps, &endpoint, routable)
    };
    Cluster {
        name: name.clone(),
        weight,
        state,
        reason: worst.reason,
        message: worst.message,
        steps,
        endpoint,
        addresses,
        port,
        routable,
        replicas: cluster
            .placement
            .as_ref()
            .map(|placement| placement.replicas)
            .unwrap_or_default(),
        gone: cluster.membership != Membership::Joined || cluster.gone,
    }
}

/// Does a request reach a model server? The live route is accepted and a replica is ready.
fn is_routable(cluster: &ClusterFacts) -> bool {
    let placement = cluster.placement.as_ref();
    placement.is_some_and(|placement| placement.route_accepted && placement.replicas.ready > 0)
}

/// The endpoint as reported, without the addresses that may not be published.
fn resolved(name: &ClusterName, cluster: &ClusterFacts) -> (StepFacts, Vec<IpAddr>, u16) {
    let Some(reported) = &cluster.endpoint else {
        return (
            unknown(
                reason::APPLYING,
                format!("{name} has not reported an endpoint yet"),
            ),
            Vec::new(),
            0,
        );
    };
    if reported.addresses.is_empty() {
        return (
            no(&reported.reason, reported.message.clone()),
            Vec::new(),
            0,
        );
    }
    let (mut fit, mut refused) = (Vec::new(), Vec::new());
    for text in &reported.addresses {
        match text.parse::<IpAddr>() {
            Ok(address) if is_publishable(address) => fit.push(address),
            Ok(_) | Err(_) => refused.push(text.as_str()),
        }
    }
    fit.sort_unstable();
    fit.dedup();
    let verdict = if refused.is_empty() {
        yes(
            reason::PROVISIONED,
            format!("{name} admits traffic at {} addresses", fit.len()),
        )
    } else {
        let refused = refused.join(", ");
        no(
            reason::ADDRESS_REFUSED,
            format!(
                "{name} reports {refused}: an endpoint can't be loopback, link-local, multicast or unspecified"
            ),
        )
    };
    (verdict, fit, reported.port)
}

fn silent_endpoint(memory: &memory::Memory) -> (StepFacts, Vec<IpAddr>, u16) {
    let message = "the cluster can't be heard; its endpoint stays as it was last published";
    (
        unknown(reason::CLUSTER_NOT_CONNECTED, message),
        memory.addresses.clone(),
        memory.port,
    )
}

/// Addresses that lead from the hub to another machine. The API server refuses most of the others as well.
fn is_publishable(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => {
            address.is_unicast_link_local() || address.to_ipv4_mapped().is_some()
        }
    };
    !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || link_local)
}

/// What a step came to: what keeps the cluster from being heard comes before what it last said.
fn step_facts(name: &ClusterName, cluster: &ClusterFacts, step: Step) -> StepFacts {
    if let Some(absence) = absence(name, cluster) {
        return absence;
    }
    if let Some(refusal) = &cluster.refusal {
        return no(&refusal.reason, refusal.message.clone());
    }
    let current = cluster
        .placement
        .as_ref()
        .filter(|placement| placement.current);
    current
        .and_then(|placement| placement.steps.get(&step))
        .cloned()
        .unwrap_or_else(|| {
            unknown(
                reason::APPLYING,
                format!("the agent of {name} has not yet reported on this generation"),
            )
        })
}

/// Why the cluster can't be heard; `None`: it can.
fn absence(name: &ClusterName, cluster: &ClusterFacts) -> Option<StepFacts> {
    if cluster.membership == Membership::Absent {
        return Some(no(
            reason::CLUSTER_NOT_FOUND,
            format!(
                "there is no MemberCluster {name}: create it with `kubectl inferfleet join {name}`"
            ),
        ));
    }
    if cluster.membership == Membership::Invited {
        return Some(unknown(
            reason::CLUSTER_NOT_JOINED,
            format!(
                "no agent of {name} has enrolled: install its chart with the values of `kubectl inferfleet join {name}`"
            ),
        ));
    }
    if !cluster.reporting {
        return Some(unknown(
            reason::CLUSTER_NOT_CONNECTED,
            format!(
                "the agent of {name} has no session, or has not reported in it: look at its Pod"
            ),
        ));
    }
    None
}

fn removing(name: &ClusterName, cluster: &ClusterFacts) -> StepFacts {
    if cluster.membership == Membership::Joined && !cluster.reporting {
        let message = format!("{name} can't be heard; its part is removed when it comes back");
        return unknown(reason::CLUSTER_NOT_CONNECTED, message);
    }
    unknown(reason::REMOVING, format!("{name} is removing its part"))
}

/// The cluster in one word, and why: the first that fails, else the first that is on its way.
fn state(
    cluster: &ClusterFacts,
    steps: &[(Step, StepFacts)],
    endpoint: &StepFacts,
    routable: bool,
) -> (ClusterState, StepFacts) {
    let found = |state: State| {
        let all = steps.iter().map(|(_, facts)| facts).chain([endpoint]);
        all.into_iter().find(|facts| facts.state == state).cloned()
    };
    let (worst, failed) = match (found(State::False), found(State::Unknown)) {
        (Some(failure), _) => (failure, true),
        (None, Some(pending)) => (pending, false),
        (None, None) => {
            return (
                ClusterState::Serving,
                yes(reason::SERVING, "all replicas serve"),
            );
        }
    };
    let state = if cluster.membership != Membership::Joined {
        ClusterState::Waiting
    } else if !cluster.reporting {
        ClusterState::Silent
    } else if routable {
        ClusterState::Degraded
    } else if failed {
        ClusterState::Failed
    } else {
        ClusterState::Provisioning
    };
    (state, worst)
}

fn yes(reason: &str, message: impl Into<String>) -> StepFacts {
    StepFacts {
        state: State::True,
        reason: reason.to_owned(),
        message: message.into(),
    }
}

fn no(reason: &str, message: impl Into<String>) -> StepFacts {
    StepFacts {
        state: State::False,
        reason: reason.to_owned(),
        message: message.into(),
    }
}

fn unknown(reason: &str, message: impl Into<String>) -> StepFacts {
    StepFacts {
        state: State::Unknown,
        reason: reason.to_owned(),
        message: message.into(),
    }
}
