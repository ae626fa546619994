//! The traffic route: from the member's gateway to the runtime, and what its gateway says of it.

use crds::{
    condition::{TRAFFIC_ROUTE_PROVISION, Verdict},
    labels,
    metadata::{VERDICT_SECONDS, doubted},
    names, reason,
    v1alpha1::ServerPlacement,
};
use gateway_api::httproutes::{
    HttpRoute, HttpRouteParentRefs, HttpRouteRules, HttpRouteRulesBackendRefs,
    HttpRouteRulesFilters, HttpRouteRulesFiltersResponseHeaderModifier,
    HttpRouteRulesFiltersResponseHeaderModifierSet, HttpRouteRulesFiltersType,
    HttpRouteRulesFiltersUrlRewrite, HttpRouteRulesFiltersUrlRewritePath,
    HttpRouteRulesFiltersUrlRewritePathType, HttpRouteRulesMatches, HttpRouteRulesMatchesPath,
    HttpRouteRulesMatchesPathType, HttpRouteSpec, HttpRouteStatusParents,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use crate::{
    PlacementInput,
    backend::{SERVICE_PORT, readiness_path},
    drivers::{Doubt, Routing},
    gateway::{self, Listener, Refusal},
    metadata::metadata,
};

const ACCEPTED: &str = "Accepted";
const RESOLVED_REFS: &str = "ResolvedRefs";

/// One route by path: the routing of an agent that is given no other.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathRouting;

impl Routing for PathRouting {
    /// One route, to the listener that admits the traffic.
    fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<HttpRoute>, Refusal> {
        let listener = gateway::listener(input)?;
        Ok(vec![route(input.placement, &listener)?])
    }

    /// By the entry of that listener in the route's status.
    fn observe(&self, input: &PlacementInput<'_>) -> Verdict {
        // Only by the listener whose address is reported: a route that another one takes leads nowhere from there.
        let live = input.route(&names::traffic_route(&input.placement.name_any(), 0));
        match (live, gateway::listener(input)) {
            (Some(live), Ok(listener)) => verdict(live, &listener),
            (None, _) | (_, Err(_)) => {
                let message = "the route or its Gateway has changed since it was written";
                Verdict::unknown(TRAFFIC_ROUTE_PROVISION, reason::ROUTE_PENDING, message)
            }
        }
    }

    /// A minute after the route was last written, where its Gateway has only judged an older one.
    fn doubt(&self, input: &PlacementInput<'_>) -> Option<Doubt> {
        let route = input.route(&names::traffic_route(&input.placement.name_any(), 0))?;
        let listener = gateway::listener(input).ok()?;
        let (parent, _) = of_gateway(route, &listener)?;
        let generation = route.metadata.generation?;
        let seen = parent.conditions.iter();
        let seen = seen.filter(|condition| [ACCEPTED, RESOLVED_REFS].contains(&&*condition.type_));
        let seen = seen.filter_map(|condition| condition.observed_generation);
        let seen = seen.min().filter(|seen| *seen < generation)?;
        let message = format!(
            "{} accepts HTTPRoute {} as of generation {seen}, and its controller {} has said nothing of generation {generation} for {VERDICT_SECONDS} s: does it run, and what does its log say?",
            gateway_name(&listener),
            route.name_any(),
            parent.controller_name
        );
        Some(Doubt {
            from: doubted(&route.metadata)?,
            verdict: Verdict::unknown(TRAFFIC_ROUTE_PROVISION, reason::ROUTE_PENDING, message),
        })
    }
}

/// The route: the probe's path, and all below the server's own.
fn route(placement: &ServerPlacement, listener: &Listener<'_>) -> Result<HttpRoute, Refusal> {
    let name = placement.name_any();
    let prefix = format!(
        "/cluster/{}/{name}",
        placement.namespace().unwrap_or_default()
    );
    let readiness = readiness_path(placement)?;
    let probe = HttpRouteRules {
        matches: Some(vec![path(
            HttpRouteRulesMatchesPathType::Exact,
            format!("{prefix}/-/ready"),
        )]),
        filters: Some(vec![
            rewrite(HttpRouteRulesFiltersUrlRewritePath {
                r#type: HttpRouteRulesFiltersUrlRewritePathType::ReplaceFullPath,
                replace_full_path: Some(readiness),
                replace_prefix_match: None,
            }),
            named_placement(placement),
        ]),
        backend_refs: Some(vec![service(&name)]),
        ..HttpRouteRules::default()
    };
    let traffic = HttpRouteRules {
        matches: Some(vec![path(
            HttpRouteRulesMatchesPathType::PathPrefix,
            prefix,
        )]),
        filters: Some(vec![rewrite(HttpRouteRulesFiltersUrlRewritePath {
            r#type: HttpRouteRulesFiltersUrlRewritePathType::ReplacePrefixMatch,
            replace_full_path: None,
            replace_prefix_match: Some("/".to_owned()),
        })]),
        backend_refs: Some(vec![service(&name)]),
        ..HttpRouteRules::default()
    };
    Ok(HttpRoute {
        metadata: metadata(placement, names::traffic_route(&name, 0)),
        spec: HttpRouteSpec {
            parent_refs: Some(vec![HttpRouteParentRefs {
                namespace: Some(listener.reference.namespace.clone()),
                name: listener.reference.name.clone(),
                section_name: Some(listener.name.to_owned()),
                ..HttpRouteParentRefs::default()
            }]),
            rules: Some(vec![probe, traffic]),
            ..HttpRouteSpec::default()
        },
        status: None,
    })
}

fn path(kind: HttpRouteRulesMatchesPathType, value: String) -> HttpRouteRulesMatches {
    HttpRouteRulesMatches {
        path: Some(HttpRouteRulesMatchesPath {
            r#type: Some(kind),
            value: Some(value),
        }),
        ..HttpRouteRulesMatches::default()
    }
}

fn rewrite(path: HttpRouteRulesFiltersUrlRewritePath) -> HttpRouteRulesFilters {
    HttpRouteRulesFilters {
        r#type: HttpRouteRulesFiltersType::UrlRewrite,
        url_rewrite: Some(HttpRouteRulesFiltersUrlRewrite {
            hostname: None,
            path: Some(path),
        }),
        ..HttpRouteRulesFilters::default()
    }
}

/// Whose answer it is. A gateway's own error page carries the header too: only a 2xx with it counts.
fn named_placement(placement: &ServerPlacement) -> HttpRouteRulesFilters {
    let server_uid = placement
        .annotations()
        .get(labels::SERVER_UID)
        .cloned()
        .unwrap_or_default();
    HttpRouteRulesFilters {
        r#type: HttpRouteRulesFiltersType::ResponseHeaderModifier,
        response_header_modifier: Some(HttpRouteRulesFiltersResponseHeaderModifier {
            set: Some(vec![HttpRouteRulesFiltersResponseHeaderModifierSet {
                name: labels::PLACEMENT_HEADER.to_owned(),
                value: server_uid,
            }]),
            ..HttpRouteRulesFiltersResponseHeaderModifier::default()
        }),
        ..HttpRouteRulesFilters::default()
    }
}

fn service(name: &str) -> HttpRouteRulesBackendRefs {
    HttpRouteRulesBackendRefs {
        name: name.to_owned(),
        port: Some(SERVICE_PORT),
        ..HttpRouteRulesBackendRefs::default()
    }
}

/// What the gateway says of the route. What it said of an older generation stands while that is yes: a rewrite of our own
/// must not look like a failure, since the gateway serves the older one until it has taken or refused the newer.
fn verdict(route: &HttpRoute, listener: &Listener<'_>) -> Verdict {
    of_gateway(route, listener).map_or_else(
        || {
            let message = format!(
                "HTTPRoute {} waits for {} to accept it: is its controller running?",
                route.name_any(),
                gateway_name(listener)
            );
            Verdict::unknown(TRAFFIC_ROUTE_PROVISION, reason::ROUTE_PENDING, message)
        },
        |(_, verdict)| verdict,
    )
}

fn gateway_name(listener: &Listener<'_>) -> String {
    let reference = listener.reference;
    format!("Gateway {}/{}", reference.namespace, reference.name)
}

/// What the gateway says of the route. Policy controllers add entries of their own for the same parent; the gateway's is the one
/// that accepts.
fn of_gateway<'a>(
    route: &'a HttpRoute,
    listener: &Listener<'_>,
) -> Option<(&'a HttpRouteStatusParents, Verdict)> {
    let parents = route.status.iter().flat_map(|status| &status.parents);
    parents
        .filter(|parent| is_ours(parent, route, listener))
        .filter(|parent| condition(parent, ACCEPTED).is_some())
        .map(|parent| (parent, entry_verdict(parent, route, listener)))
        .max_by_key(|(_, verdict)| verdict.state)
}

