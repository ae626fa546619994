//! Are all wanted replicas ready, and if not, why: the reason that a person can act on, from the Deployment and its Pods.

use std::sync::Arc;

use crds::{
    condition::{HEALTH_CHECK, Verdict},
    reason,
    v1alpha1::{Replicas, ServerPlacement},
};
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentStatus},
    core::v1::{ContainerState, ContainerStatus, Pod, PodCondition},
};
use kube::ResourceExt;

use crate::gateway::Refusal;

/// Set by the Deployment controller on the Pods of each of its ReplicaSets.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Why the kubelet waits when it can't have an image (its `images` package).
const IMAGE_REASONS: [&str; 7] = [
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];

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
    Verdict::unknown(HEALTH_CHECK, reason::STARTING, message)
}

/// The verdict, for a Deployment that is as it was planned.
pub(crate) fn verdict(
    placement: &ServerPlacement,
    deployment: &Deployment,
    pods: &[Arc<Pod>],
) -> Verdict {
    let Replicas { wanted, ready } = replicas(placement, Some(deployment));
    let name = deployment.name_any();
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
        return Verdict::unknown(HEALTH_CHECK, reason::STARTING, message);
    }
    if let Some(Refusal { reason, message }) = failure(&status, &name, pods) {
        return Verdict::no(HEALTH_CHECK, reason, format!("{count}; {message}"));
    }
    let detail = if ready < wanted {
        waiting(&name, pods)
    } else {
        Some(format!("{updated} of {wanted} are of the newest revision"))
    };
    let message = detail.map_or_else(|| count.clone(), |detail| format!("{count}; {detail}"));
    Verdict::unknown(HEALTH_CHECK, reason::STARTING, message)
}

/// What needs a person, in the order in which one would look.
fn failure(status: &DeploymentStatus, deployment: &str, pods: &[Arc<Pod>]) -> Option<Refusal> {
    let refused = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True");
    if let Some(condition) = refused {
        let said = condition.message.as_deref().unwrap_or("no message");
        return Some(Refusal::new(
            reason::POD_CREATE_FAILED,
            format!("the API server refuses Pods: {said}"),
        ));
    }
    let pods = starting(deployment, pods);
    [unschedulable, image_failure, crash]
        .into_iter()
        .find_map(|find| pods.iter().find_map(|pod| find(pod)))
}

/// The Pods that are on their way up, in name order.
fn starting<'a>(deployment: &str, pods: &'a [Arc<Pod>]) -> Vec<&'a Pod> {
    let mut pods: Vec<&Pod> = pods
        .iter()
        .map(AsRef::as_ref)
        .filter(|pod| is_of(deployment, pod) && pod.metadata.deletion_timestamp.is_none())
        .filter(|pod| condition(pod, "Ready").is_none_or(|ready| ready.status != "True"))
        .collect();
    pods.sort_by_key(|pod| pod.name_any());
    pods
}

/// Anybody may put our label on a Pod: its ReplicaSet is the Deployment's if it is named after it and the Pod's template.
fn is_of(deployment: &str, pod: &Pod) -> bool {
    let Some(hash) = pod.labels().get(TEMPLATE_HASH) else {
        return false;
    };
    let replica_set = format!("{deployment}-{hash}");
    pod.owner_references().iter().any(|owner| {
        owner.controller == Some(true) && owner.kind == "ReplicaSet" && owner.name == replica_set
    })
}

fn unschedulable(pod: &Pod) -> Option<Refusal> {
    let scheduled = condition(pod, "PodScheduled")?;
    if scheduled.status != "False" || scheduled.reason.as_deref() != Some("Unschedulable") {
        return None;
    }
    let said = scheduled
        .message
        .as_deref()
        .unwrap_or("no node can take it");
    Some(Refusal::new(
        reason::UNSCHEDULABLE,
        format!("Pod {}: {said}", pod.name_any()),
    ))
}

fn image_failure(pod: &Pod) -> Option<Refusal> {
    containers(pod).find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let why = waiting.reason.as_deref()?;
        if !IMAGE_REASONS.contains(&why) {
            return None;
        }
        let said = waiting.message.as_deref().unwrap_or_default();
        Some(Refusal::new(
            reason::IMAGE_PULL_FAILED,
            format!(
                "Pod {} can't have image {}: {why} {said}",
                pod.name_any(),
                container.image
            ),
        ))
    })
}

fn crash(pod: &Pod) -> Option<Refusal> {
    containers(pod).find_map(|container| {
        let exit = |state: &Option<ContainerState>| state.as_ref()?.terminated.clone();
        let last = exit(&container.state).or_else(|| exit(&container.last_state))?;
        if container.restart_count == 0 && last.exit_code == 0 {
            return None;
        }
        let why = last.message.or(last.reason).unwrap_or_default();
        Some(Refusal::new(
            reason::CRASH_LOOP,
            format!(
                "Pod {}, container {}: ended with exit code {} after {} restarts: {}",
                pod.name_any(),
                container.name,
                last.exit_code,
                container.restart_count,
                why.trim()
            ),
        ))
    })
}

/// What the first Pod on its way up waits for, if the kubelet says more than that it works on it.
fn waiting(deployment: &str, pods: &[Arc<Pod>]) -> Option<String> {
    starting(deployment, pods).into_iter().find_map(|pod| {
        containers(pod).find_map(|container| {
            let waiting = container.state.as_ref()?.waiting.as_ref()?;
            let said = waiting.message.as_deref()?;
            let why = waiting.reason.as_deref().unwrap_or("waiting");
            Some(format!("Pod {}: {why}: {said}", pod.name_any()))
        })
    })
}

fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    })
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == kind)
}

fn counted(number: Option<i32>) -> u32 {
    number
        .and_then(|number| u32::try_from(number).ok())
        .unwrap_or_default()
}
