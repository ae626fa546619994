//! The discovery HTTPRoute of a server: from the path that clients ask for to the path that members route by.

use crds::{condition::State, names, reason};
use gateway_api::httproutes::{
    HttpRoute, HttpRouteParentRefs, HttpRouteRules, HttpRouteRulesBackendRefs,
    HttpRouteRulesFilters, HttpRouteRulesFiltersType, HttpRouteRulesFiltersUrlRewrite,
    HttpRouteRulesFiltersUrlRewritePath, HttpRouteRulesFiltersUrlRewritePathType,
    HttpRouteRulesMatches, HttpRouteRulesMatchesPath, HttpRouteRulesMatchesPathType, HttpRouteSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    endpoints::{Discovery, PORT},
    facts::{Facts, StepFacts},
    owner, placements,
};

/// The routes of a server: none while the Gateway API is missing, no Gateway is set, or the namespace is refused.
pub fn discovery(facts: &Facts<'_>, discovery: &Discovery) -> Vec<HttpRoute> {
    let Some(gateway) = facts
        .gateway
        .filter(|_| facts.gateway_api && !placements::is_refused(facts.server))
    else {
        return Vec::new();
    };
    let (namespace, name) = (facts.namespace(), facts.name());
    let parent = HttpRouteParentRefs {
        namespace: Some(gateway.namespace.clone()),
        name: gateway.name.clone(),
        section_name: gateway.listener.clone(),
        ..HttpRouteParentRefs::default()
    };
    let rule = HttpRouteRules {
        matches: Some(vec![HttpRouteRulesMatches {
            path: Some(HttpRouteRulesMatchesPath {
                r#type: Some(HttpRouteRulesMatchesPathType::PathPrefix),
                value: Some(format!("/{namespace}/{name}")),
            }),
            ..HttpRouteRulesMatches::default()
        }]),
        filters: Some(vec![rewrite(format!("/cluster/{namespace}/{name}"))]),
        backend_refs: Some(backends(facts, discovery)),
        ..HttpRouteRules::default()
    };
    let mut route = HttpRoute::new(
        &names::discovery_route(name, 0),
        HttpRouteSpec {
            parent_refs: Some(vec![parent]),
            rules: Some(vec![rule]),
            ..HttpRouteSpec::default()
        },
    );
    route.metadata.namespace = Some(namespace.to_owned());
    route.metadata.labels = Some(
        [
            (crds::labels::MANAGED_BY, crds::labels::HUB),
            (crds::labels::SERVER, name),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    );
    route.metadata.owner_references = Some(vec![owner(facts.server)]);
    vec![route]
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

fn rewrite(prefix: String) -> HttpRouteRulesFilters {
    HttpRouteRulesFilters {
        r#type: HttpRouteRulesFiltersType::UrlRewrite,
        url_rewrite: Some(HttpRouteRulesFiltersUrlRewrite {
            hostname: None,
            path: Some(HttpRouteRulesFiltersUrlRewritePath {
                r#type: HttpRouteRulesFiltersUrlRewritePathType::ReplacePrefixMatch,
                replace_prefix_match: Some(prefix),
                replace_full_path: None,
            }),
        }),
        ..filter()
    }
}

/// A filter of no kind: the type has no default.
fn filter() -> HttpRouteRulesFilters {
    HttpRouteRulesFilters {
        cors: None,
        extension_ref: None,
        request_header_modifier: None,
        request_mirror: None,
        request_redirect: None,
        response_header_modifier: None,
        r#type: HttpRouteRulesFiltersType::UrlRewrite,
        url_rewrite: None,
    }
}

/// What the hub's Gateway says of our routes.
pub fn verdict(facts: &Facts<'_>) -> StepFacts {
    let found = |state, reason: &str, message: String| StepFacts {
        state,
        reason: reason.to_owned(),
        message,
    };
    if !facts.gateway_api {
        let message = "the hub's cluster has no Gateway API: install its CRDs (standard channel, 1.1 or later)";
        return found(
            State::False,
            reason::GATEWAY_API_MISSING,
            message.to_owned(),
        );
    }
    let Some(gateway) = facts.gateway else {
        let message = "the hub has no Gateway: set `gateway.namespace` and `gateway.name` in its chart's values";
        return found(State::False, reason::GATEWAY_NOT_SET, message.to_owned());
    };
    let at = format!("Gateway {}/{}", gateway.namespace, gateway.name);
    let wanted = names::discovery_route(facts.name(), 0);
    let route = facts
        .observed
        .routes
        .iter()
        .find(|route| route.metadata.name.as_ref() == Some(&wanted));
    let Some(route) = route else {
        return found(
            State::Unknown,
            reason::ROUTE_PENDING,
            format!("HTTPRoute {wanted} is not written yet"),
        );
    };
    let parents = route.status.iter().flat_map(|status| &status.parents);
    let parent = parents.into_iter().find(|parent| {
        let reference = &parent.parent_ref;
        let namespace = reference
            .namespace
            .as_deref()
            .unwrap_or_else(|| facts.namespace());
        reference.name == gateway.name
            && namespace == gateway.namespace
            && reference.section_name == gateway.listener
    });
    let Some(conditions) = parent.map(|parent| parent.conditions.as_slice()) else {
        let message = format!(
            "{at} has not judged HTTPRoute {wanted}: does it exist, and does a controller run for it?"
        );
        return found(State::Unknown, reason::ROUTE_PENDING, message);
    };
    for (kind, failure) in [
        ("Accepted", reason::ROUTE_NOT_ACCEPTED),
        ("ResolvedRefs", reason::REFS_NOT_RESOLVED),
    ] {
        match judged(conditions, kind, route.metadata.generation) {
            Judged::Yes => {}
            Judged::No(message) => {
                return found(
                    State::False,
                    failure,
                    format!("{at} refuses HTTPRoute {wanted}: {message}"),
                );
            }
            Judged::NotYet => {
                let message = format!("{at} has not said {kind} of HTTPRoute {wanted}");
                return found(State::Unknown, reason::ROUTE_PENDING, message);
            }
        }
    }
    found(
        State::True,
        reason::PROVISIONED,
        format!("{at} accepts HTTPRoute {wanted}"),
    )
}

enum Judged {
    Yes,
    No(String),
    NotYet,
}

/// A verdict of an older generation stands while it is positive: a rewrite of the route must not look like a failure.
fn judged(conditions: &[Condition], kind: &str, generation: Option<i64>) -> Judged {
    match conditions.iter().find(|condition| condition.type_ == kind) {
        Some(condition) if condition.status == "True" => Judged::Yes,
        Some(condition)
            if condition.status == "False" && condition.observed_generation >= generation =>
        {
            Judged::No(format!("{}: {}", condition.reason, condition.message))
        }
        Some(_) | None => Judged::NotYet,
    }
}
