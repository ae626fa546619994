//! The model list: which models the runtime is to serve. Read by the runtime from a mounted file.

use std::path::Path;

use crds::{
    names,
    v1alpha1::{ModelPhase, ServerPlacement},
};
use k8s_openapi::api::core::v1::{ConfigMap, ConfigMapVolumeSource, EnvVar, Volume, VolumeMount};
use kube::ResourceExt;
use serde::Serialize;

use crate::{Object, metadata::metadata};

/// The key of the ConfigMap, and so the file's name.
const FILE: &str = "model-list.json";
/// Where the runtime finds it.
const FOLDER: &str = "/etc/inferfleet/models";
/// Tells the runtime the file's path.
const VARIABLE: &str = "INFERFLEET_MODEL_CONFIG";
const VOLUME: &str = "model-config";

#[derive(Serialize)]
struct ModelList<'a> {
    models: [ListedModel<'a>; 1],
}

#[derive(Serialize)]
struct ListedModel<'a> {
    name: &'a str,
    uri: &'a str,
    /// Empty when nothing but the server's own specification brought it.
    deployment: &'a str,
    phase: ModelPhase,
}

/// Name that clients ask for: the server's when the model gives none.
pub(crate) fn model_name(placement: &ServerPlacement) -> Option<String> {
    let model = placement.spec.model.as_ref()?;
    Some(model.name.clone().unwrap_or_else(|| placement.name_any()))
}

/// The ConfigMap, when there is a model.
pub(crate) fn objects(placement: &ServerPlacement) -> Option<Object> {
    let model = placement.spec.model.as_ref()?;
    let name = model_name(placement)?;
    let list = ModelList {
        models: [ListedModel {
            name: &name,
            uri: &model.uri,
            deployment: model.deployment.as_deref().unwrap_or_default(),
            phase: model.phase,
        }],
    };
    // Strings alone: this always is JSON.
    let text = serde_json::to_string(&list).ok()?;
    Some(Object::ConfigMap(ConfigMap {
        metadata: metadata(placement, names::model_config(&placement.name_any())),
        data: Some([(FILE.to_owned(), text)].into()),
        ..ConfigMap::default()
    }))
}

/// How a container finds the list: a variable, its mount, and the Pod's volume. `None` without a model.
pub fn mount(placement: &ServerPlacement) -> Option<(EnvVar, VolumeMount, Volume)> {
    placement.spec.model.as_ref()?;
    let variable = EnvVar {
        name: VARIABLE.to_owned(),
        value: Some(Path::new(FOLDER).join(FILE).display().to_string()),
        ..EnvVar::default()
    };
    let mount = VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: FOLDER.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    };
    let volume = Volume {
        name: VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: names::model_config(&placement.name_any()),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    Some((variable, mount, volume))
}