fn is_ours(parent: &HttpRouteStatusParents, route: &HttpRoute, listener: &Listener<'_>) -> bool {
    let reference = &parent.parent_ref;
    let namespace = reference
        .namespace
        .as_ref()
        .or(route.metadata.namespace.as_ref());
    let is_gateway = reference
        .kind
        .as_deref()
        .is_none_or(|kind| kind == "Gateway");
    is_gateway
        && namespace == Some(&listener.reference.namespace)
        && reference.name == listener.reference.name
        && reference.section_name.as_deref() == Some(listener.name)
}

fn condition<'a>(parent: &'a HttpRouteStatusParents, kind: &str) -> Option<&'a Condition> {
    parent
        .conditions
        .iter()
        .find(|condition| condition.type_ == kind)
}

fn entry_verdict(
    parent: &HttpRouteStatusParents,
    route: &HttpRoute,
    listener: &Listener<'_>,
) -> Verdict {
    let name = format!("HTTPRoute {}", route.name_any());
    let gateway = gateway_name(listener);
    let generation = route.metadata.generation.unwrap_or_default();
    for (kind, verb) in [
        (ACCEPTED, "does not accept"),
        (RESOLVED_REFS, "can't resolve what is named by"),
    ] {
        let said = condition(parent, kind);
        let is_current = said.is_some_and(|condition| {
            condition
                .observed_generation
                .is_none_or(|seen| seen >= generation)
        });
        match said.map(|condition| (condition.status.as_str(), condition)) {
            Some(("True", _)) => {}
            Some(("False", condition)) if is_current => {
                let message = format!(
                    "{gateway} {verb} {name}: {} ({})",
                    condition.message, condition.reason
                );
                let reason = reason::of_refused_route(kind, &condition.reason);
                return Verdict::no(TRAFFIC_ROUTE_PROVISION, reason, message);
            }
            Some(_) | None => {
                let message = format!(
                    "{name} waits for {gateway}: no {kind} yet for its generation {generation}"
                );
                return Verdict::unknown(TRAFFIC_ROUTE_PROVISION, reason::ROUTE_PENDING, message);
            }
        }
    }
    let message = format!("{gateway} accepts {name}");
    Verdict::yes(TRAFFIC_ROUTE_PROVISION, reason::PROVISIONED, message)
}
