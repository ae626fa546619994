//! The conditions of an InferenceServer: one file and one pure function each, listed here in their order.
//!
//! Each is a step's, and says how the step would be if what is planned were written; whoever takes the steps says what became
//! of that. [`Ready`] and [`Available`] are what all of it comes to.
//!
//! [`Ready`]: crds::condition::READY
//! [`Available`]: crds::condition::AVAILABLE

mod available;
mod backend_provision;
mod cleanup;
mod discovery_route_provision;
mod endpoint_publish;
mod health_check;
mod model_config_provision;
mod ready;
mod route_cleanup;
mod traffic_route_provision;
mod validation;

use crds::{
    condition::{ENDPOINT_PUBLISH, State, Verdict},
    reason,
    v1alpha1::InferenceServer,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    clusters::Cluster,
    endpoints::Discovery,
    facts::{Facts, Step, StepFacts},
    placements::is_leaving,
};

/// Judges every step, on every pass: one failure never hides another's verdict. A server on its way out has no steps of
/// creation any more.
pub(crate) fn steps(
    facts: &Facts<'_>,
    clusters: &[Cluster],
    discovery: &Discovery,
    of_routes: &StepFacts,
) -> Vec<Verdict> {
    if is_leaving(facts.server) {
        return vec![
            route_cleanup::route_cleanup(facts, clusters),
            cleanup::cleanup(facts, clusters),
        ];
    }
    let targets = targets(clusters);
    let steps = vec![
        validation::validation(facts),
        backend_provision::backend_provision(&targets),
        endpoint_publish::endpoint_publish(&targets, discovery),
        discovery_route_provision::discovery_route_provision(of_routes),
        traffic_route_provision::traffic_route_provision(&targets),
        model_config_provision::model_config_provision(&targets),
        health_check::health_check(&targets),
    ];
    steps
        .into_iter()
        .map(|verdict| unless_quiet(facts, &targets, verdict))
        .collect()
}

/// What all of it comes to: Ready and Available, then the steps.
pub(crate) fn conclusion(
    server: &InferenceServer,
    clusters: &[Cluster],
    steps: &[Verdict],
) -> Vec<Verdict> {
    let targets = targets(clusters);
    let ready = if is_leaving(server) {
        ready::leaving(server, clusters)
    } else {
        ready::ready(&targets, steps)
    };
    let mut verdicts = vec![ready, available::available(server, &targets)];
    verdicts.extend_from_slice(steps);
    verdicts
}

fn targets(clusters: &[Cluster]) -> Vec<&Cluster> {
    let targets = clusters.iter().filter(|cluster| cluster.weight.is_some());
    targets.collect()
}

/// Who is waited for, on the way out.
fn held(clusters: &[Cluster]) -> Option<String> {
    let mut held = clusters.iter().filter(|cluster| cluster.is_left());
    let first = held.next()?;
    Some(match held.count() {
        0 => format!("waits for one cluster: {}", first.message),
        more => format!("waits for {} clusters: {}", more + 1, first.message),
    })
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
    let status = facts.last_status();
    let mut conditions = status.iter().flat_map(|status| &status.conditions);
    let before = conditions.find(|condition| {
        condition.type_ == verdict.kind
            && condition.observed_generation == facts.server.metadata.generation
            && !is_of_a_write(condition)
    });
    match before.map(|before| (before, State::parse(&before.status))) {
        Some((before, Some(state))) => {
            Verdict::new(verdict.kind, state, &before.reason, before.message.clone())
        }
        Some((_, None)) | None => verdict,
    }
}

/// Is it what the hub's own writing of endpoints came to? That is found out anew each time.
fn is_of_a_write(condition: &Condition) -> bool {
    let reasons = [
        reason::PUBLISHING,
        reason::APPLY_FAILED,
        reason::APPLY_REFUSED,
        reason::NAME_CONFLICT,
    ];
    condition.type_ == ENDPOINT_PUBLISH && reasons.contains(&condition.reason.as_str())
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
                .open
                .iter()
                .map(move |(of, facts)| (*cluster, *of, facts))
        })
        .filter(|(_, of, _)| *of == step)
        .map(|(cluster, _, facts)| (cluster, facts))
        .collect();
    over_clusters(kind, &found, done)
}
