//! A Pod's status from what its containers do. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP,
    Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A finished run of a container.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finished {
    pub(super) code: i32,
    pub(super) reason: String,
    pub(super) message: Option<String>,
    pub(super) started: Option<Time>,
    pub(super) finished: Time,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    Waiting { reason: String, message: String },
    Running { since: Time },
    Finished(Finished),
}

/// One container as its status will show it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct View {
    pub(super) state: State,
    pub(super) last: Option<Finished>,
    /// Passed its startup probe.
    pub(super) started: bool,
    pub(super) ready: bool,
    pub(super) restarts: i32,
}

impl View {
    pub(super) fn waiting(reason: &str, message: &str) -> Self {
        let state = State::Waiting { reason: reason.to_owned(), message: message.to_owned() };
        Self { state, last: None, started: false, ready: false, restarts: 0 }
    }

    fn succeeded(&self) -> bool {
        matches!(&self.state, State::Finished(finished) if finished.code == 0)
    }
}

/// All containers of a Pod, init containers too, by name.
pub(super) type Views = BTreeMap<String, View>;

/// What is known of a Pod beside its containers.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) address: Option<String>,
    pub(super) node_address: String,
    pub(super) started: Time,
    pub(super) terminating: bool,
}

/// The status of `pod`. A condition keeps its transition time while its status stays the same.
pub(super) fn status(pod: &Pod, views: &Views, facts: &Facts, now: &Time) -> PodStatus {
    let (inits, mains) = containers(pod);
    let initialized = inits.iter().all(|(name, _)| views.get(*name).is_some_and(View::succeeded));
    let all_ready = !facts.terminating && mains.iter().all(|(name, _)| views.get(*name).is_some_and(|view| view.ready));
    let phase = phase(pod, &mains.iter().filter_map(|(name, _)| views.get(*name)).collect::<Vec<_>>());
    let condition = |kind: &str, holds: bool, reason: Option<&str>| {
        let status = if holds { "True" } else { "False" };
        let old = pod.status.as_ref().and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let same = old.into_iter().find(|old| old.type_ == kind && old.status == status);
        PodCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            last_transition_time: same
                .and_then(|old| old.last_transition_time.clone())
                .or_else(|| Some(now.clone())),
            reason: reason.filter(|_| !holds).map(str::to_owned),
            ..PodCondition::default()
        }
    };
    let completed = if phase == "Succeeded" { "PodCompleted" } else { "ContainersNotReady" };
    let statuses = |containers: &[(&str, &str)]| {
        let known = containers.iter().filter_map(|(name, image)| Some(container(name, image, views.get(*name)?)));
        Some(known.collect::<Vec<_>>()).filter(|statuses| !statuses.is_empty())
    };
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(vec![
            condition("PodReadyToStartContainers", facts.address.is_some(), None),
            condition("Initialized", initialized, Some("ContainersNotInitialized")),
            condition("Ready", all_ready, Some(completed)),
            condition("ContainersReady", all_ready, Some(completed)),
            condition("PodScheduled", true, None),
        ]),
        init_container_statuses: statuses(&inits),
        container_statuses: statuses(&mains),
        host_ip: Some(facts.node_address.clone()),
        host_ips: Some(vec![HostIP { ip: facts.node_address.clone() }]),
        pod_ip: facts.address.clone(),
        pod_ips: facts.address.clone().map(|ip| vec![PodIP { ip }]),
        start_time: Some(facts.started.clone()),
        qos_class: pod.status.as_ref().and_then(|status| status.qos_class.clone()),
        ..PodStatus::default()
    }
}

type Named<'a> = Vec<(&'a str, &'a str)>;

/// Names and images of init containers and of containers.
fn containers(pod: &Pod) -> (Named<'_>, Named<'_>) {
    let Some(spec) = &pod.spec else { return (Vec::new(), Vec::new()) };
    let inits = spec.init_containers.iter().flatten();
    (
        inits.map(|c| (c.name.as_str(), c.image.as_deref().unwrap_or_default())).collect(),
        spec.containers.iter().map(|c| (c.name.as_str(), c.image.as_deref().unwrap_or_default())).collect(),
    )
}

fn phase(pod: &Pod, mains: &[&View]) -> &'static str {
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
    let finished = |view: &&View| matches!(view.state, State::Finished(_));
    if mains.is_empty() || mains.iter().any(|view| view.last.is_none() && matches!(view.state, State::Waiting { .. })) {
        "Pending"
    } else if policy == "Always" || !mains.iter().all(|view| finished(&view)) {
        "Running"
    } else if mains.iter().all(|view| view.succeeded()) {
        "Succeeded"
    } else {
        "Failed"
    }
}

fn container(name: &str, image: &str, view: &View) -> ContainerStatus {
    let state = match &view.state {
        State::Waiting { reason, message } => ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(reason.clone()),
                message: Some(message.clone()).filter(|message| !message.is_empty()),
            }),
            ..ContainerState::default()
        },
        State::Running { since } => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(since.clone()) }),
            ..ContainerState::default()
        },
        State::Finished(finished) => {
            ContainerState { terminated: Some(terminated(finished)), ..ContainerState::default() }
        }
    };
    let last = view.last.as_ref().map(|finished| ContainerState {
        terminated: Some(terminated(finished)),
        ..ContainerState::default()
    });
    ContainerStatus {
        name: name.to_owned(),
        image: image.to_owned(),
        image_id: format!("process://{image}"),
        ready: view.ready,
        started: Some(view.started),
        restart_count: view.restarts,
        state: Some(state),
        last_state: last,
        ..ContainerStatus::default()
    }
}

fn terminated(finished: &Finished) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code: finished.code,
        reason: Some(finished.reason.clone()),
        message: finished.message.clone(),
        started_at: finished.started.clone(),
        finished_at: Some(finished.finished.clone()),
        ..ContainerStateTerminated::default()
    }
}
