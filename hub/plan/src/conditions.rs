//! The conditions of an InferenceServer: one file and one pure function each, listed here in their order.

mod available;
mod backend_provision;
mod discovery_route_provision;
mod endpoint_publish;
mod health_check;
mod model_config_provision;
mod ready;
mod traffic_route_provision;
mod validation;

use crds::{
    condition::{State, Verdict},
    reason,
};

use crate::{
    clusters::Cluster,
    endpoints::Discovery,
    facts::{Facts, Step, StepFacts},
    placements::is_leaving,
};

/// Judges everything, on every pass: one failure never hides another's verdict.
///
/// A server on its way out has no steps of creation any more.
pub fn judge(facts: &Facts<'_>, clusters: &[Cluster], discovery: &Discovery) -> Vec<Verdict> {
    let targets: Vec<_> = clusters
        .iter()
        .filter(|cluster| cluster.weight.is_some())
        .collect();
    let available = available::available(facts, &targets);
    if is_leaving(facts.server) {
        return vec![ready::leaving(facts, clusters), available];
    }
    let steps = vec![
        validation::validation(facts),
        backend_provision::backend_provision(&targets),
        endpoint_publish::endpoint_publish(facts, &targets, discovery),
        discovery_route_provision::discovery_route_provision(facts),
        traffic_route_provision::traffic_route_provision(&targets),
        model_config_provision::model_config_provision(&targets),
        health_check::health_check(&targets),
    ];
    let steps: Vec<_> = steps
        .into_iter()
        .map(|verdict| unless_quiet(facts, &targets, verdict))
        .collect();
    let mut verdicts = vec![ready::ready(&targets, &steps), available];
    verdicts.extend(steps);
    verdicts
}

/// Where nothing but a cluster that can't be heard for the moment keeps a verdict open, the last one on the same
/// specification stands.
fn unless_quiet(facts: &Facts<'_>, targets: &[&Cluster], verdict: Verdict) -> Verdict {
    let unheard = |cluster: &&&Cluster| cluster.endpoint.reason == reason::CLUSTER_NOT_CONNECTED;
    let quiet = targets
        .iter()
        .filter(unheard)
        .all(|cluster| cluster.is_quiet());
    if verdict.state != State::Unknown || verdict.reason != reason::CLUSTER_NOT_CONNECTED || !quiet
    {
        return verdict;
    }
    let status = facts.server.status.as_ref();
    let mut conditions = status.iter().flat_map(|status| &status.conditions);
    let before = conditions.find(|condition| {
        condition.type_ == verdict.kind
            && condition.observed_generation == facts.server.metadata.generation
    });
    match before.map(|before| (before, State::parse(&before.status))) {
        Some((before, Some(state))) => {
            Verdict::new(verdict.kind, state, &before.reason, before.message.clone())
        }
        Some((_, None)) | None => verdict,
    }
}

/// One condition over all clusters: False if any is, else Unknown if any is, else True.
fn over_clusters(kind: &'static str, found: &[(&Cluster, &StepFacts)], done: &str) -> Verdict {
    for state in [State::False, State::Unknown] {
        let mut of_state = found.iter().filter(|(_, facts)| facts.state == state);
        if let Some((cluster, facts)) = of_state.next() {
            let more = match of_state.count() {
                0 => String::new(),
                more => format!(" ({more} more clusters are not done)"),
            };
            return Verdict::new(
                kind,
                state,
                &facts.reason,
                format!("{}: {}{more}", cluster.name, facts.message),
            );
        }
    }
    Verdict::yes(kind, reason::PROVISIONED, done)
}

/// The same for a step that members take.
fn over_step(kind: &'static str, targets: &[&Cluster], step: Step, done: &str) -> Verdict {
    let found: Vec<_> = targets
        .iter()
        .flat_map(|cluster| {
            cluster
                .steps
                .iter()
                .map(move |(of, facts)| (*cluster, *of, facts))
        })
        .filter(|(_, of, _)| *of == step)
        .map(|(cluster, _, facts)| (cluster, facts))
        .collect();
    over_clusters(kind, &found, done)
}

/// What the hub's own API server did not take, of one kind of object.
fn failure(kind: &'static str, facts: &Facts<'_>, objects: &[&str]) -> Option<Verdict> {
    let failure = facts
        .failures
        .iter()
        .find(|failure| objects.contains(&failure.kind.as_str()))?;
    let state = if failure.passing {
        State::Unknown
    } else {
        State::False
    };
    Some(Verdict::new(
        kind,
        state,
        failure.reason,
        failure.message.clone(),
    ))
}
