//! What an InferenceServer goes through. A build of the hub may replace it, or wrap it.

use std::sync::Arc;

use crds::{
    condition::Verdict,
    v1alpha1::{InferenceServer, InferenceServerStatus},
};
use hub_plan::placements::is_leaving;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use operator::conditions::{self, Plugin, Unfit};

use super::{
    Pass,
    actors::{self, Actor},
};
use crate::{endpoints::Publisher, routing::Routing};

/// The steps of InferenceServers. After Michelangelo's plugin of that name: its `ParseState` and `UpdateDetails` are
/// [`finish`] here, and conditions of steps that the phase does not have go by themselves.
///
/// [`finish`]: ServerPlugin::finish
pub trait ServerPlugin: Send + Sync {
    /// What creates a server and keeps it right, in this order.
    fn creation(&self) -> &Steps;

    /// What takes a server away that is deleted or decommissioned, in this order. Its finalizer goes when all of it is done.
    fn deletion(&self) -> &Steps;

    /// The last word on the status before it is written. It must say the same of the same: a status that differs is written.
    fn finish(&self, pass: &Pass, status: &mut InferenceServerStatus) {
        let _ = (pass, status);
    }
}

/// The steps of one phase.
pub struct Steps(Vec<Actor>);

impl Steps {
    /// These steps, in this order.
    ///
    /// # Errors
    /// When two have one condition type, or one has none that can be.
    pub fn new(actors: Vec<Actor>) -> Result<Self, Unfit> {
        conditions::check(&actors)?;
        Ok(Self(actors))
    }
}

impl Plugin<Pass> for Steps {
    fn actors(&self) -> &[Actor] {
        &self.0
    }

    fn conditions<'a>(&self, pass: &'a Pass) -> &'a [Condition] {
        pass.conditions()
    }

    fn put_condition(&self, pass: &mut Pass, verdict: Verdict) {
        pass.steps.push(verdict);
    }
}

/// The hub's own steps.
pub struct OwnSteps {
    creation: Steps,
    deletion: Steps,
}

impl OwnSteps {
    /// They publish by `publisher`, and route by `routing`.
    pub fn new(publisher: &Arc<dyn Publisher>, routing: &Arc<dyn Routing>) -> Self {
        Self {
            creation: Steps(actors::creation(publisher, routing)),
            deletion: Steps(actors::deletion(publisher, routing)),
        }
    }
}

impl ServerPlugin for OwnSteps {
    fn creation(&self) -> &Steps {
        &self.creation
    }

    fn deletion(&self) -> &Steps {
        &self.deletion
    }
}

/// The steps of the phase that a server is in.
pub(super) fn steps_of<'a>(plugin: &'a dyn ServerPlugin, server: &InferenceServer) -> &'a Steps {
    if is_leaving(server) {
        plugin.deletion()
    } else {
        plugin.creation()
    }
}
