//! Which Gateways the routes of a server attach to.

use std::collections::BTreeSet;

use crds::v1alpha1::{GatewayReference, InferenceServer, RouteParent};
use gateway_api::httproutes::HttpRouteParentRefs;

use crate::facts::GatewayName;

/// The Gateways that the routes are to attach to: the server's own, or the hub's. Each once, and none by a listener that is
/// named as a whole: the API server refuses a route that names one in both ways (Gateway API, `CommonRouteSpec.parentRefs`).
pub(super) fn parents(
    server: &InferenceServer,
    default: Option<&GatewayReference>,
) -> Vec<HttpRouteParentRefs> {
    let own = &server.spec.routing.parent_refs;
    if own.is_empty() {
        return default
            .map(|gateway| HttpRouteParentRefs {
                namespace: Some(gateway.namespace.clone()),
                name: gateway.name.clone(),
                section_name: gateway.listener.clone(),
                ..HttpRouteParentRefs::default()
            })
            .into_iter()
            .collect();
    }
    let parent = |parent: &RouteParent| HttpRouteParentRefs {
        namespace: parent
            .namespace
            .clone()
            .or_else(|| server.metadata.namespace.clone()),
        name: parent.name.clone(),
        section_name: parent.section_name.clone(),
        ..HttpRouteParentRefs::default()
    };
    distinct(own.iter().map(parent).collect())
}

fn distinct(mut parents: Vec<HttpRouteParentRefs>) -> Vec<HttpRouteParentRefs> {
    let wholes = parents
        .iter()
        .filter(|parent| parent.section_name.is_none());
    let wholes: BTreeSet<_> = wholes.map(gateway_name).collect();
    let mut seen = BTreeSet::new();
    parents.retain(|parent| {
        let gateway = gateway_name(parent);
        (parent.section_name.is_none() || !wholes.contains(&gateway))
            && seen.insert((gateway, parent.section_name.clone()))
    });
    parents
}

/// Can there be a Gateway in such a namespace, with such a listener? Where there can't, the API server refuses a route that
/// names it (Gateway API, `ParentReference`).
pub(super) fn can_be(parent: &HttpRouteParentRefs) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let listener = parent.section_name.as_deref();
    parent.namespace.as_deref().is_none_or(is_label)
        && listener.is_none_or(|name| name.split('.').all(is_label))
}

/// The Gateways that the routes of a server attach to, `default` where it names none.
pub fn gateways(
    server: &InferenceServer,
    default: Option<&GatewayReference>,
) -> BTreeSet<GatewayName> {
    parents(server, default).iter().map(gateway_name).collect()
}

/// Which Gateway a parent is.
pub(super) fn gateway_name(parent: &HttpRouteParentRefs) -> GatewayName {
    (
        parent.namespace.clone().unwrap_or_default(),
        parent.name.clone(),
    )
}
