//! What the hub is told of a placement: verdicts, replicas and endpoint, as messages.

use agent_plan::Report;
use crds::condition::{self, State, Verdict};
use proto::v1;

/// Whose value a report speaks of, as the ServerPlacement's annotations say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// UID of the InferenceServer in the hub.
    pub(crate) server_uid: String,
    /// The hub's number of the value.
    pub(crate) generation: u64,
    /// The hash of the value.
    pub(crate) hash: proto::Hash,
}

/// A value that is not in the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unwritten {
    /// Which one.
    pub(crate) origin: Origin,
    /// The reason, when it can't be there as things are; `None`: it could not be written this time.
    pub(crate) refused: Option<String>,
    /// Why, in a sentence.
    pub(crate) message: String,
}

/// How the placement is. Its key and age are the machine's to add.
pub(crate) fn placement(origin: &Origin, report: &Report) -> v1::PlacementReport {
    v1::PlacementReport {
        key: None,
        uid: origin.server_uid.clone(),
        generation: origin.generation,
        hash: origin.hash.to_wire(),
        steps: report.verdicts.iter().map(step).collect(),
        replicas_wanted: report.replicas.wanted,
        replicas_ready: report.replicas.ready,
        route_accepted: report.route_accepted,
        age_us: None,
    }
}

/// Nothing is there, and why.
pub(crate) fn absent(unwritten: &Unwritten) -> v1::PlacementReport {
    let Unwritten {
        origin,
        refused,
        message,
    } = unwritten;
    let verdicts = match refused {
        None => agent_plan::unwritten(message),
        Some(reason) => agent_plan::absent(reason, message),
    };
    v1::PlacementReport {
        uid: origin.server_uid.clone(),
        generation: origin.generation,
        hash: origin.hash.to_wire(),
        steps: verdicts.iter().map(step).collect(),
        ..v1::PlacementReport::default()
    }
}

/// Where the cluster admits its traffic, or why nowhere.
pub(crate) fn endpoint(origin: &Origin, report: &Report) -> v1::EndpointReport {
    let none = v1::EndpointReport {
        uid: origin.server_uid.clone(),
        ..v1::EndpointReport::default()
    };
    match &report.endpoint {
        Ok(endpoint) => v1::EndpointReport {
            addresses: endpoint.addresses.iter().map(ToString::to_string).collect(),
            hostnames: endpoint.hostnames.iter().cloned().collect(),
            port: endpoint.port.into(),
            ..none
        },
        Err(refusal) => v1::EndpointReport {
            reason: refusal.reason.to_owned(),
            message: refusal.message.clone(),
            ..none
        },
    }
}

fn step(verdict: &Verdict) -> v1::StepReport {
    let step = match verdict.kind {
        condition::BACKEND_PROVISION => v1::Step::Backend,
        condition::TRAFFIC_ROUTE_PROVISION => v1::Step::TrafficRoute,
        condition::MODEL_CONFIG_PROVISION => v1::Step::ModelConfig,
        condition::HEALTH_CHECK => v1::Step::Health,
        _ => v1::Step::Unspecified,
    };
    let state = match verdict.state {
        State::True => v1::Verdict::True,
        State::False => v1::Verdict::False,
        State::Unknown => v1::Verdict::Unknown,
    };
    v1::StepReport {
        step: step.into(),
        verdict: state.into(),
        reason: verdict.reason.clone(),
        message: verdict.message.clone(),
    }
}
