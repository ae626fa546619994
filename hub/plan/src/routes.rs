//! The discovery HTTPRoute of a server: from the path that clients ask for to the path that members route by.

mod verdict;

pub use verdict::verdict;

use crds::names;
use gateway_api::httproutes::{
    HttpRoute, HttpRouteParentRefs, HttpRouteRules, HttpRouteRulesBackendRefs,
    HttpRouteRulesFilters, HttpRouteRulesFiltersType, HttpRouteRulesFiltersUrlRewrite,
    HttpRouteRulesFiltersUrlRewritePath, HttpRouteRulesFiltersUrlRewritePathType,
    HttpRouteRulesMatches, HttpRouteRulesMatchesPath, HttpRouteRulesMatchesPathType, HttpRouteSpec,
};

use crate::{
    endpoints::{Discovery, PORT},
    facts::Facts,
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
        ..HttpRouteRulesFilters::default()
    }
}
