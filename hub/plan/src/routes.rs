//! The discovery HTTPRoutes of a server: from the paths that clients ask for to the path that members route by.
//!
//! One group of routes is for every host and has the server's own path; with host names of its own there is a second group
//! for those. A route takes few rules, so a group may have several routes; a rule stays in the route that it is in.

mod filters;
mod parents;
mod rules;
mod verdict;

pub use parents::gateways;
pub use rules::refused;
pub use verdict::{Said, verdict};

use std::collections::BTreeSet;

use crds::{
    names,
    v1alpha1::{InferenceServer, RouteTimeouts},
};
use gateway_api::{
    Duration,
    httproutes::{
        HttpRoute, HttpRouteRules, HttpRouteRulesBackendRefs, HttpRouteRulesMatches,
        HttpRouteRulesMatchesPath, HttpRouteRulesMatchesPathType, HttpRouteRulesTimeouts,
        HttpRouteSpec,
    },
};

use self::{
    parents::{can_be, parents},
    rules::{Group, Rule, groups},
};
use crate::{
    endpoints::{Discovery, PORT},
    facts::Facts,
    metadata, placements,
};

/// The routes of a server: none while the Gateway API is missing, no Gateway is set that can be, or the namespace is refused.
pub fn discovery(facts: &Facts<'_>, discovery: &Discovery) -> Vec<HttpRoute> {
    let mut parents = parents(facts.server, facts.gateway);
    parents.retain(can_be);
    if parents.is_empty() || !facts.gateway_api || placements::is_refused(facts.server) {
        return Vec::new();
    }
    let backends = backends(facts, discovery);
    groups(facts)
        .iter()
        .flat_map(|group| group.routes(facts))
        .map(|(name, hostnames, rules)| {
            let rules = rules.iter().map(|rule| self::rule(facts, rule, &backends));
            let spec = HttpRouteSpec {
                parent_refs: Some(parents.clone()),
                hostnames,
                rules: Some(rules.collect()),
            };
            route(facts, &name, spec)
        })
        .collect()
}

/// The Services that routes lead to.
pub fn services<'a>(routes: impl IntoIterator<Item = &'a HttpRoute>) -> BTreeSet<&'a str> {
    let found = backends_of(routes);
    found.map(|backend| backend.name.as_str()).collect()
}

/// Those of them that take a share of the traffic.
pub fn weighed<'a>(routes: impl IntoIterator<Item = &'a HttpRoute>) -> BTreeSet<&'a str> {
    // A backend without a weight has that of 1 (Gateway API).
    let weighed = backends_of(routes).filter(|backend| backend.weight.unwrap_or(1) > 0);
    weighed.map(|backend| backend.name.as_str()).collect()
}

fn backends_of<'a>(
    routes: impl IntoIterator<Item = &'a HttpRoute>,
) -> impl Iterator<Item = &'a HttpRouteRulesBackendRefs> {
    let rules = routes.into_iter().flat_map(|route| route.spec.rules.iter());
    rules
        .flatten()
        .flat_map(|rule| rule.backend_refs.iter().flatten())
}

fn route(facts: &Facts<'_>, name: &str, spec: HttpRouteSpec) -> HttpRoute {
    let mut route = HttpRoute::new(name, spec);
    route.metadata = metadata(facts, name.to_owned());
    route
}

fn rule(
    facts: &Facts<'_>,
    rule: &Rule<'_>,
    backends: &[HttpRouteRulesBackendRefs],
) -> HttpRouteRules {
    let timeouts = rule.timeouts.filter(|_| facts.route_schema.timeouts);
    HttpRouteRules {
        matches: Some(vec![HttpRouteRulesMatches {
            path: Some(HttpRouteRulesMatchesPath {
                r#type: Some(HttpRouteRulesMatchesPathType::PathPrefix),
                value: Some(rule.path.clone()),
            }),
            ..HttpRouteRulesMatches::default()
        }]),
        filters: Some(filters::filters(&facts.server.spec.routing, &rule.to)),
        backend_refs: Some(backends.to_vec()),
        timeouts: timeouts.map(self::timeouts),
        ..HttpRouteRules::default()
    }
}

/// An attempt ends with its request, so one that may take longer is as long as that: the API server refuses a route that says
/// otherwise (Gateway API, `HTTPRouteTimeouts`).
fn timeouts(timeouts: &RouteTimeouts) -> HttpRouteRulesTimeouts {
    // What is longer than a Duration can be is longer than any that can.
    let milliseconds = |text: &str| {
        let parsed = text.parse::<Duration>();
        parsed.map_or(u128::MAX, |duration| duration.as_millis())
    };
    let request = timeouts.request.as_deref();
    let end = request.filter(|request| milliseconds(request) != 0);
    let attempt = timeouts.backend_request.as_deref().map(|attempt| {
        let sooner = end.filter(|end| milliseconds(end) < milliseconds(attempt));
        sooner.unwrap_or(attempt)
    });
    HttpRouteRulesTimeouts {
        request: request.map(str::to_owned),
        backend_request: attempt.map(str::to_owned),
    }
}

/// Where nothing shares the traffic yet, the route still names the discovery Service: its paths answer 503, not 404.
fn backends(facts: &Facts<'_>, discovery: &Discovery) -> Vec<HttpRouteRulesBackendRefs> {
    let backend = |name: String, weight: Option<i32>| HttpRouteRulesBackendRefs {
        name,
        port: Some(PORT),
        weight,
        ..HttpRouteRulesBackendRefs::default()
    };
    match discovery.backends.as_slice() {
        // A weight that is left out is 1 (Gateway API, `HTTPBackendRef.weight`).
        [] if is_weightless(facts.server) => {
            vec![backend(names::discovery_service(facts.name()), Some(0))]
        }
        // One backend takes all, so its weight says nothing: leaving it out keeps the route from following readiness.
        [] | [_] => vec![backend(names::discovery_service(facts.name()), None)],
        several => several
            .iter()
            .map(|(name, weight)| {
                backend(
                    name.clone(),
                    Some(i32::try_from(*weight).unwrap_or(i32::MAX)),
                )
            })
            .collect(),
    }
}

/// Are all targets of weight 0, so that nobody is to take traffic?
fn is_weightless(server: &InferenceServer) -> bool {
    let mut targets = server.spec.cluster_targets.iter();
    targets.all(|target| target.weight == 0)
}

/// The names of all routes of a server.
pub(crate) fn names(facts: &Facts<'_>) -> Vec<String> {
    let groups = groups(facts);
    let routes = groups
        .iter()
        .flat_map(|group: &Group<'_>| group.routes(facts));
    routes.map(|(name, _, _)| name).collect()
}
