//! Condition types, and the one place that knows how conditions are merged.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

/// InferenceServer: the specification can be carried out.
pub const VALIDATION: &str = "Validation";
/// InferenceServer: the model servers' objects exist in every target cluster.
pub const BACKEND_PROVISION: &str = "BackendProvision";
/// InferenceServer: the endpoint of every target cluster is published in the hub.
pub const ENDPOINT_PUBLISH: &str = "EndpointPublish";
/// InferenceServer: the hub's gateway accepts the discovery route.
pub const DISCOVERY_ROUTE_PROVISION: &str = "DiscoveryRouteProvision";
/// InferenceServer: the gateway of every target cluster accepts the traffic route.
pub const TRAFFIC_ROUTE_PROVISION: &str = "TrafficRouteProvision";
/// InferenceServer: the model list exists in every target cluster.
pub const MODEL_CONFIG_PROVISION: &str = "ModelConfigProvision";
/// InferenceServer: every wanted replica is ready.
pub const HEALTH_CHECK: &str = "HealthCheck";
/// InferenceServer on its way out: no route leads to it any more.
pub const ROUTE_CLEANUP: &str = "RouteCleanup";
/// InferenceServer on its way out: nothing of it is left in the members, nor published in the hub.
pub const CLEANUP: &str = "Cleanup";
/// InferenceServer: every target is ready for this generation.
pub const READY: &str = "Ready";
/// InferenceServer: at least `minReadyClusters` are routable.
pub const AVAILABLE: &str = "Available";

/// MemberCluster: an agent enrolled with a join token.
pub const JOINED: &str = "Joined";
/// MemberCluster: its agent has a live session.
pub const CONNECTED: &str = "Connected";

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Failed, and something has to change.
    False,
    /// In progress, or not known.
    Unknown,
    /// As it should be.
    True,
}

impl State {
    /// The state of that spelling.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::True, Self::False, Self::Unknown]
            .into_iter()
            .find(|state| state.as_str() == text)
    }

    /// The API's spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// What a check found: a condition without its bookkeeping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The condition's type.
    pub kind: &'static str,
    /// The condition's status.
    pub state: State,
    /// `CamelCase`, for programs.
    pub reason: String,
    /// A sentence, for people.
    pub message: String,
}

impl Verdict {
    /// The check passed.
    pub fn yes(kind: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self::new(kind, State::True, reason, message)
    }

    /// The check failed.
    pub fn no(kind: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self::new(kind, State::False, reason, message)
    }

    /// The check can't say yet.
    pub fn unknown(kind: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self::new(kind, State::Unknown, reason, message)
    }

    /// Any of the three.
    pub fn new(kind: &'static str, state: State, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind,
            state,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

/// The conditions after `verdicts`: one a verdict, in their order. `lastTransitionTime` moves only with the status
/// (API conventions), so that a pass which finds nothing new yields what was there.
pub fn merge(
    previous: &[Condition],
    verdicts: &[Verdict],
    generation: i64,
    now: Timestamp,
) -> Vec<Condition> {
    verdicts
        .iter()
        .map(|verdict| {
            let since = previous
                .iter()
                .find(|condition| {
                    condition.type_ == verdict.kind && condition.status == verdict.state.as_str()
                })
                .map_or(Time(now), |condition| {
                    condition.last_transition_time.clone()
                });
            Condition {
                type_: verdict.kind.to_owned(),
                status: verdict.state.as_str().to_owned(),
                reason: verdict.reason.clone(),
                message: verdict.message.clone(),
                observed_generation: Some(generation),
                last_transition_time: since,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_transition_time_moves_only_with_the_status() {
        let first = merge(&[], &[Verdict::unknown(READY, "Waiting", "a")], 1, at(1));
        let same = merge(&first, &[Verdict::unknown(READY, "Other", "b")], 2, at(2));
        assert_eq!(same[0].last_transition_time, Time(at(1)));
        assert_eq!(
            (same[0].reason.as_str(), same[0].observed_generation),
            ("Other", Some(2))
        );
        let moved = merge(&same, &[Verdict::yes(READY, "Serving", "c")], 2, at(3));
        assert_eq!(moved[0].last_transition_time, Time(at(3)));
    }

    #[test]
    fn a_condition_without_a_verdict_goes() {
        let first = merge(
            &[],
            &[
                Verdict::yes(READY, "A", ""),
                Verdict::yes(AVAILABLE, "B", ""),
            ],
            1,
            at(1),
        );
        let second = merge(&first, &[Verdict::yes(AVAILABLE, "B", "")], 1, at(2));
        assert_eq!(
            second
                .iter()
                .map(|condition| condition.type_.as_str())
                .collect::<Vec<_>>(),
            [AVAILABLE]
        );
    }
}
