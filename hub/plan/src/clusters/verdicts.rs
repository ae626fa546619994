//! How one cluster is in words: its steps, its state, and the worst reason.

use crds::{ClusterName, condition::State, reason, v1alpha1::ClusterState};

use super::Draft;
use crate::{
    facts::{ClusterFacts, Membership, Step, StepFacts},
    silence::Silence,
};

/// Why a step is not done; `None`: it is. What keeps the cluster from being heard comes before what it last said.
pub(super) fn open(draft: &Draft<'_>, step: Step) -> Option<StepFacts> {
    let (name, cluster) = (draft.name, draft.facts);
    if let Some(absence) = absence(name, cluster, draft.silence) {
        return Some(absence);
    }
    if let Some(refusal) = cluster.refusal.as_ref().or(cluster.closed.as_ref()) {
        return Some(StepFacts::no(&refusal.reason, refusal.message.clone()));
    }
    if let (Step::ModelConfig, Some(refusal)) = (step, &cluster.model_refusal) {
        let message = format!("{name}: {}", refusal.message);
        return Some(StepFacts::no(&refusal.reason, message));
    }
    let current = cluster
        .placement
        .as_ref()
        .filter(|placement| placement.current);
    match current.and_then(|placement| placement.steps.get(&step)) {
        Some(said) => (said.state != State::True).then(|| said.clone()),
        None => Some(StepFacts::unknown(
            reason::APPLYING,
            format!("the agent of {name} has not yet reported on this generation"),
        )),
    }
}

/// Why the cluster can't be heard; `None`: it can.
fn absence(name: &ClusterName, cluster: &ClusterFacts, silence: Silence) -> Option<StepFacts> {
    match cluster.membership {
        Membership::Absent => Some(StepFacts::no(
            reason::CLUSTER_NOT_FOUND,
            format!(
                "there is no MemberCluster {name}: create it with `kubectl inferfleet join {name}`"
            ),
        )),
        Membership::Invited => Some(StepFacts::unknown(
            reason::CLUSTER_NOT_JOINED,
            format!(
                "no agent of {name} has enrolled: install its chart with the values of `kubectl inferfleet join {name}`"
            ),
        )),
        Membership::Leaving => Some(StepFacts::no(
            reason::CLUSTER_LEAVING,
            format!("MemberCluster {name} is being deleted: take it out of spec.clusterTargets"),
        )),
        Membership::Joined if cluster.reporting => None,
        Membership::Joined => Some(StepFacts::unknown(
            silence.reason(),
            format!(
                "the agent of {name} has no session, or has not reported in it{}: look at its Pod",
                silence.since()
            ),
        )),
    }
}

/// A cluster whose part is to go.
pub(super) fn leaving(draft: &Draft<'_>, draining: bool) -> (ClusterState, StepFacts) {
    let (name, cluster) = (draft.name, draft.facts);
    if draining {
        let message =
            format!("{name} goes on with the requests that it has; its part is removed then");
        return (
            ClusterState::Draining,
            StepFacts::unknown(reason::DRAINING, message),
        );
    }
    if cluster.membership == Membership::Joined && !cluster.reporting {
        let since = cluster
            .silent_since
            .map(|since| format!(" since {since}"))
            .unwrap_or_default();
        let message =
            format!("{name} can't be heard{since}; its part is removed when it comes back");
        return (
            ClusterState::Removing,
            StepFacts::unknown(reason::CLUSTER_NOT_CONNECTED, message),
        );
    }
    let message = match draft.route {
        Some(route) => format!("{name} keeps its part until HTTPRoute {route} is gone"),
        None => format!("{name} is removing its part"),
    };
    (
        ClusterState::Removing,
        StepFacts::unknown(reason::REMOVING, message),
    )
}

/// The cluster in one word, and why: the first that fails, else the first that is on its way.
pub(super) fn state(
    cluster: &ClusterFacts,
    open: &[(Step, StepFacts)],
    endpoint: &StepFacts,
    routable: bool,
) -> (ClusterState, StepFacts) {
    let found = |state: State| {
        let all = open.iter().map(|(_, facts)| facts).chain([endpoint]);
        all.into_iter().find(|facts| facts.state == state).cloned()
    };
    let (worst, failed) = match (found(State::False), found(State::Unknown)) {
        (Some(failure), _) => (failure, true),
        (None, Some(pending)) => (pending, false),
        (None, None) if endpoint.reason == reason::ENDPOINT_UNREACHABLE => {
            return (ClusterState::Serving, endpoint.clone());
        }
        (None, None) => {
            return (
                ClusterState::Serving,
                StepFacts::yes(reason::SERVING, "all replicas serve"),
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
