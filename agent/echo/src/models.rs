//! The model list, as the agent mounts it. Owns its format; must not load a model.
//!
//! The file is read when it is asked for: a mounted ConfigMap changes under its reader.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The model that is served when no list is named.
const DEFAULT: &str = "echo";

/// Where the models are listed.
#[derive(Clone, Debug)]
pub(crate) struct Models {
    file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct ModelList {
    models: Vec<Model>,
}

/// One model of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Model {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) uri: String,
}

impl Models {
    pub(crate) const fn new(file: Option<PathBuf>) -> Self {
        Self { file }
    }

    /// The models, or why the list can't be read.
    pub(crate) async fn read(&self) -> Result<Vec<Model>, String> {
        let Some(file) = &self.file else {
            return Ok(vec![Model {
                name: DEFAULT.to_owned(),
                uri: String::new(),
            }]);
        };
        let explain =
            |error: &dyn std::fmt::Display| format!("model list {}: {error}", file.display());
        let bytes = tokio::fs::read(file)
            .await
            .map_err(|error| explain(&error))?;
        let list: ModelList = serde_json::from_slice(&bytes).map_err(|error| explain(&error))?;
        Ok(list.models)
    }

    /// The model of this name; `Ok(None)` when the list has none.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<Model>, String> {
        let models = self.read().await?;
        Ok(models.into_iter().find(|model| model.name == name))
    }
}
