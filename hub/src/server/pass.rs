//! One look at one server: the snapshot, and what was planned from it. The resource that the condition engine is run on.

use std::sync::Arc;

use crds::{condition::Verdict, v1alpha1::InferenceServer};
use hub_plan::Plan;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use operator::cache::ObjectKey;

use crate::{
    endpoints::Publication,
    routing::{RouteIntent, Routing},
};

/// One look at one server. Nothing in it changes while its steps are taken but what they come to.
#[derive(Debug)]
pub struct Pass {
    /// Which server.
    pub key: ObjectKey,
    /// The server.
    pub server: Arc<InferenceServer>,
    /// What was planned for it.
    pub plan: Plan,
    /// What its steps came to, in their order.
    pub steps: Vec<Verdict>,
}

impl Pass {
    /// A look at a server: what was planned for it, and no step taken.
    pub fn new(key: ObjectKey, server: Arc<InferenceServer>, plan: Plan) -> Self {
        Self {
            key,
            server,
            plan,
            steps: Vec::new(),
        }
    }

    /// What is to be published, by what that keeps the routes has come to.
    pub fn publication(&self, routing: &dyn Routing) -> Publication<'_> {
        Publication {
            server: &self.server,
            plan: &self.plan,
            routed: routing.is_synced(&self.route_intent()),
        }
    }

    /// Which routes are to be there.
    pub fn route_intent(&self) -> RouteIntent<'_> {
        RouteIntent {
            server: &self.server,
            routes: &self.plan.routes,
            surplus: &self.plan.surplus_routes,
        }
    }

    /// How the plan judges a step.
    pub fn judged(&self, kind: &'static str) -> Verdict {
        let mut steps = self.plan.steps.iter();
        steps
            .find(|step| step.kind == kind)
            .cloned()
            .unwrap_or_else(|| {
                Verdict::unknown(kind, crds::reason::APPLYING, "the plan has no such step")
            })
    }

    /// The conditions in its status.
    pub fn conditions(&self) -> &[Condition] {
        let status = self.server.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }
}
