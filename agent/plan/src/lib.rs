//! The pure planner of the agent: a placement and facts in, manifests and verdicts out. No client, no clock.
//!
//! A reconcile asks twice. [`plan`] says which objects are to exist; when apply has done its part, [`judge`] says how
//! the placement is, from what became of each object and from the facts since, which hold each as it was written. So a
//! verdict never speaks of what was just replaced.
//!
//! * [`input`]: what is known of one placement and its cluster.
//! * [`drivers`]: the parts of a plan that an agent may have others of. [`contract`]: what these are held to.
//! * `gateway`: which listener admits traffic. `endpoint`: where, by the source that the placement asks for.
//! * `substitution`, `backend`, `model_config`, `route`: the objects of each step.
//! * `health`: why replicas are not ready.
//! * [`verdicts`]: all of it, step by step. `extract`: how much of a text is told.

mod backend;
pub mod contract;
pub mod drivers;
mod endpoint;
mod extract;
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

pub use backend::{DeploymentBackend, SERVICE_PORT};
pub use drivers::{Backend, Doubt, Drivers, EndpointSource, Observed, Routing};
pub use endpoint::{ConfiguredSource, Endpoint};
pub use gateway::{Listener, Refusal, effective_gateway, listener};
pub use input::{GatewayFact, PlacementInput, ServiceFact};
pub use metadata::{label_selector, metadata, object_labels, selector};
pub use model_config::mount;
pub use objects::{Kind, Object, ObjectId};
pub use route::PathRouting;
pub use verdicts::{Outcome, Outcomes, Report, absent, judge, leaving, unwritten};

/// Everything that apply will do for one placement. No choices are left in it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementPlan {
    /// What is to exist. What others name is applied before them, what doesn't [name others](Kind::names_others) at once.
    pub objects: Vec<Object>,
    /// What we own and is to go.
    pub removals: Vec<ObjectId>,
    steps: Steps,
}

/// The objects of each step, or why it has none to apply: what it had stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Steps {
    model_config: Vec<ObjectId>,
    backend: Result<Vec<ObjectId>, Refusal>,
    routes: Result<Vec<ObjectId>, Refusal>,
}

/// What is to exist for the placement.
pub fn plan(drivers: &Drivers, input: &PlacementInput<'_>) -> PlacementPlan {
    let model_config = Vec::from_iter(model_config::objects(input.placement));
    let backend = drivers.backend.render(input);
    let routes = drivers.routing.render(input).map(objects::routes);

    let mut kept = BTreeSet::new();
    if backend.is_err() {
        // A profile that can't be rendered is no reason to end what serves.
        kept.extend(Kind::ALL);
    }
    if routes.is_err() && gateway::effective(input).is_some() {
        // A Gateway that is gone for a moment takes no route with it; one that is no longer asked for does.
        kept.insert(Kind::HttpRoute);
    }

    let ids = |objects: &Vec<Object>| objects.iter().map(Object::id).collect();
    let steps = Steps {
        model_config: ids(&model_config),
        backend: backend.as_ref().map(ids).map_err(Clone::clone),
        routes: routes.as_ref().map(ids).map_err(Clone::clone),
    };
    let rendered = [Ok(model_config), backend, routes];
    let objects: Vec<Object> = rendered.into_iter().flatten().flatten().collect();
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
        steps,
    }
}
