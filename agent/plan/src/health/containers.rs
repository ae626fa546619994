//! What the containers of a Pod on its way up say, init containers first, as the kubelet shows them.

use crds::v1alpha1::ServerPlacement;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, Pod,
};
use kube::ResourceExt;

use super::{
    ailment::{Ailment, Finding},
    pods::condition,
    quoted,
};
use crate::{backend::CONTAINER, extract::last_lines};

/// Why the kubelet waits when it can't have an image (Kubernetes, `pkg/kubelet/images/types.go`, and `k8s.io/cri-api`,
/// `pkg/errors`).
const IMAGE_REASONS: [&str; 7] = [
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];
/// Why it waits when a container can't be made or started (Kubernetes, `pkg/kubelet/kuberuntime/kuberuntime_container.go`,
/// `pkg/kubelet/container/sync_result.go`).
const CREATE_REASONS: [&str; 6] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "PostStartHookError",
    "PreCreateHookError",
    "PreStartHookError",
    "RunContainerError",
];
/// Why it waits before it starts one again that ended (Kubernetes, `pkg/kubelet/container/sync_result.go`).
const CRASH_LOOP: &str = "CrashLoopBackOff";
/// Why a container ended that never ran (containerd, `internal/cri/server/helpers.go`).
const START_ERROR: &str = "StartError";
/// Why one ended that took more memory than it may (the same; CRI-O says so, too).
const OOM_KILLED: &str = "OOMKilled";

/// How much of a container's last words is told.
const LAST_LINES_MAX: usize = 3;
const LAST_WORDS_LENGTH_MAX: usize = 200;

/// What each container that is not ready says.
pub(super) fn findings<'a>(
    pod: &'a Pod,
    placement: &'a ServerPlacement,
) -> impl Iterator<Item = Finding> {
    let status = pod.status.iter();
    status.flat_map(move |status| {
        let init = status.init_container_statuses.iter().flatten();
        let main = status.container_statuses.iter().flatten();
        let of = |container: &'a ContainerStatus, is_init| Subject {
            pod,
            placement,
            container,
            is_init,
        };
        init.map(move |container| of(container, true))
            .chain(main.map(move |container| of(container, false)))
            // One that is ready has done, or does, its part.
            .filter(|subject| !subject.container.ready)
            .filter_map(|subject| subject.finding())
    })
}

/// A container that is not ready, and whose it is.
struct Subject<'a> {
    pod: &'a Pod,
    placement: &'a ServerPlacement,
    container: &'a ContainerStatus,
    is_init: bool,
}

impl Subject<'_> {
    fn finding(&self) -> Option<Finding> {
        self.not_made()
            .or_else(|| self.ended())
            .or_else(|| self.runs())
            .or_else(|| self.waits())
    }

    /// It can't have its image, or can't be started.
    fn not_made(&self) -> Option<Finding> {
        let why = self.waiting()?.reason.as_deref()?;
        let (ailment, what) = if IMAGE_REASONS.contains(&why) {
            let what = format!("{self} can't have image {}", self.container.image);
            (Ailment::ImagePullBackOff, what)
        } else if CREATE_REASONS.contains(&why) {
            let what = format!("{self} can't be started");
            (Ailment::CreateContainerError, what)
        } else {
            return None;
        };
        Some(Finding::new(ailment, what, self.says()))
    }

    /// It ended, and is not known to have come up since.
    fn ended(&self) -> Option<Finding> {
        let container = self.container;
        let end = |state: &Option<ContainerState>| state.as_ref()?.terminated.clone();
        let Some(last) = end(&container.state).or_else(|| end(&container.last_state)) else {
            // The kubelet has forgotten how.
            let what = format!("{self} ended, {} restarts", container.restart_count);
            let loops = self.waiting()?.reason.as_deref() == Some(CRASH_LOOP);
            return loops.then(|| Finding::new(Ailment::CrashLoopBackOff, what, self.says()));
        };
        let ended_once_well = container.restart_count == 0 && last.exit_code == 0;
        if ended_once_well || self.was_ready() {
            return None;
        }
        let words = last_words(&last);
        if last.reason.as_deref() == Some(START_ERROR) {
            let what = format!("{self} can't be started");
            return Some(Finding::new(Ailment::CreateContainerError, what, words));
        }
        let (ailment, how) = if last.reason.as_deref() == Some(OOM_KILLED) {
            (Ailment::OomKilled, "was killed for its memory,")
        } else {
            (Ailment::CrashLoopBackOff, "ended with")
        };
        let what = format!(
            "{self} {how} exit code {}, {} restarts",
            last.exit_code, container.restart_count
        );
        Some(Finding::new(ailment, what, words))
    }

    /// It runs, and is not ready.
    fn runs(&self) -> Option<Finding> {
        let running = self.running()?;
        let since = running.started_at.as_ref();
        let since = since.map_or_else(String::new, |since| format!(" since {}", since.0));
        let profile = &self.placement.spec.runtime.content;
        // What is in a Pod beside the server is another's, with or without a startup probe.
        let is_server = self.container.name == CONTAINER && !self.is_init;
        let started = self.container.started == Some(true);
        if self.was_ready() {
            let what = format!("{self} was ready and is not any more, and runs{since}");
            Some(Finding::new(Ailment::ProbeFailing, what, None))
        } else if started && is_server && profile.probes.startup.is_some() {
            let what =
                format!("{self} runs{since}, its startup probe succeeds, and it is not ready");
            Some(Finding::new(Ailment::ProbeFailing, what, None))
        } else if is_server && self.placement.spec.model.is_some() {
            let what = format!("{self} loads its model{since}");
            Some(Finding::new(Ailment::ModelLoading, what, None))
        } else {
            let what = format!("{self} runs{since} and is not ready yet");
            Some(Finding::new(Ailment::StartingBackend, what, None))
        }
    }

    /// It waits, and the kubelet says more than that it works on it.
    fn waits(&self) -> Option<Finding> {
        self.waiting()?.message.as_ref()?;
        let what = format!("{self} waits");
        Some(Finding::new(Ailment::StartingBackend, what, self.says()))
    }

    /// Why it waits.
    fn says(&self) -> Option<String> {
        let waiting = self.waiting()?;
        quoted([waiting.reason.as_deref(), waiting.message.as_deref()])
    }

    fn waiting(&self) -> Option<&ContainerStateWaiting> {
        self.container.state.as_ref()?.waiting.as_ref()
    }

    fn running(&self) -> Option<&ContainerStateRunning> {
        self.container.state.as_ref()?.running.as_ref()
    }

    /// Has the Pod been ready since the container runs? The kubelet says since when the Pod is not: before that it was.
    fn was_ready(&self) -> bool {
        let since = || {
            let started_at = self.running()?.started_at.as_ref()?.0;
            let ready = condition(self.pod, "Ready")?;
            Some(ready.last_transition_time.as_ref()?.0 > started_at)
        };
        since().unwrap_or(false)
    }
}

impl std::fmt::Display for Subject<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.is_init {
            "init container"
        } else {
            "container"
        };
        let (pod, name) = (self.pod.name_any(), &self.container.name);
        write!(formatter, "Pod {pod}, {kind} {name}:")
    }
}

/// What a container left to say, or else what its runtime says of its end.
fn last_words(end: &ContainerStateTerminated) -> Option<String> {
    let said = end.message.as_deref().unwrap_or_default();
    let words = last_lines(said, LAST_LINES_MAX, LAST_WORDS_LENGTH_MAX);
    if words.is_empty() {
        end.reason.clone()
    } else {
        Some(words)
    }
}
