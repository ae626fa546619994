//! The status of servers and member clusters, and a server's finalizer. One writer each, and never a write that changes
//! nothing.

pub mod events;
pub mod member;
pub mod pace;

use std::{collections::BTreeMap, fmt::Debug};

use crds::{
    condition::Verdict,
    labels, reason,
    v1alpha1::{InferenceServer, MemberCluster},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use operator::{apply::is_refusal, cache::ObjectKey};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A report that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not take it.
    #[error("{operation} of {kind} {key}")]
    Refused {
        /// What was to be written.
        operation: &'static str,
        /// Of which kind of object.
        kind: String,
        /// Of which object.
        key: ObjectKey,
        /// What the API server said.
        source: Box<kube::Error>,
    },
    /// Too much is to be told to a cluster when it is back.
    #[error(
        "status.released of MemberCluster {0} is full: bring its agent back, or delete the MemberCluster"
    )]
    Full(ObjectKey),
}

impl Error {
    fn refused<K: Written>(operation: &'static str, object: &K, source: kube::Error) -> Self {
        Self::Refused {
            operation,
            kind: K::kind(&()).into_owned(),
            key: ObjectKey::of(object),
            source: Box::new(source),
        }
    }

    fn full(key: ObjectKey) -> Self {
        Self::Full(key)
    }

    /// The object is gone, or another has taken its name: the watch says so, and nothing is left to report on.
    pub fn is_gone(&self) -> bool {
        let Self::Refused { source, .. } = self else {
            return false;
        };
        let kube::Error::Api(status) = source.as_ref() else {
            return false;
        };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let replaced = causes
            .into_iter()
            .any(|cause| cause.field == "metadata.uid");
        status.code == 404 || (matches!(status.code, 409 | 422) && replaced)
    }

    /// What it comes to for a step that depends on what was to be written.
    pub fn verdict(&self, step: &'static str) -> Verdict {
        let is_refused = match self {
            Self::Refused { source, .. } => is_refusal(source),
            Self::Full(_) => true,
        };
        if is_refused {
            return Verdict::no(step, reason::APPLY_REFUSED, self.sentence());
        }
        Verdict::unknown(step, reason::APPLY_FAILED, self.sentence())
    }

    /// The error and its cause.
    pub fn sentence(&self) -> String {
        match self {
            Self::Refused { source, .. } => format!("{self}: {source}"),
            Self::Full(_) => self.to_string(),
        }
    }
}

/// Sets the hub's marks on an object, in place of those that it had: finalizers, and annotations.
///
/// # Errors
/// When the API server does not take it.
pub async fn mark<K: Written>(
    api: &Api<K>,
    object: &K,
    finalizers: &[&str],
    annotations: &BTreeMap<&str, String>,
) -> Result<K, Error> {
    let mut metadata = json!({
        "name": object.name_any(), "uid": object.uid(), "finalizers": finalizers,
    });
    // An empty map would be a field of ours, too.
    if let Some(metadata) = metadata.as_object_mut()
        && !annotations.is_empty()
    {
        metadata.insert("annotations".to_owned(), json!(annotations));
    }
    let document = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": metadata,
    });
    let parameters = PatchParams::apply(labels::HUB).force();
    let written = api
        .patch(&object.name_any(), &parameters, &Patch::Apply(document))
        .await;
    written.map_err(|source| Error::refused("finalizer", object, source))
}

/// Writes a part of an object's status.
///
/// # Errors
/// When the API server does not take it.
pub async fn patch_status<K: Written>(api: &Api<K>, object: &K, patch: &Value) -> Result<K, Error> {
    let parameters = PatchParams::default();
    let written = api
        .patch_status(&object.name_any(), &parameters, &Patch::Merge(patch))
        .await;
    written.map_err(|source| Error::refused("status", object, source))
}

/// The kinds that are reported on.
pub trait Written: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned {}

impl Written for InferenceServer {}
impl Written for MemberCluster {}

/// One log line for each condition of an object whose status changes.
pub fn transitions<K: Written>(object: &K, before: &[Condition], after: &[Condition]) {
    let (of, key) = (K::kind(&()), ObjectKey::of(object));
    for condition in events::transitions(before, after) {
        let (kind, status, reason) = (&condition.type_, &condition.status, &condition.reason);
        tracing::info!(kind = %of, object = %key, condition = kind, status, reason, message = condition.message, "condition");
    }
}
