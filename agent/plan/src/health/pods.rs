//! What the Pods of a Deployment say: each that is on its way up, and each that went and has nobody in its place yet.

use std::sync::Arc;

use crds::v1alpha1::ServerPlacement;
use k8s_openapi::{
    api::core::v1::{Pod, PodCondition},
    jiff::Timestamp,
};
use kube::ResourceExt;

use super::{
    ailment::{Ailment, Finding},
    containers, quoted,
};
use crate::metadata::TEMPLATE_HASH;

/// Why the scheduler says no (`k8s.io/api`, `core/v1/types.go`, `PodReasonUnschedulable`).
const UNSCHEDULABLE: &str = "Unschedulable";
/// Stands before what the scheduler says of preemption, which only repeats its numbers (Kubernetes,
/// `pkg/scheduler/framework/plugins/defaultpreemption`).
const PREEMPTION: &str = " preemption: ";
/// Why the kubelet itself says that a Pod is not ready whose containers are (Kubernetes, `pkg/kubelet/status/generate.go`).
const READINESS_GATES: &str = "ReadinessGatesNotReady";
/// Why a Pod goes whose node is gone (Kubernetes, `pkg/util/node/node.go`). Its own node controller does not write it any more
/// (1.31 to 1.37), those of virtual nodes may.
const NODE_LOST: &str = "NodeLost";
/// Why a Pod goes that makes room for another (`k8s.io/api`, `core/v1/types.go`, `PodReasonPreemptionByScheduler`). The other
/// reasons of its condition: TerminationByKubelet (the same file), DeletionByTaintManager (Kubernetes,
/// `pkg/controller/tainteviction`), DeletionByPodGC (`pkg/controller/podgc`), EvictionByEvictionAPI
/// (`pkg/registry/core/pod/storage/eviction.go`).
const PREEMPTION_BY_SCHEDULER: &str = "PreemptionByScheduler";

/// The Pods of one Deployment, in name order: anybody may put our label on another.
pub(super) struct Pods<'a>(Vec<&'a Pod>);

impl<'a> Pods<'a> {
    pub(super) fn of(deployment: &str, pods: &'a [Arc<Pod>]) -> Self {
        let pods = pods.iter().map(AsRef::as_ref);
        let mut pods: Vec<&Pod> = pods.filter(|pod| is_of(deployment, pod)).collect();
        pods.sort_by_key(|pod| pod.name_any());
        Self(pods)
    }

    /// Is any on its way up?
    pub(super) fn any_rises(&self) -> bool {
        self.0.iter().any(|pod| rises(pod))
    }

    /// The worst that any of them says.
    pub(super) fn worst(&self, placement: &ServerPlacement) -> Option<Finding> {
        Finding::worst(self.0.iter().filter_map(|pod| {
            if rises(pod) {
                rising(pod, placement)
            } else {
                went(pod).filter(|_| !self.made_up_for(pod))
            }
        }))
    }

    /// Is there one that became ready in the place of one that went? What is over is not told: a Pod that its node evicted
    /// may stay for weeks.
    fn made_up_for(&self, pod: &Pod) -> bool {
        let since = went_at(pod);
        self.0.iter().any(|other| {
            let made = other.metadata.creation_timestamp.as_ref();
            is_ready(other) && !leaves(other) && made.map(|time| time.0) >= since
        })
    }
}

/// Its ReplicaSet is the Deployment's if it is named after it and the Pod's template.
fn is_of(deployment: &str, pod: &Pod) -> bool {
    let Some(hash) = pod.labels().get(TEMPLATE_HASH) else {
        return false;
    };
    let replica_set = format!("{deployment}-{hash}");
    pod.owner_references().iter().any(|owner| {
        owner.controller == Some(true) && owner.kind == "ReplicaSet" && owner.name == replica_set
    })
}

fn rises(pod: &Pod) -> bool {
    !leaves(pod) && !is_ready(pod)
}

fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// It is being deleted, or is over: a ReplicaSet counts neither.
fn leaves(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() || is_over(pod)
}

