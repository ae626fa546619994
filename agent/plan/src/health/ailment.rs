//! What can keep replicas from being ready, in the one order in which it is told.

use crds::{condition::State, reason};

/// What keeps replicas from being ready, the worst first: of several, the first is told.
///
/// What a person has to end stands before what ends by itself. Of the former, in the order in which it happens to a Pod:
/// that it can't exist, be on a node, have its image, run, go on to run. Of the latter, what is wrong stands before what
/// only takes time, and what is before what has been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ailment {
    QuotaExceeded,
    AdmissionDenied,
    PolicyDenied,
    RuntimeClassMissing,
    PodCreateFailed,
    Unschedulable,
    ImagePullBackOff,
    CreateContainerError,
    CrashLoopBackOff,
    OomKilled,
    ProbeFailing,
    NodeNotReady,
    ModelLoading,
    Evicted,
    Preempted,
    StartingBackend,
    Draining,
}

impl Ailment {
    /// Of [`crds::reason`].
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::QuotaExceeded => reason::QUOTA_EXCEEDED,
            Self::AdmissionDenied => reason::ADMISSION_DENIED,
            Self::PolicyDenied => reason::POLICY_DENIED,
            Self::RuntimeClassMissing => reason::RUNTIME_CLASS_MISSING,
            Self::PodCreateFailed => reason::POD_CREATE_FAILED,
            Self::Unschedulable => reason::UNSCHEDULABLE,
            Self::ImagePullBackOff => reason::IMAGE_PULL_BACK_OFF,
            Self::CreateContainerError => reason::CREATE_CONTAINER_ERROR,
            Self::CrashLoopBackOff => reason::CRASH_LOOP_BACK_OFF,
            Self::OomKilled => reason::OOM_KILLED,
            Self::ProbeFailing => reason::PROBE_FAILING,
            Self::NodeNotReady => reason::NODE_NOT_READY,
            Self::ModelLoading => reason::MODEL_LOADING,
            Self::Evicted => reason::EVICTED,
            Self::Preempted => reason::PREEMPTED,
            Self::StartingBackend => reason::STARTING_BACKEND,
            Self::Draining => reason::DRAINING,
        }
    }

    /// Does a person have to end it (False), or does it end by itself (Unknown)? A Pod that has lost its node gets another in
    /// its place, and a probe that fails may succeed again or have its container restarted.
    pub(super) const fn state(self) -> State {
        match self {
            Self::QuotaExceeded
            | Self::AdmissionDenied
            | Self::PolicyDenied
            | Self::RuntimeClassMissing
            | Self::PodCreateFailed
            | Self::Unschedulable
            | Self::ImagePullBackOff
            | Self::CreateContainerError
            | Self::CrashLoopBackOff
            | Self::OomKilled => State::False,
            Self::ProbeFailing
            | Self::NodeNotReady
            | Self::ModelLoading
            | Self::Evicted
            | Self::Preempted
            | Self::StartingBackend
            | Self::Draining => State::Unknown,
        }
    }

    /// What to do about it, but to wait or to do as the message says.
    const fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::QuotaExceeded => "raise the namespace's ResourceQuota, or ask for what it admits",
            Self::AdmissionDenied => "ask who keeps that webhook or policy",
            Self::PolicyDenied => "the namespace's Pod Security level has to admit it",
            Self::RuntimeClassMissing => "install the RuntimeClass in the member cluster",
            Self::Unschedulable => "add nodes, or ask for less",
            Self::ImagePullBackOff => "correct the profile's image, or give the nodes access to it",
            Self::CreateContainerError => "correct what it names",
            Self::CrashLoopBackOff => "its log says more: kubectl logs --previous",
            Self::OomKilled => "raise its memory limit",
            Self::ProbeFailing => "its log may say why",
            Self::NodeNotReady => "is the node Ready? kubectl get nodes",
            Self::Evicted | Self::Preempted => "another takes its place",
            Self::PodCreateFailed | Self::ModelLoading | Self::StartingBackend | Self::Draining => {
                return None;
            }
        })
    }
}

/// One thing that keeps replicas from being ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) ailment: Ailment,
    /// Who, what is wrong, and what to do.
    pub(super) message: String,
}

impl Finding {
    /// With `what` ails whom, and what was `said` of it.
    pub(super) fn new(ailment: Ailment, what: String, said: Option<String>) -> Self {
        let said = said.map(|said| format!(": {said}"));
        let advice = ailment.advice().map(|advice| format!("; {advice}"));
        let message = [Some(what), said, advice].into_iter().flatten().collect();
        Self { ailment, message }
    }

    /// The worst of them; of several as bad, the first.
    pub(super) fn worst(findings: impl Iterator<Item = Self>) -> Option<Self> {
        findings.min_by_key(|finding| finding.ailment)
    }
}
