//! The bare client's objects: copies of the product's own, so that both write the same.
//!
//! Its InferenceServers and ServerPlacements are of an API group of their own, with the product's schema, and its other
//! objects carry another's label: neither hub nor agents see them.

use anyhow::{Context, Result};
use crds::labels;
use futures::future::try_join_all;
use gateway_api::httproutes::HttpRoute;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::fields::owned;
use super::watched::DEADLINE;

const GROUP: &str = "bare.inferfleet.io";
/// The bare client, as a field manager and in the label that the product's watches look at.
pub(super) const MANAGER: &str = "bench";

/// Its name where it stands for the hub beside a user: an apply drops what its manager applied before and now leaves out.
const SECOND_MANAGER: &str = "bench-hub";

/// The copy of InferenceServer.
pub(super) fn servers() -> ApiResource {
    custom(GROUP, "InferenceServer", "inferenceservers")
}

fn custom(group: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: format!("{group}/v1alpha1"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Adds the copies of both kinds to a cluster.
pub(super) async fn install(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for plural in ["inferenceservers", "serverplacements"] {
        let product = definitions.get(&format!("{plural}.inferfleet.io")).await?;
        let mut spec = product.spec;
        GROUP.clone_into(&mut spec.group);
        spec.names.short_names = None;
        spec.names.categories = None;
        let name = format!("{plural}.{GROUP}");
        let copy = CustomResourceDefinition {
            metadata: kube::api::ObjectMeta {
                name: Some(name.clone()),
                ..kube::api::ObjectMeta::default()
            },
            spec,
            status: None,
        };
        definitions.create(&PostParams::default(), &copy).await?;
        let established =
            await_condition(definitions.clone(), &name, conditions::is_crd_established());
        tokio::time::timeout(DEADLINE, established).await??;
    }
    Ok(())
}

/// One object as its component writes it. The name of the server and of the namespace it is of stand in it as they are.
#[derive(Clone, Debug)]
pub(super) struct Object {
    resource: ApiResource,
    manager: &'static str,
    /// As in audit logs.
    pub(super) plural: String,
    pub(super) name: String,
    body: String,
}

impl Object {
    /// The same for another namespace and server. All names have one length, so that the objects have one size.
    pub(super) fn of(&self, from: &Server<'_>, to: &Server<'_>) -> Self {
        let renamed = |text: &str| {
            text.replace(from.namespace, to.namespace)
                .replace(from.name, to.name)
        };
        Self {
            name: renamed(&self.name),
            body: renamed(&self.body),
            ..self.clone()
        }
    }

    /// The object with a change in it.
    pub(super) fn with(&self, change: impl FnOnce(&mut Value)) -> Result<Self> {
        let mut body = serde_json::from_str(&self.body)?;
        change(&mut body);
        Ok(Self {
            body: body.to_string(),
            ..self.clone()
        })
    }

    /// Writes it by server-side apply, as the product does.
    pub(super) async fn apply(&self, client: &Client, namespace: &str) -> Result<()> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), namespace, &self.resource);
        let body: Value = serde_json::from_str(&self.body)?;
        let parameters = PatchParams::apply(self.manager).force();
        let written = api
            .patch(&self.name, &parameters, &Patch::Apply(body))
            .await;
        written.with_context(|| format!("apply {} {}", self.plural, self.name))?;
        Ok(())
    }

    /// Writes its status by a merge patch, as the hub does.
    pub(super) async fn patch_status(
        &self,
        client: &Client,
        namespace: &str,
        status: &Value,
    ) -> Result<()> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), namespace, &self.resource);
        let patch = Patch::Merge(json!({"status": status}));
        let written = api
            .patch_status(&self.name, &PatchParams::default(), &patch)
            .await;
        written.with_context(|| format!("status of {} {}", self.plural, self.name))?;
        Ok(())
    }
}

/// A member's objects in the product's order, those of one stage at once: the placement, what others name, those.
pub(super) fn stages(objects: &[Object]) -> [impl Iterator<Item = &Object>; 3] {
    let stage = |object: &&Object| match object.plural.as_str() {
        "serverplacements" => 0,
        "deployments" | "httproutes" => 2,
        _ => 1,
    };
    [0, 1, 2].map(|of| objects.iter().filter(move |object| stage(object) == of))
}

/// Whose objects they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Server<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// All that the product writes for one server.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    /// What the user applies.
    pub(super) server: Object,
    /// The server with the finalizer alone, as the hub applies it.
    pub(super) finalizer: Object,
    /// The status that the hub last wrote.
    pub(super) status: Value,
    /// The hub's objects, in the order in which it writes them.
    pub(super) hub: Vec<Object>,
    /// Each member's, in the same way.
    pub(super) members: Vec<Vec<Object>>,
}

