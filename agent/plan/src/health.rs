//! Are all wanted replicas ready, and if not, why: the one reason that a person can act on, from the Deployment and its Pods.
//!
//! * `ailment`: all that can be the reason, the worst first.
//! * `creation`: why Pods can't exist. `pods`: what those say that do, with `containers`.

mod ailment;
mod containers;
mod creation;
mod pods;

use std::sync::Arc;

use crds::{
    condition::{HEALTH_CHECK, Verdict},
    reason,
    v1alpha1::{Replicas, ServerPlacement},
};
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentStatus},
    core::v1::Pod,
};
use kube::ResourceExt;

use self::{
    ailment::{Ailment, Finding},
    pods::Pods,
};
use crate::extract::{beginning, last_lines};

/// How much of what another says is told, so that there is room for who it is said of, and what to do.
const QUOTE_LENGTH_MAX: usize = 240;

/// Replicas wanted, and ready now, whatever generation they are of.
pub(crate) fn replicas(placement: &ServerPlacement, deployment: Option<&Deployment>) -> Replicas {
    Replicas {
        wanted: placement.spec.replicas,
        ready: counted(
            deployment.and_then(|deployment| deployment.status.as_ref()?.ready_replicas),
        ),
    }
}

/// The verdict while there is no Deployment that is as it was planned.
pub(crate) fn unplanned(replicas: Replicas) -> Verdict {
    let Replicas { wanted, ready } = replicas;
    let message =
        format!("{ready} of {wanted} replicas ready; the Deployment is not yet as planned");
    Verdict::unknown(HEALTH_CHECK, reason::STARTING_BACKEND, message)
}

/// The verdict, for a Deployment that is as it was planned.
pub(crate) fn verdict(
    placement: &ServerPlacement,
    deployment: &Deployment,
    pods: &[Arc<Pod>],
) -> Verdict {
    let Replicas { wanted, ready } = replicas(placement, Some(deployment));
    let status = deployment.status.clone().unwrap_or_default();
    let seen = status.observed_generation >= deployment.metadata.generation;
    if seen && wanted == 0 {
        let message = "replicas is 0: nothing runs, as asked for";
        return Verdict::yes(HEALTH_CHECK, reason::SCALED_TO_ZERO, message);
    }
    let count = format!("{ready} of {wanted} replicas ready");
    // With no older replica left, those that are ready are of this generation.
    let updated = counted(status.updated_replicas);
    let rolled_out = updated >= wanted && counted(status.replicas) <= updated;
    if seen && rolled_out && ready >= wanted {
        return Verdict::yes(HEALTH_CHECK, reason::SERVING, count);
    }
    if !seen {
        let message =
            format!("{count}; the Deployment controller has not seen the newest revision");
        return Verdict::unknown(HEALTH_CHECK, reason::STARTING_BACKEND, message);
    }
    let pods = Pods::of(&deployment.name_any(), pods);
    let found = [
        creation::refused(&status),
        pods.worst(placement),
        roll_out(&status, ready, wanted, &pods),
    ];
    let Some(Finding { ailment, message }) = Finding::worst(found.into_iter().flatten()) else {
        return Verdict::unknown(HEALTH_CHECK, reason::STARTING_BACKEND, count);
    };
    let message = format!("{count}; {message}");
    Verdict::new(HEALTH_CHECK, ailment.state(), ailment.reason(), message)
}

/// What is left to do of a roll-out though as many are ready as there should be: new ones come, or older ones leave.
fn roll_out(
    status: &DeploymentStatus,
    ready: u32,
    wanted: u32,
    pods: &Pods<'_>,
) -> Option<Finding> {
    if ready < wanted {
        return None;
    }
    let updated = counted(status.updated_replicas);
    let older = counted(status.replicas).saturating_sub(updated);
    if updated >= wanted && !pods.any_rises() {
        let what = format!("{older} of an older revision still to leave");
        return Some(Finding::new(Ailment::Draining, what, None));
    }
    let what = format!("{updated} of {wanted} are of the newest revision");
    Some(Finding::new(Ailment::StartingBackend, what, None))
}

/// What another says, a reason and a message perhaps, on one line.
fn quoted<'a>(said: impl IntoIterator<Item = Option<&'a str>>) -> Option<String> {
    let said: Vec<&str> = said.into_iter().flatten().collect();
    let line = last_lines(&said.join(": "), usize::MAX, usize::MAX);
    // More follows in the same sentence.
    let line = line.trim_end_matches('.');
    (!line.is_empty()).then(|| beginning(line.to_owned(), QUOTE_LENGTH_MAX))
}

fn counted(number: Option<i32>) -> u32 {
    number
        .and_then(|number| u32::try_from(number).ok())
        .unwrap_or_default()
}
