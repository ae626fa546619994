//! Applies manifests of others as they are, such as the Gateway API's CRDs.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::{conditions, wait};
use kube::{Api, Client, ResourceExt};

/// Who the bed is to server-side apply.
pub(crate) const MANAGER: &str = "bed";

/// Applies every object of every YAML file in `folder`, and waits until its CRDs are served.
pub(crate) async fn install(client: &Client, folder: &Path) -> Result<()> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .with_context(|| format!("read {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    let mut objects: Vec<DynamicObject> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let read: Vec<Option<DynamicObject>> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("read {}", file.display()))?;
        objects.extend(read.into_iter().flatten());
    }
    try_join_all(objects.iter().map(|object| install_one(client, object))).await?;
    Ok(())
}

async fn install_one(client: &Client, object: &DynamicObject) -> Result<()> {
    let name = object.name_any();
    apply_cluster_wide(client, object).await.with_context(|| format!("apply {name}"))?;
    if object.types.as_ref().is_some_and(|types| types.kind == "CustomResourceDefinition") {
        let api = Api::<CustomResourceDefinition>::all(client.clone());
        let served = wait::await_condition(api, &name, conditions::is_crd_established());
        let served = tokio::time::timeout(Duration::from_secs(60), served).await;
        served.with_context(|| format!("CRD {name} isn't served"))??;
    }
    Ok(())
}

/// Server-side applies an object that has no namespace.
async fn apply_cluster_wide(client: &Client, object: &DynamicObject) -> Result<()> {
    let types = object.types.as_ref().context("an object without a kind")?;
    let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
    let params = PatchParams::apply(MANAGER).force();
    api.patch(&object.name_any(), &params, &Patch::Apply(object)).await?;
    Ok(())
}

/// Server-side applies a JSON object in a namespace or, without one, cluster-wide.
pub(crate) async fn apply(client: &Client, object: &serde_json::Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let Some(namespace) = object.namespace() else { return apply_cluster_wide(client, &object).await };
    let types = object.types.as_ref().context("an object without a kind")?;
    let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &kind);
    api.patch(&object.name_any(), &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await?;
    Ok(())
}
