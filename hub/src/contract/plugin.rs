//! What the steps of a server have to keep.

use std::fmt::Debug;

use crds::v1alpha1::{InferenceServer, InferenceServerStatus};
use k8s_openapi::jiff::Timestamp;
use operator::conditions::Plugin;

use super::{Breach, condition_actor, pass, same};
use crate::server::plugin::ServerPlugin;

/// Takes each step of a server that is created, and of one that is decommissioned, by itself; and has the last word on the status
/// of both. `world` is what the steps write to.
///
/// # Errors
/// The first rule that the plugin, or one of its steps, breaks.
pub async fn server_plugin<W: PartialEq + Debug>(
    plugin: &dyn ServerPlugin,
    server: &InferenceServer,
    world: impl Fn() -> W,
) -> Result<(), Breach> {
    let mut leaving = server.clone();
    leaving.spec.decommission = true;
    for (server, steps) in [(server, plugin.creation()), (&leaving, plugin.deletion())] {
        for actor in steps.actors() {
            condition_actor(actor.as_ref(), || pass(server), &world).await?;
        }
        finished(plugin, server)?;
    }
    Ok(())
}

/// A status that differs is written, and wakes whoever watches it.
fn finished(plugin: &dyn ServerPlugin, server: &InferenceServer) -> Result<(), Breach> {
    let first = status(plugin, server);
    let rule = "finish says the same of the same";
    same(rule, &status(plugin, server), &first)?;
    let mut written = server.clone();
    written.status = Some(first.clone());
    let rule = "a status that finish gave stays when it is written";
    same(rule, &status(plugin, &written), &first)
}

/// The status of a server whose steps are as its plan judges them.
fn status(plugin: &dyn ServerPlugin, server: &InferenceServer) -> InferenceServerStatus {
    let pass = pass(server);
    let mut status = pass
        .plan
        .status(server, &pass.plan.steps, Timestamp::UNIX_EPOCH);
    plugin.finish(&pass, &mut status);
    status
}
