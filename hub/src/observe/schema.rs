//! Which HTTPRoutes the hub's API server knows, and what they can say: read from their CustomResourceDefinition, and picked up
//! when it appears or changes.

use std::sync::Arc;

use futures::StreamExt;
use hub_plan::facts::RouteSchema;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::{
    Api,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};

use super::{Caches, Wakeups};

/// Name of the CustomResourceDefinition.
const HTTP_ROUTES: &str = "httproutes.gateway.networking.k8s.io";
/// The version of HTTPRoutes that is spoken.
const VERSION: &str = "v1";

/// Keeps what is known of HTTPRoutes right, until it is dropped.
pub(super) async fn follow(
    api: Api<CustomResourceDefinition>,
    caches: Caches,
    wakeups: Arc<Wakeups>,
) {
    let config = watcher::Config::default().fields(&format!("metadata.name={HTTP_ROUTES}"));
    let events = watcher::watcher(api, config).default_backoff();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(definition) | Event::InitApply(definition)) => {
                learn(&caches, &wakeups, schema(&definition));
                // Both kinds come with the same installation.
                caches.routes.look_again();
                caches.gateways.look_again();
            }
            // Where there is none, HTTPRoutes say nothing; one that went missing says what it said.
            Ok(Event::InitDone) => {
                let known = *caches.route_schema.borrow();
                learn(&caches, &wakeups, known.unwrap_or_default());
            }
            Ok(Event::Init | Event::Delete(_)) => {}
            Err(error) => tracing::warn!(%error, "watch of HTTPRoutes' definition interrupted"),
        }
    }
}

fn learn(caches: &Caches, wakeups: &Wakeups, schema: RouteSchema) {
    let changed = caches
        .route_schema
        .send_if_modified(|known| known.replace(schema) != Some(schema));
    if changed {
        wakeups.wake_all(&caches.servers);
    }
}

/// What HTTPRoutes of that definition can say.
fn schema(definition: &CustomResourceDefinition) -> RouteSchema {
    let mut versions = definition.spec.versions.iter();
    let version = versions.find(|version| version.name == VERSION);
    let root = version.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
    let rule = root
        .and_then(|root| property(root, "spec"))
        .and_then(|spec| property(spec, "rules"))
        .and_then(|rules| match rules.items.as_ref()? {
            JSONSchemaPropsOrArray::Schema(rule) => Some(&**rule),
            JSONSchemaPropsOrArray::Schemas(_) => None,
        });
    RouteSchema {
        timeouts: rule.is_some_and(|rule| property(rule, "timeouts").is_some()),
    }
}

fn property<'a>(of: &'a JSONSchemaProps, name: &str) -> Option<&'a JSONSchemaProps> {
    of.properties.as_ref()?.get(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_rule(version: &str, fields: &[&str]) -> RouteSchema {
        let fields: serde_json::Map<_, _> = fields
            .iter()
            .map(|field| ((*field).to_owned(), json!({"type": "object"})))
            .collect();
        let definition = json!({
            "metadata": {"name": HTTP_ROUTES},
            "spec": {
                "group": "gateway.networking.k8s.io",
                "names": {"kind": "HTTPRoute", "plural": "httproutes"},
                "scope": "Namespaced",
                "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {"rules": {
                        "type": "array", "items": {"type": "object", "properties": fields},
                    }}}},
                }}}],
            },
        });
        schema(&serde_json::from_value(definition).unwrap())
    }

    #[test]
    fn a_field_is_known_that_the_definition_of_v1_has() {
        assert!(with_rule("v1", &["matches", "timeouts"]).timeouts);
        assert!(!with_rule("v1", &["matches"]).timeouts);
        assert!(!with_rule("v1beta1", &["timeouts"]).timeouts);
    }
}
