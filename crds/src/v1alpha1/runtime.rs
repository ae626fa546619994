//! What serves the model of an `InferenceServer`.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::environment::ServerVariable;

/// What serves the model.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.profileRevision) || !has(self.updatePolicy) || self.updatePolicy != 'Automatic'").message("profileRevision holds the server at one revision, and updatePolicy Automatic has it follow: set one of the two"))]
pub struct Runtime {
    /// Name of a RuntimeProfile in the hub.
    #[schemars(length(min = 1, max = 63))]
    pub profile: String,

    /// The revision of the profile. When absent, the newest at creation, which later edits of the profile leave as it is. The
    /// profiles of accelerators move with it: to their newest when it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_revision: Option<RevisionNumber>,

    /// Whether edits of the profiles reach the server: Pinned, by hand alone; Automatic, at once, which restarts its replicas.
    #[serde(default, skip_serializing_if = "UpdatePolicy::is_pinned")]
    pub update_policy: UpdatePolicy,

    /// The image. Beats all of the profile's, whatever the accelerator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub image: Option<String>,

    /// Arguments after those of the profile, taken as they stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 2048)))]
    pub args: Vec<String>,

    /// Environment variables. One of the same name beats the profile's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    #[schemars(length(max = 64))]
    pub env: Vec<ServerVariable>,
}

impl Runtime {
    /// A profile as it stands.
    pub fn new(profile: impl Into<String>) -> Self {
        Self {
            profile: profile.into(),
            profile_revision: None,
            update_policy: UpdatePolicy::Pinned,
            image: None,
            args: Vec::new(),
            env: Vec::new(),
        }
    }

    /// The revision that it names. One that is no number, which the API server lets nobody write, is none that there is.
    pub fn revision(&self) -> Option<i64> {
        let RevisionNumber(number) = self.profile_revision.as_ref()?;
        Some(number.parse().unwrap_or(0))
    }
}

/// Whether edits of its profiles reach a server.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdatePolicy {
    /// By hand alone.
    #[default]
    Pinned,
    /// At once.
    Automatic,
}

impl UpdatePolicy {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands over a reference"
    )]
    fn is_pinned(&self) -> bool {
        *self == Self::Pinned
    }
}

/// The number of a revision, from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RevisionNumber(pub String);

impl JsonSchema for RevisionNumber {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RevisionNumber".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "maxLength": 18, "pattern": "^[1-9][0-9]*$"})
    }
}
