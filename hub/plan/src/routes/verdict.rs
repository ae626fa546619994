//! What the Gateways say of the discovery routes.

use crds::{
    metadata::{VERDICT_SECONDS, doubted},
    reason,
};
use gateway_api::httproutes::{HttpRoute, HttpRouteParentRefs, HttpRouteStatusParents};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};

use super::{
    is_weightless, names,
    parents::{can_be, gateway_name, parents},
    refused,
};
use crate::facts::{Facts, StepFacts};

/// What is said of the routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The verdict.
    pub verdict: StepFacts,
    /// When time alone changes it.
    pub due: Option<Timestamp>,
}

impl From<StepFacts> for Said {
    fn from(verdict: StepFacts) -> Self {
        Self { verdict, due: None }
    }
}

/// What the Gateways say of all discovery routes, the worst first; or why they can't be asked, or what of the specification
/// is not in the routes.
pub fn verdict(facts: &Facts<'_>, now: Timestamp) -> Said {
    if !facts.gateway_api {
        let message = "the hub's cluster has no Gateway API: install its CRDs (standard channel, 1.1 or later)";
        return StepFacts::no(reason::GATEWAY_API_MISSING, message).into();
    }
    let parents = parents(facts.server, facts.gateway);
    if parents.is_empty() {
        let message = "the hub has no Gateway: set `gateway.namespace` and `gateway.name` in its chart's values, or spec.routing.parentRefs";
        return StepFacts::no(reason::GATEWAY_NOT_SET, message).into();
    }
    let names = names(facts);
    let of_gateways: Vec<_> = names
        .iter()
        .flat_map(|name| parents.iter().map(move |parent| (name, parent)))
        .map(|(name, parent)| of_route(facts, parent, name, now))
        .collect();
    let due = of_gateways.iter().filter_map(|said| said.due).min();
    let done = StepFacts::yes(reason::PROVISIONED, "no route is needed");
    let verdict = of_gateways
        .into_iter()
        .map(|said| said.verdict)
        .chain(no_traffic(facts))
        .chain(left_out(facts))
        .min_by_key(|found| found.state)
        .unwrap_or(done);
    Said { verdict, due }
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

fn of_route(facts: &Facts<'_>, parent: &HttpRouteParentRefs, name: &str, now: Timestamp) -> Said {
    let (namespace, gateway) = gateway_name(parent);
    let at = format!("Gateway {namespace}/{gateway}");
    // A Gateway that is gone judges nothing, and what it said before may still be there.
    if !facts.gateways.contains(&(namespace, gateway)) {
        let message = format!("{at} does not exist in the hub's cluster");
        return StepFacts::no(reason::GATEWAY_NOT_FOUND, message).into();
    }
    if !can_be(parent) {
        let listener = parent.section_name.as_deref().unwrap_or_default();
        let message = format!("{at} can have no listener of the name {listener:?}");
        return StepFacts::no(reason::LISTENER_NOT_FOUND, message).into();
    }
    let mut routes = facts.observed.routes.iter();
    let route = routes.find(|route| route.metadata.name.as_deref() == Some(name));
    let Some(route) = route else {
        let message = format!("HTTPRoute {name} is not written yet");
        return StepFacts::unknown(reason::ROUTE_PENDING, message).into();
    };
    of_gateway(facts, parent, route, &at, now)
}

/// What one Gateway says of one route: entries of other parents are not ours.
fn of_gateway(
    facts: &Facts<'_>,
    gateway: &HttpRouteParentRefs,
    route: &HttpRoute,
    at: &str,
    now: Timestamp,
) -> Said {
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
    let name = route.metadata.name.as_deref().unwrap_or_default();
    // Where two judge it, in whatever order, the Gateway's controller is the one that accepts.
    entries
        .map(|parent| of_entry(parent, route, at, now))
        .max_by_key(|said| said.verdict.state)
        .unwrap_or_else(|| {
            let message =
                format!("{at} has not judged HTTPRoute {name}: does a controller run for it?");
            StepFacts::unknown(reason::ROUTE_PENDING, message).into()
        })
}

/// What one controller says of the route.
fn of_entry(parent: &HttpRouteStatusParents, route: &HttpRoute, at: &str, now: Timestamp) -> Said {
    let name = route.metadata.name.as_deref().unwrap_or_default();
    let generation = route.metadata.generation;
    let mut due = None;
    for kind in ["Accepted", "ResolvedRefs"] {
        match judged(&parent.conditions, kind, generation) {
            Judged::Yes => {}
            Judged::Yet(seen) => {
                due = doubted(&route.metadata);
                if due.is_some_and(|due| due <= now) {
                    return late(parent, seen, route, at).into();
                }
            }
            Judged::No(condition) => {
                let message = format!(
                    "{at} refuses HTTPRoute {name}: {}: {}",
                    condition.reason, condition.message
                );
                let reason = reason::of_refused_route(kind, &condition.reason);
                return StepFacts::no(reason, message).into();
            }
            Judged::NotYet => {
                let message = format!("{at} has not said {kind} of HTTPRoute {name}");
                return StepFacts::unknown(reason::ROUTE_PENDING, message).into();
            }
        }
    }
    let message = format!("{at} accepts HTTPRoute {name}");
    let verdict = StepFacts::yes(reason::PROVISIONED, message);
    Said { verdict, due }
}

/// Its controller has said yes to an older generation, and nothing of the newest for too long. What it took goes on to be served.
fn late(parent: &HttpRouteStatusParents, seen: i64, route: &HttpRoute, at: &str) -> StepFacts {
    let name = route.metadata.name.as_deref().unwrap_or_default();
    let generation = route.metadata.generation.unwrap_or_default();
    let controller = &parent.controller_name;
    let message = format!(
        "{at} accepts HTTPRoute {name} as of generation {seen}, and its controller {controller} has said nothing of generation {generation} for {VERDICT_SECONDS} s: does it run, and what does its log say?"
    );
    StepFacts::unknown(reason::ROUTE_PENDING, message)
}

enum Judged<'a> {
    Yes,
    /// Yes to this older generation.
    Yet(i64),
    No(&'a Condition),
    NotYet,
}

/// A verdict of an older generation stands for a while if it is positive.
fn judged<'a>(conditions: &'a [Condition], kind: &str, generation: Option<i64>) -> Judged<'a> {
    // A controller need not say of which generation it speaks.
    let is_current = |condition: &Condition| {
        let seen = condition.observed_generation;
        seen.is_none() || seen >= generation
    };
    match conditions.iter().find(|condition| condition.type_ == kind) {
        Some(condition) if condition.status == "True" => match condition.observed_generation {
            Some(seen) if !is_current(condition) => Judged::Yet(seen),
            Some(_) | None => Judged::Yes,
        },
        Some(condition) if condition.status == "False" && is_current(condition) => {
            Judged::No(condition)
        }
        Some(_) | None => Judged::NotYet,
    }
}
