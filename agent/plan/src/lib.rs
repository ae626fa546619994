//! The pure planner of the agent: a placement and facts in, manifests and verdicts out. No client, no clock.
//!
//! A reconcile asks twice. [`plan`] says which objects are to exist; when apply has done its part, [`judge`] says how
//! the placement is, from what became of each object and from the facts since, which hold each as it was written. So a
//! verdict never speaks of what was just replaced.
//!
//! * [`input`]: what is known of one placement and its cluster.
//! * `gateway`: which listener admits traffic. `endpoint`: where, by the source that the placement asks for.
//! * `substitution`, `backend`, `model_config`, `route`: the objects of each step.
//! * `health`: why replicas are not ready.
//! * [`verdicts`]: all of it, step by step.

mod backend;
mod endpoint;
mod gateway;
mod health;
pub mod input;
mod metadata;
mod model_config;
pub mod objects;
mod route;
mod substitution;
pub mod verdicts;

use std::collections::BTreeSet;

pub use endpoint::Endpoint;
pub use gateway::effective_gateway;
pub use input::{GatewayFact, PlacementInput, ServiceFact};
pub use objects::{Kind, Object, ObjectId};
pub use verdicts::{Outcome, Outcomes, Report, judge, leaving, unwritten};

use gateway::Refusal;

/// Everything that apply will do for one placement. No choices are left in it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementPlan {
    /// What is to exist, in the order to apply it.
    pub objects: Vec<Object>,
    /// What we own and is to go.
    pub removals: Vec<ObjectId>,
    /// Why a step has no objects to apply; what it had stays as it is.
    blocked: Blocked,
}

/// The steps that can't be rendered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Blocked {
    backend: Option<Refusal>,
    route: Option<Refusal>,
}

/// What is to exist for the placement.
pub fn plan(input: &PlacementInput<'_>) -> PlacementPlan {
    let mut objects = Vec::new();
    let mut kept = BTreeSet::new();
    let mut blocked = Blocked::default();

    objects.extend(model_config::objects(input.placement));
    match backend::objects(input.placement) {
        Ok(rendered) => objects.extend(rendered),
        Err(refusal) => {
            // A profile that can't be rendered is no reason to end what serves.
            kept.extend(Kind::ALL);
            blocked.backend = Some(refusal);
        }
    }
    match gateway::listener(input) {
        Ok(listener) => objects.push(route::object(input.placement, &listener)),
        Err(refusal) => {
            // A Gateway that is gone for a moment takes no route with it; one that is no longer asked for does.
            if gateway::effective(input).is_some() {
                kept.insert(Kind::HttpRoute);
            }
            blocked.route = Some(refusal);
        }
    }

    let wanted: BTreeSet<ObjectId> = objects.iter().map(Object::id).collect();
    let removals = input
        .owned
        .iter()
        .filter(|id| !wanted.contains(id) && !kept.contains(&id.kind))
        .cloned()
        .collect();
    PlacementPlan {
        objects,
        removals,
        blocked,
    }
}
