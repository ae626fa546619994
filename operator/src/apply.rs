//! Writes: server-side apply and deletion, each with a precondition. Decides nothing.

#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions,
        PropagationPolicy,
    },
};

use serde_json::json;

use crate::{
    cache::ObjectKey,
    ownership::{APPLIED_HASH, Desired, controller, is_applied_by, is_orphan},
};

/// A write that did not come about.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not take an object.
    #[error("apply {kind} {key}")]
    Apply {
        /// The object's kind.
        kind: String,
        /// The object's name.
        key: ObjectKey,
        /// What the API server said.
        source: kube::Error,
    },
    /// An object of that name is not ours.
    #[error("{kind} {key} exists and belongs to {owner}")]
    NameConflict {
        /// The object's kind.
        kind: String,
        /// The object's name.
        key: ObjectKey,
        /// Who owns it, in words.
        owner: String,
    },
    /// The API server did not delete an object.
    #[error("delete {kind} {key}")]
    Delete {
        /// The object's kind.
        kind: String,
        /// The object's name.
        key: ObjectKey,
        /// What the API server said.
        source: kube::Error,
    },
}

/// When an operation that failed is worth another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Later: the cause passes by itself.
    Later,
    /// When something changes: the same request will be refused again.
    OnChange,
}

impl Error {
    /// When to try again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Apply { source, .. } | Self::Delete { source, .. } if !is_refusal(source) => {
                Retry::Later
            }
            Self::Apply { .. } | Self::Delete { .. } | Self::NameConflict { .. } => Retry::OnChange,
        }
    }

    /// The object that was to be written, or deleted.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Apply { key, .. } | Self::NameConflict { key, .. } | Self::Delete { key, .. } => {
                key
            }
        }
    }

    /// The API server's HTTP code, if it answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Apply {
                source: kube::Error::Api(status),
                ..
            }
            | Self::Delete {
                source: kube::Error::Api(status),
                ..
            } => Some(status.code),
            Self::Apply { .. } | Self::Delete { .. } | Self::NameConflict { .. } => None,
        }
    }

    /// The error and its cause, in one line.
    pub fn sentence(&self) -> String {
        match self {
            Self::Apply {
                source: kube::Error::Api(status),
                ..
            }
            | Self::Delete {
                source: kube::Error::Api(status),
                ..
            } => format!("{self}: {}", status.message),
            Self::Apply { source, .. } | Self::Delete { source, .. } => format!("{self}: {source}"),
            Self::NameConflict { .. } => self.to_string(),
        }
    }
}

/// Does the API server refuse a request for good? A conflict passes: gone, changed or replaced meanwhile; the watch may have said
/// so before this plan failed.
pub fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 403 | 404 | 422))
}

/// Applies an object as `manager`. `live` is what the cache holds of it.
///
/// A new object carries `resourceVersion: "1"`, which the API server creates or answers with 409: it never merges us
/// into another's object. Then one read tells whether the object is ours after all, unseen by our watch because
/// somebody took its label.
///
/// # Errors
/// [`Error::NameConflict`] when somebody else owns it, else [`Error::Apply`].
pub async fn apply(
    client: &Client,
    manager: &str,
    desired: &Desired,
    live: Option<&ObjectMeta>,
) -> Result<DynamicObject, Error> {
    let api = api(client, &desired.resource, &desired.key);
    let kind = desired.resource.kind.clone();
    let failed = |source| Error::Apply {
        kind: kind.clone(),
        key: desired.key.clone(),
        source,
    };
    let write = async |document: serde_json::Value| {
        let parameters = PatchParams::apply(manager).force();
        api.patch(&desired.key.name, &parameters, &Patch::Apply(document))
            .await
    };
    if let Some(live) = live {
        owned(desired, live, manager)?;
        let uid = live.uid.as_deref().unwrap_or_default();
        return write(desired.document("uid", uid)).await.map_err(failed);
    }
    match write(desired.document("resourceVersion", "1")).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let live = api.get_metadata(&desired.key.name).await.map_err(failed)?;
            owned(desired, &live.metadata, manager)?;
            write(desired.document("uid", &live.uid().unwrap_or_default()))
                .await
                .map_err(failed)
        }
        result => result.map_err(failed),
    }
}

