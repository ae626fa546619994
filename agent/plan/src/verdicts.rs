//! How a placement is, step by step: what was planned, what became of it, and what the cluster says since.

use std::collections::BTreeMap;

use crds::{
    condition::{
        BACKEND_PROVISION, HEALTH_CHECK, MODEL_CONFIG_PROVISION, State, TRAFFIC_ROUTE_PROVISION,
        Verdict,
    },
    reason,
    v1alpha1::Replicas,
};
use k8s_openapi::jiff::Timestamp;

use crate::{
    Endpoint, Kind, ObjectId, PlacementInput, PlacementPlan,
    drivers::{Drivers, Observed},
    extract::beginning,
    gateway::Refusal,
    health,
};

/// Longest message of a verdict: what the hub's status takes.
const MESSAGE_MAX: usize = 512;

/// The steps, in the order of [`Report::verdicts`].
const STEPS: [&str; 4] = [
    BACKEND_PROVISION,
    TRAFFIC_ROUTE_PROVISION,
    MODEL_CONFIG_PROVISION,
    HEALTH_CHECK,
];

/// What became of an object of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The API server holds it as planned, and the facts show it so.
    Current,
    /// It could not be written, and will not before something changes.
    Refused {
        /// CamelCase, of [`crds::reason`].
        reason: &'static str,
        /// A sentence.
        message: String,
    },
    /// It could not be written this time.
    Failed(String),
}

/// What became of each object of the plan. One that is missing was not tried.
pub type Outcomes = BTreeMap<ObjectId, Outcome>;

/// How a placement is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Backend, traffic route, model config, health; by their condition types.
    pub verdicts: [Verdict; 4],
    /// Wanted, and ready now.
    pub replicas: Replicas,
    /// The gateway admits traffic by the route that is live, whatever became of the newest one. False for a placement on
    /// its way out: its traffic is to go elsewhere before its replicas do.
    pub route_accepted: bool,
    /// Where the cluster admits traffic, or why nowhere.
    pub endpoint: Result<Endpoint, Refusal>,
    /// When time alone changes it.
    pub due: Option<Timestamp>,
}

/// How the placement is, after `plan` was applied with these outcomes. `input` is what is known since: it holds the
/// objects as they were written.
pub fn judge(
    drivers: &Drivers,
    input: &PlacementInput<'_>,
    plan: &PlacementPlan,
    outcomes: &Outcomes,
    now: Timestamp,
) -> Report {
    let observed = drivers.backend.observe(input);
    let route = drivers.routing.observe(input);
    let (replicas, route_accepted) = (observed.replicas, route.state == State::True);
    let doubt = drivers.routing.doubt(input).filter(|_| route_accepted);
    let due = doubt.as_ref().map(|doubt| doubt.from);
    let due = due.filter(|due| *due > now);
    let route = doubt
        .filter(|doubt| doubt.from <= now)
        .map_or(route, |doubt| doubt.verdict);
    let verdicts = [
        backend(plan, outcomes),
        traffic_route(route, plan, outcomes),
        model_config(input, plan, outcomes),
        health(observed, plan, outcomes),
    ];
    Report {
        verdicts: verdicts.map(shortened),
        replicas,
        route_accepted,
        endpoint: endpoint(drivers, input),
        due,
    }
}

/// How a placement is that is on its way out: nothing is planned for it, and what is left of it still counts.
pub fn leaving(drivers: &Drivers, input: &PlacementInput<'_>) -> Report {
    Report {
        verdicts: STEPS.map(|kind| {
            let message = "the ServerPlacement is being deleted, and all that it owns";
            Verdict::unknown(kind, reason::REMOVING, message)
        }),
        replicas: drivers.backend.observe(input).replicas,
        route_accepted: false,
        endpoint: endpoint(drivers, input),
        due: None,
    }
}

/// What is said of a value that could not be written this time: nothing is known of it yet.
pub fn unwritten(message: &str) -> [Verdict; 4] {
    STEPS
        .map(|kind| Verdict::unknown(kind, reason::APPLY_FAILED, message))
        .map(shortened)
}