impl Copies {
    /// Copies what is there of a server of the product.
    pub(super) async fn take(hub: &Client, members: &[Client], of: Server<'_>) -> Result<Self> {
        let product = custom("inferfleet.io", "InferenceServer", "inferenceservers");
        let found: Api<DynamicObject> = Api::namespaced_with(hub.clone(), of.namespace, &product);
        let found = serde_json::to_value(found.get(of.name).await?)?;
        let written = |by| {
            let body = body(&found, by, &servers());
            body.with_context(|| format!("{by} did not apply the server"))
        };
        let (server, finalizer) = (written(MANAGER)?, written(labels::HUB)?);
        let object = |manager, body: Value| Object {
            resource: servers(),
            manager,
            plural: "inferenceservers".to_owned(),
            name: of.name.to_owned(),
            body: body.to_string(),
        };
        let hub_kinds = [
            ApiResource::erase::<Service>(&()),
            ApiResource::erase::<EndpointSlice>(&()),
            ApiResource::erase::<HttpRoute>(&()),
        ];
        let member_kinds = [
            custom("inferfleet.io", "ServerPlacement", "serverplacements"),
            ApiResource::erase::<ConfigMap>(&()),
            ApiResource::erase::<ServiceAccount>(&()),
            ApiResource::erase::<Deployment>(&()),
            ApiResource::erase::<Service>(&()),
            ApiResource::erase::<HttpRoute>(&()),
        ];
        let members = members
            .iter()
            .map(|member| objects(member, labels::AGENT, &member_kinds, of));
        Ok(Self {
            server: object(MANAGER, server),
            finalizer: object(SECOND_MANAGER, finalizer),
            status: found.get("status").cloned().unwrap_or_default(),
            hub: objects(hub, labels::HUB, &hub_kinds, of).await?,
            members: try_join_all(members).await?,
        })
    }

    /// The same for another namespace and server.
    pub(super) fn of(&self, from: &Server<'_>, to: &Server<'_>) -> Self {
        let all =
            |objects: &Vec<Object>| objects.iter().map(|object| object.of(from, to)).collect();
        Self {
            server: self.server.of(from, to),
            finalizer: self.finalizer.of(from, to),
            status: self.status.clone(),
            hub: all(&self.hub),
            members: self.members.iter().map(all).collect(),
        }
    }
}

/// The objects of some kinds that a component applied for a server: each name begins with the server's.
async fn objects(
    client: &Client,
    manager: &str,
    kinds: &[ApiResource],
    of: Server<'_>,
) -> Result<Vec<Object>> {
    let mut objects = Vec::new();
    for kind in kinds {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), of.namespace, kind);
        let mut copy = kind.clone();
        if kind.group == "inferfleet.io" {
            copy = custom(GROUP, &kind.kind, &kind.plural);
        }
        for found in api.list(&ListParams::default()).await? {
            let name = found.metadata.name.clone().unwrap_or_default();
            if !name.starts_with(of.name) {
                continue;
            }
            if let Some(body) = body(&serde_json::to_value(found)?, manager, &copy) {
                objects.push(Object {
                    resource: copy.clone(),
                    manager: MANAGER,
                    plural: copy.plural.clone(),
                    name,
                    body: body.to_string(),
                });
            }
        }
    }
    Ok(objects)
}

/// What `manager` applied of an object, as an object of `kind` that is nobody's.
fn body(found: &Value, manager: &str, kind: &ApiResource) -> Option<Value> {
    let metadata = found.get("metadata")?;
    let entries = metadata.get("managedFields")?.as_array()?;
    let entry = entries.iter().find(|entry| {
        entry.get("manager").and_then(Value::as_str) == Some(manager)
            && entry.get("operation").and_then(Value::as_str) == Some("Apply")
            && entry.get("subresource").is_none()
    })?;
    let mut body = owned(found, entry.get("fieldsV1")?);
    let fields = body.as_object_mut()?;
    fields.insert("apiVersion".to_owned(), kind.api_version.clone().into());
    fields.insert("kind".to_owned(), kind.kind.clone().into());
    let kept = fields.entry("metadata").or_insert_with(|| json!({}));
    let kept = kept.as_object_mut()?;
    for key in ["name", "namespace"] {
        kept.insert(
            key.to_owned(),
            metadata.get(key).cloned().unwrap_or_default(),
        );
    }
    // The copy has no owner: the product's would have it collected.
    kept.remove("ownerReferences");
    if let Some(label) = kept
        .get_mut("labels")
        .and_then(|labels| labels.get_mut(labels::MANAGED_BY))
    {
        *label = MANAGER.into();
    }
    Some(body)
}