/// Applies an object in place of the live one, which can't become it: a field that never changes differs. What another hand has
/// changed since the cache saw it is not deleted.
///
/// # Errors
/// As [`apply`], and [`Error::Delete`] when the live object was not deleted.
pub async fn replace(
    client: &Client,
    manager: &str,
    desired: &Desired,
    live: &ObjectMeta,
) -> Result<DynamicObject, Error> {
    owned(desired, live, manager)?;
    let preconditions = Preconditions {
        uid: live.uid.clone(),
        resource_version: live.resource_version.clone(),
    };
    let propagation = PropagationPolicy::Background;
    let (resource, key) = (&desired.resource, &desired.key);
    delete_if(client, resource, key, preconditions, propagation).await?;
    apply(client, manager, desired, None).await
}

/// Is the live object the desired one's? Decided by the controller's UID. One that nobody controls is adopted if `manager` has
/// applied it; an object that is to have no controller is known by that alone.
#[expect(
    clippy::result_large_err,
    reason = "kube's error is large, and a failed write is rare"
)]
fn owned(desired: &Desired, live: &ObjectMeta, manager: &str) -> Result<(), Error> {
    let owner = controller(live);
    let ours = match &desired.owner {
        Some(uid) => owner.is_some_and(|owner| owner.uid == *uid) || is_orphan(live, manager),
        None => owner.is_none() && is_applied_by(live, manager),
    };
    if ours {
        return Ok(());
    }
    let owner = owner.map_or_else(
        || "somebody who set no controller".to_owned(),
        |owner| format!("{} {} ({})", owner.kind, owner.name, owner.uid),
    );
    Err(Error::NameConflict {
        kind: desired.resource.kind.clone(),
        key: desired.key.clone(),
        owner,
    })
}

/// Deletes the object of that name and UID. One that is gone counts as deleted. A conflict does not: whether the object was
/// replaced or only changed, the watch says.
///
/// # Errors
/// [`Error::Delete`] when the API server refuses or can't be reached.
pub async fn delete(
    client: &Client,
    resource: &ApiResource,
    key: &ObjectKey,
    uid: &str,
    propagation: PropagationPolicy,
) -> Result<(), Error> {
    let preconditions = Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    };
    delete_if(client, resource, key, preconditions, propagation).await
}

async fn delete_if(
    client: &Client,
    resource: &ApiResource,
    key: &ObjectKey,
    preconditions: Preconditions,
    propagation: PropagationPolicy,
) -> Result<(), Error> {
    let parameters = DeleteParams {
        preconditions: Some(preconditions),
        propagation_policy: Some(propagation),
        ..DeleteParams::default()
    };
    match api(client, resource, key)
        .delete(&key.name, &parameters)
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(source) => Err(Error::Delete {
            kind: resource.kind.clone(),
            key: key.clone(),
            source,
        }),
    }
}

/// Takes our marks from an object: the owner reference of that UID, the label by which our watches find it, and the hash
/// of what we applied. What it says stays. One that is gone, or replaced by another UID, needs nothing.
///
/// # Errors
/// [`Error::Apply`] when the API server refuses or can't be reached.
pub async fn disown(
    client: &Client,
    resource: &ApiResource,
    live: &ObjectMeta,
    owner: &str,
    label: &str,
) -> Result<(), Error> {
    let key = ObjectKey::new(
        live.namespace.clone().unwrap_or_default(),
        live.name.clone().unwrap_or_default(),
    );
    let owners: Vec<_> = live
        .owner_references
        .iter()
        .flatten()
        .filter(|reference| reference.uid != owner)
        .collect();
    let patch = json!({"metadata": {
        "uid": live.uid,
        "ownerReferences": owners,
        "labels": {label: null},
        "annotations": {APPLIED_HASH: null},
    }});
    let parameters = PatchParams::default();
    match api(client, resource, &key)
        .patch(&key.name, &parameters, &Patch::Merge(patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(source) => Err(Error::Apply {
            kind: resource.kind.clone(),
            key,
            source,
        }),
    }
}

fn api(client: &Client, resource: &ApiResource, key: &ObjectKey) -> Api<DynamicObject> {
    if key.namespace.is_empty() {
        Api::all_with(client.clone(), resource)
    } else {
        Api::namespaced_with(client.clone(), &key.namespace, resource)
    }
}