/// What is said where nothing is there, and nothing can be as things are.
pub fn absent(reason: &str, message: &str) -> [Verdict; 4] {
    STEPS
        .map(|kind| Verdict::no(kind, reason, message))
        .map(shortened)
}

fn endpoint(drivers: &Drivers, input: &PlacementInput<'_>) -> Result<Endpoint, Refusal> {
    let resolved = drivers.endpoint_source.resolve(input);
    resolved.map_err(|refusal| Refusal {
        message: beginning(refusal.message, MESSAGE_MAX),
        ..refusal
    })
}

fn backend(plan: &PlacementPlan, outcomes: &Outcomes) -> Verdict {
    let kind = BACKEND_PROVISION;
    match &plan.steps.backend {
        Err(refusal) => refused(kind, refusal),
        Ok(ids) => applied(kind, ids, outcomes)
            .unwrap_or_else(|| Verdict::yes(kind, reason::PROVISIONED, as_planned(ids))),
    }
}

/// `ServiceAccount, Deployment and Service are as planned`.
fn as_planned(ids: &[ObjectId]) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for id in ids {
        if !kinds.contains(&id.kind.as_str()) {
            kinds.push(id.kind.as_str());
        }
    }
    match kinds.split_last() {
        None => "nothing is to be there".to_owned(),
        Some((last, [])) => format!("{last} is as planned"),
        Some((last, others)) => format!("{} and {last} are as planned", others.join(", ")),
    }
}

fn model_config(input: &PlacementInput<'_>, plan: &PlacementPlan, outcomes: &Outcomes) -> Verdict {
    let kind = MODEL_CONFIG_PROVISION;
    if input.placement.spec.model.is_none() {
        return Verdict::yes(kind, reason::PROVISIONED, "no model is set");
    }
    applied(kind, &plan.steps.model_config, outcomes)
        .unwrap_or_else(|| Verdict::yes(kind, reason::PROVISIONED, "the model list is as planned"))
}

fn traffic_route(observed: Verdict, plan: &PlacementPlan, outcomes: &Outcomes) -> Verdict {
    let kind = TRAFFIC_ROUTE_PROVISION;
    match &plan.steps.routes {
        Err(refusal) => refused(kind, refusal),
        Ok(ids) => applied(kind, ids, outcomes).unwrap_or(observed),
    }
}

fn health(observed: Observed, plan: &PlacementPlan, outcomes: &Outcomes) -> Verdict {
    // A profile that can't be rendered leaves what serves as it is, but that is not what is asked for.
    let is_planned = plan.steps.backend.as_ref().is_ok_and(|ids| {
        let mut deployments = ids.iter().filter(|id| id.kind == Kind::Deployment);
        deployments.all(|id| outcomes.get(id) == Some(&Outcome::Current))
    });
    if is_planned {
        observed.health
    } else {
        health::unplanned(observed.replicas)
    }
}

/// What kept these objects from being applied: refusals first, since they wait for a person.
fn applied(kind: &'static str, ids: &[ObjectId], outcomes: &Outcomes) -> Option<Verdict> {
    let verdicts = ids.iter().filter_map(|id| match outcomes.get(id) {
        Some(Outcome::Current) => None,
        Some(Outcome::Refused { reason, message }) => Some(Verdict::no(kind, reason, message)),
        Some(Outcome::Failed(message)) => {
            Some(Verdict::unknown(kind, reason::APPLY_FAILED, message))
        }
        None => {
            let message = format!("{} {} is still to be applied", id.kind.as_str(), id.name);
            Some(Verdict::unknown(kind, reason::APPLYING, message))
        }
    });
    verdicts.min_by_key(|verdict| verdict.state)
}

fn refused(kind: &'static str, refusal: &Refusal) -> Verdict {
    Verdict::no(kind, refusal.reason, refusal.message.clone())
}

fn shortened(verdict: Verdict) -> Verdict {
    Verdict {
        message: beginning(verdict.message, MESSAGE_MAX),
        ..verdict
    }
}
