//! What the Gateways say of the discovery routes.

use crds::{condition::State, reason};
use gateway_api::httproutes::{HttpRoute, HttpRouteParentRefs};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{gateway_name, is_weightless, names, parents, refused};
use crate::facts::{Facts, StepFacts};

/// What the Gateways say of all discovery routes, the worst first; or why they can't be asked, or what of the specification
/// is not in the routes.
pub fn verdict(facts: &Facts<'_>) -> StepFacts {
    if !facts.gateway_api {
        let message = "the hub's cluster has no Gateway API: install its CRDs (standard channel, 1.1 or later)";
        return StepFacts::of(State::False, reason::GATEWAY_API_MISSING, message);
    }
    let parents = parents(facts.server, facts.gateway);
    if parents.is_empty() {
        let message = "the hub has no Gateway: set `gateway.namespace` and `gateway.name` in its chart's values, or spec.routing.parentRefs";
        return StepFacts::of(State::False, reason::GATEWAY_NOT_SET, message);
    }
    let judged = names(facts).into_iter().flat_map(|name| {
        let parents = parents.iter();
        parents
            .map(|parent| of_route(facts, parent, &name))
            .collect::<Vec<_>>()
    });
    let done = StepFacts::of(State::True, reason::PROVISIONED, "no route is needed");
    judged
        .chain(no_traffic(facts))
        .chain(left_out(facts))
        .min_by_key(|found| found.state)
        .unwrap_or(done)
}

/// The routes may be as accepted as can be, and lead nobody anywhere.
fn no_traffic(facts: &Facts<'_>) -> Option<StepFacts> {
    is_weightless(facts.server).then(|| {
        let message = "every target has weight 0, so the route leads nowhere: give one of spec.clusterTargets a weight above 0";
        StepFacts::no(reason::NO_TRAFFIC, message)
    })
}

/// What the specification asks for and the routes don't have.
fn left_out(facts: &Facts<'_>) -> Option<StepFacts> {
    let mut refused = refused(facts).into_iter();
    if let Some((path, why)) = refused.next() {
        let more = match refused.count() {
            0 => String::new(),
            more => format!(" ({more} more of its rules are not served)"),
        };
        let message = format!("spec.routing.rules: {path} is not served: {why}{more}");
        return Some(StepFacts::no(reason::RULE_REFUSED, message));
    }
    let routing = &facts.server.spec.routing;
    let timeouts =
        routing.timeouts.is_some() || routing.rules.iter().any(|rule| rule.timeouts.is_some());
    (timeouts && !facts.route_schema.timeouts).then(|| {
        let message = "spec.routing.timeouts: the Gateway API of the hub's cluster has no such field: install its CRDs of 1.2 or later";
        StepFacts::no(reason::ROUTE_FIELD_UNKNOWN, message)
    })
}

fn of_route(facts: &Facts<'_>, parent: &HttpRouteParentRefs, name: &str) -> StepFacts {
    let (namespace, gateway) = gateway_name(parent);
    let at = format!("Gateway {namespace}/{gateway}");
    let mut routes = facts.observed.routes.iter();
    let route = routes.find(|route| route.metadata.name.as_deref() == Some(name));
    let found = match route {
        Some(route) => of_gateway(facts, parent, route, &at, name),
        None => StepFacts::of(
            State::Unknown,
            reason::ROUTE_PENDING,
            format!("HTTPRoute {name} is not written yet"),
        ),
    };
    // A Gateway that is gone judges nothing, and what it said before may still be there.
    if !facts.gateways.contains(&(namespace, gateway)) {
        let message = format!("{at} does not exist in the hub's cluster");
        return StepFacts::no(reason::GATEWAY_NOT_FOUND, message);
    }
    found
}

/// What one Gateway says of one route: entries of other parents are not ours.
fn of_gateway(
    facts: &Facts<'_>,
    gateway: &HttpRouteParentRefs,
    route: &HttpRoute,
    at: &str,
    name: &str,
) -> StepFacts {
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
            && Some(namespace) == gateway.namespace.as_deref()
            && reference.section_name == gateway.section_name
    });
    // Where two judge it, in whatever order, the Gateway's controller is the one that accepts.
    let generation = route.metadata.generation;
    entries
        .map(|parent| of_entry(&parent.conditions, generation, at, name))
        .max_by_key(|found| found.state)
        .unwrap_or_else(|| {
            let message =
                format!("{at} has not judged HTTPRoute {name}: does a controller run for it?");
            StepFacts::of(State::Unknown, reason::ROUTE_PENDING, message)
        })
}

/// What one controller says of the route.
fn of_entry(conditions: &[Condition], generation: Option<i64>, at: &str, name: &str) -> StepFacts {
    for kind in ["Accepted", "ResolvedRefs"] {
        match judged(conditions, kind, generation) {
            Judged::Yes => {}
            Judged::No(condition) => {
                let message = format!(
                    "{at} refuses HTTPRoute {name}: {}: {}",
                    condition.reason, condition.message
                );
                return StepFacts::of(State::False, refusal(kind, &condition.reason), message);
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

/// Our reason for a Gateway's (Gateway API, `RouteConditionReason`).
fn refusal(kind: &str, theirs: &str) -> &'static str {
    match (kind, theirs) {
        ("ResolvedRefs", _) => reason::REFS_NOT_RESOLVED,
        (_, "NotAllowedByListeners") => reason::ROUTE_NOT_ALLOWED,
        (_, "NoMatchingListenerHostname") => reason::LISTENER_HOSTNAME_MISMATCH,
        (_, "NoMatchingParent") => reason::LISTENER_NOT_FOUND,
        (_, _) => reason::ROUTE_NOT_ACCEPTED,
    }
}

enum Judged<'a> {
    Yes,
    No(&'a Condition),
    NotYet,
}

/// A verdict of an older generation stands while it is positive: a rewrite of the route must not look like a failure.
fn judged<'a>(conditions: &'a [Condition], kind: &str, generation: Option<i64>) -> Judged<'a> {
    // A controller need not say of which generation it speaks.
    let is_current = |condition: &Condition| {
        let seen = condition.observed_generation;
        seen.is_none() || seen >= generation
    };
    match conditions.iter().find(|condition| condition.type_ == kind) {
        Some(condition) if condition.status == "True" => Judged::Yes,
        Some(condition) if condition.status == "False" && is_current(condition) => {
            Judged::No(condition)
        }
        Some(_) | None => Judged::NotYet,
    }
}
