//! What the hub's Gateway says of the discovery route.

use crds::{condition::State, names, reason, v1alpha1::GatewayReference};
use gateway_api::httproutes::HttpRoute;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::facts::{Facts, StepFacts};

/// What the hub's Gateway says of the discovery route, or why it can't be asked.
pub fn verdict(facts: &Facts<'_>) -> StepFacts {
    if !facts.gateway_api {
        let message = "the hub's cluster has no Gateway API: install its CRDs (standard channel, 1.1 or later)";
        return StepFacts::of(State::False, reason::GATEWAY_API_MISSING, message);
    }
    let Some(gateway) = facts.gateway else {
        let message = "the hub has no Gateway: set `gateway.namespace` and `gateway.name` in its chart's values";
        return StepFacts::of(State::False, reason::GATEWAY_NOT_SET, message);
    };
    let wanted = names::discovery_route(facts.name(), 0);
    let mut routes = facts.observed.routes.iter();
    match routes.find(|route| route.metadata.name.as_ref() == Some(&wanted)) {
        Some(route) => of_gateway(facts, gateway, route, &wanted),
        None => StepFacts::of(
            State::Unknown,
            reason::ROUTE_PENDING,
            format!("HTTPRoute {wanted} is not written yet"),
        ),
    }
}

/// What one Gateway says of one route: entries of other parents are not ours.
fn of_gateway(
    facts: &Facts<'_>,
    gateway: &GatewayReference,
    route: &HttpRoute,
    name: &str,
) -> StepFacts {
    let at = format!("Gateway {}/{}", gateway.namespace, gateway.name);
    let parents = route.status.iter().flat_map(|status| &status.parents);
    let entries = parents.filter(|parent| {
        // Other controllers put entries of their own beside the Gateway's, without a verdict on the route.
        let judges = parent
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Accepted");
        let reference = &parent.parent_ref;
        let namespace = reference
            .namespace
            .as_deref()
            .unwrap_or_else(|| facts.namespace());
        judges
            && reference.name == gateway.name
            && namespace == gateway.namespace
            && reference.section_name == gateway.listener
    });
    // Where two judge it, in whatever order, the Gateway's controller is the one that accepts.
    let generation = route.metadata.generation;
    entries
        .map(|parent| of_entry(&parent.conditions, generation, &at, name))
        .max_by_key(|found| found.state)
        .unwrap_or_else(|| {
            let message = format!(
                "{at} has not judged HTTPRoute {name}: does it exist, and does a controller run for it?"
            );
            StepFacts::of(State::Unknown, reason::ROUTE_PENDING, message)
        })
}

/// What one controller says of the route.
fn of_entry(conditions: &[Condition], generation: Option<i64>, at: &str, name: &str) -> StepFacts {
    for (kind, failure) in [
        ("Accepted", reason::ROUTE_NOT_ACCEPTED),
        ("ResolvedRefs", reason::REFS_NOT_RESOLVED),
    ] {
        match judged(conditions, kind, generation) {
            Judged::Yes => {}
            Judged::No(message) => {
                return StepFacts::of(
                    State::False,
                    failure,
                    format!("{at} refuses HTTPRoute {name}: {message}"),
                );
            }
            Judged::NotYet => {
                let message = format!("{at} has not said {kind} of HTTPRoute {name}");
                return StepFacts::of(State::Unknown, reason::ROUTE_PENDING, message);
            }
        }
    }
    StepFacts::of(
        State::True,
        reason::PROVISIONED,
        format!("{at} accepts HTTPRoute {name}"),
    )
}

enum Judged {
    Yes,
    No(String),
    NotYet,
}

/// A verdict of an older generation stands while it is positive: a rewrite of the route must not look like a failure.
fn judged(conditions: &[Condition], kind: &str, generation: Option<i64>) -> Judged {
    // A controller need not say of which generation it speaks.
    let is_current = |condition: &Condition| {
        let seen = condition.observed_generation;
        seen.is_none() || seen >= generation
    };
    match conditions.iter().find(|condition| condition.type_ == kind) {
        Some(condition) if condition.status == "True" => Judged::Yes,
        Some(condition) if condition.status == "False" && is_current(condition) => {
            Judged::No(format!("{}: {}", condition.reason, condition.message))
        }
        Some(_) | None => Judged::NotYet,
    }
}
