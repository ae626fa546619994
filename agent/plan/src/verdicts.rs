//! How a placement is, step by step: what was planned, what became of it, and what the cluster says since.

use std::collections::BTreeMap;

use crds::{
    condition::{
        BACKEND_PROVISION, HEALTH_CHECK, MODEL_CONFIG_PROVISION, TRAFFIC_ROUTE_PROVISION, Verdict,
    },
    reason,
    v1alpha1::Replicas,
};

use crate::{
    Endpoint, Kind, ObjectId, PlacementInput, PlacementPlan, endpoint,
    gateway::{self, Refusal},
    health, route,
};

/// Longest message of a verdict: what the hub's status takes.
const MESSAGE_MAX: usize = 512;
/// The end of a message that was longer.
const CUT: &str = "…";

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
}

/// How the placement is, after `plan` was applied with these outcomes. `input` is what is known since: it holds the
/// objects as they were written.
pub fn judge(input: &PlacementInput<'_>, plan: &PlacementPlan, outcomes: &Outcomes) -> Report {
    let verdicts = [
        backend(plan, outcomes),
        traffic_route(input, plan, outcomes),
        model_config(input, plan, outcomes),
        health(input, plan, outcomes),
    ];
    Report {
        verdicts: verdicts.map(shortened),
        replicas: health::replicas(input.placement, input.deployment),
        route_accepted: route_accepted(input),
        endpoint: endpoint(input),
    }
}

/// How a placement is that is on its way out: nothing is planned for it, and what is left of it still counts.
pub fn leaving(input: &PlacementInput<'_>) -> Report {
    Report {
        verdicts: STEPS.map(|kind| {
            let message = "the ServerPlacement is being deleted, and all that it owns";
            Verdict::unknown(kind, reason::REMOVING, message)
        }),
        replicas: health::replicas(input.placement, input.deployment),
        route_accepted: false,
        endpoint: endpoint(input),
    }
}

/// What is said of a value that could not be written this time: nothing is known of it yet.
pub fn unwritten(message: &str) -> [Verdict; 4] {
    STEPS
        .map(|kind| Verdict::unknown(kind, reason::APPLY_FAILED, message))
        .map(shortened)
}

fn route_accepted(input: &PlacementInput<'_>) -> bool {
    // Only by the listener whose address is reported: a route that another one takes leads nowhere from there.
    let listener = gateway::listener(input).ok();
    let live = input.route.zip(listener);
    live.is_some_and(|(route, listener)| route::is_accepted(route, &listener))
}

fn endpoint(input: &PlacementInput<'_>) -> Result<Endpoint, Refusal> {
    endpoint::endpoint(input).map_err(|refusal| Refusal {
        message: short(refusal.message),
        ..refusal
    })
}

fn backend(plan: &PlacementPlan, outcomes: &Outcomes) -> Verdict {
    if let Some(refusal) = &plan.blocked.backend {
        return refused(BACKEND_PROVISION, refusal);
    }
    let kinds = [Kind::ServiceAccount, Kind::Deployment, Kind::Service];
    applied(BACKEND_PROVISION, &kinds, plan, outcomes).unwrap_or_else(|| {
        let message = "ServiceAccount, Deployment and Service are as planned";
        Verdict::yes(BACKEND_PROVISION, reason::PROVISIONED, message)
    })
}

fn model_config(input: &PlacementInput<'_>, plan: &PlacementPlan, outcomes: &Outcomes) -> Verdict {
    let kind = MODEL_CONFIG_PROVISION;
    if input.placement.spec.model.is_none() {
        return Verdict::yes(kind, reason::PROVISIONED, "no model is set");
    }
    applied(kind, &[Kind::ConfigMap], plan, outcomes)
        .unwrap_or_else(|| Verdict::yes(kind, reason::PROVISIONED, "the model list is as planned"))
}

fn traffic_route(input: &PlacementInput<'_>, plan: &PlacementPlan, outcomes: &Outcomes) -> Verdict {
    let kind = TRAFFIC_ROUTE_PROVISION;
    if let Some(refusal) = &plan.blocked.route {
        return refused(kind, refusal);
    }
    if let Some(verdict) = applied(kind, &[Kind::HttpRoute], plan, outcomes) {
        return verdict;
    }
    match (input.route, gateway::listener(input)) {
        (Some(live), Ok(listener)) => route::verdict(live, &listener),
        (None, _) | (_, Err(_)) => {
            let message = "the route or its Gateway has changed since it was written";
            Verdict::unknown(kind, reason::ROUTE_PENDING, message)
        }
    }
}

fn health(input: &PlacementInput<'_>, plan: &PlacementPlan, outcomes: &Outcomes) -> Verdict {
    let Replicas { wanted, ready } = health::replicas(input.placement, input.deployment);
    // A profile that can't be rendered leaves what serves as it is, but that is not what is asked for.
    let is_planned = plan.blocked.backend.is_none() && is_current(Kind::Deployment, outcomes);
    if let Some(deployment) = input.deployment.filter(|_| is_planned) {
        return health::verdict(input.placement, deployment, input.pods);
    }
    let message =
        format!("{ready} of {wanted} replicas ready; the Deployment is not yet as planned");
    Verdict::unknown(HEALTH_CHECK, reason::STARTING, message)
}

fn is_current(kind: Kind, outcomes: &Outcomes) -> bool {
    outcomes
        .iter()
        .any(|(id, outcome)| id.kind == kind && outcome == &Outcome::Current)
}

/// What kept objects of these kinds from being applied: refusals first, since they wait for a person.
fn applied(
    kind: &'static str,
    kinds: &[Kind],
    plan: &PlacementPlan,
    outcomes: &Outcomes,
) -> Option<Verdict> {
    let ids = plan
        .objects
        .iter()
        .map(crate::Object::id)
        .filter(|id| kinds.contains(&id.kind));
    let verdicts = ids.filter_map(|id| match outcomes.get(&id) {
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
        message: short(verdict.message),
        ..verdict
    }
}

/// At most [`MESSAGE_MAX`] bytes, cut between characters.
fn short(message: String) -> String {
    if message.len() <= MESSAGE_MAX {
        return message;
    }
    let end = message.floor_char_boundary(MESSAGE_MAX.saturating_sub(CUT.len()));
    format!("{}{CUT}", message.get(..end).unwrap_or_default())
}