fn is_over(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// Why one that is on its way up is not there yet.
fn rising(pod: &Pod, placement: &ServerPlacement) -> Option<Finding> {
    let whole = [lost(pod), disrupted(pod), held_back(pod), unscheduled(pod)];
    let whole = whole.into_iter().flatten();
    Finding::worst(whole.chain(containers::findings(pod, placement)))
}

/// Why one went that was not told to.
fn went(pod: &Pod) -> Option<Finding> {
    if !leaves(pod) {
        return None;
    }
    lost(pod)
        .or_else(|| disrupted(pod))
        .or_else(|| turned_down(pod))
}

/// When it went, as far as is known.
fn went_at(pod: &Pod) -> Option<Timestamp> {
    let disrupted = disruption(pod).and_then(|target| target.last_transition_time.as_ref());
    let at = disrupted.or(pod.metadata.creation_timestamp.as_ref());
    at.map(|time| time.0)
}

/// No node can take it.
fn unscheduled(pod: &Pod) -> Option<Finding> {
    let scheduled = condition(pod, "PodScheduled").filter(|it| it.status == "False")?;
    let (name, why) = (pod.name_any(), scheduled.reason.as_deref());
    let said = scheduled.message.as_deref();
    if why == Some(UNSCHEDULABLE) {
        let numbers = said.and_then(|said| said.split(PREEMPTION).next());
        let what = format!("Pod {name}: no node can take it");
        return Some(Finding::new(
            Ailment::Unschedulable,
            what,
            quoted([numbers]),
        ));
    }
    let what = format!("Pod {name} is not scheduled");
    Some(Finding::new(
        Ailment::StartingBackend,
        what,
        quoted([why, said]),
    ))
}

/// Its containers are ready and it is not: the node controller says so of each Pod of a node that it can't hear, and leaves
/// the rest of the status as it was (Kubernetes, `pkg/controller/util/node/controller_utils.go`, `MarkPodsNotReady`).
fn lost(pod: &Pod) -> Option<Finding> {
    let status = pod.status.as_ref()?;
    let says = |kind, status| condition(pod, kind).filter(|it| it.status == status);
    let is_lost = status.reason.as_deref() == Some(NODE_LOST);
    let is_silent = || {
        let unready = says("Ready", "False")?;
        says("ContainersReady", "True")?;
        (unready.reason.as_deref() != Some(READINESS_GATES) && !leaves(pod)).then_some(())
    };
    if !is_lost && is_silent().is_none() {
        return None;
    }
    let at = status.host_ip.as_deref();
    let at = at.map_or_else(String::new, |address| format!(" at {address}"));
    let name = pod.name_any();
    let what = format!("Pod {name}: its containers were ready when its node{at} was last heard");
    let said = status.message.as_deref().filter(|_| is_lost);
    Some(Finding::new(Ailment::NodeNotReady, what, quoted([said])))
}

/// It made room for another, or its node or somebody threw it out.
fn disrupted(pod: &Pod) -> Option<Finding> {
    let target = disruption(pod)?;
    let (name, why) = (pod.name_any(), target.reason.as_deref());
    let said = target.message.as_deref();
    if why == Some(PREEMPTION_BY_SCHEDULER) {
        let what = format!("Pod {name} made room for one of higher priority");
        return Some(Finding::new(Ailment::Preempted, what, quoted([said])));
    }
    let what = format!("Pod {name} was evicted");
    Some(Finding::new(Ailment::Evicted, what, quoted([why, said])))
}

fn disruption(pod: &Pod) -> Option<&PodCondition> {
    condition(pod, "DisruptionTarget").filter(|target| target.status == "True")
}

/// Its node ended it, or did not take it at all: for want of a device, say (Kubernetes, `pkg/kubelet/eviction/helpers.go`,
/// `pkg/kubelet/kubelet.go`, `rejectPod`). Only a kubelet gives a whole Pod a reason.
fn turned_down(pod: &Pod) -> Option<Finding> {
    let status = pod.status.as_ref()?;
    let said = [Some(status.reason.as_deref()?), status.message.as_deref()];
    let what = format!("Pod {}: its node gave it up", pod.name_any());
    Some(Finding::new(Ailment::Evicted, what, quoted(said)))
}

/// Its containers are ready, and a readiness gate is not.
fn held_back(pod: &Pod) -> Option<Finding> {
    let ready =
        condition(pod, "Ready").filter(|it| it.reason.as_deref() == Some(READINESS_GATES))?;
    let what = format!("Pod {} waits for a readiness gate", pod.name_any());
    let said = quoted([ready.message.as_deref()]);
    Some(Finding::new(Ailment::StartingBackend, what, said))
}

pub(super) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == kind)
}
