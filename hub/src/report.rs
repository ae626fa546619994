//! The status of servers and member clusters, and a server's finalizer. One writer each, and never a write that changes
//! nothing.

pub mod events;
pub mod member;

use crds::{
    labels,
    v1alpha1::{InferenceServer, InferenceServerStatus},
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use operator::cache::ObjectKey;
use serde_json::json;

/// A report that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not take it.
    #[error("{operation} of {kind} {key}")]
    Refused {
        /// What was to be written.
        operation: &'static str,
        /// Of which kind of object.
        kind: &'static str,
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
    fn refused(
        operation: &'static str,
        kind: &'static str,
        key: ObjectKey,
        source: kube::Error,
    ) -> Self {
        Self::Refused {
            operation,
            kind,
            key,
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

    /// The error and its cause.
    pub fn sentence(&self) -> String {
        match self {
            Self::Refused { source, .. } => format!("{self}: {source}"),
            Self::Full(_) => self.to_string(),
        }
    }
}

/// Sets or drops the finalizer that is held until every member has confirmed.
///
/// # Errors
/// When the API server does not take it.
pub async fn set_finalizer(
    client: &Client,
    server: &InferenceServer,
    held: bool,
) -> Result<InferenceServer, Error> {
    let finalizers: &[&str] = if held { &[labels::CLEANUP] } else { &[] };
    let document = json!({
        "apiVersion": "inferfleet.io/v1alpha1",
        "kind": "InferenceServer",
        "metadata": {"name": server.name_any(), "uid": server.uid(), "finalizers": finalizers},
    });
    let parameters = PatchParams::apply(labels::HUB).force();
    let written = servers(client, server)
        .patch(&server.name_any(), &parameters, &Patch::Apply(document))
        .await;
    written.map_err(|source| failed("finalizer", server, source))
}

/// Writes the status of a server.
///
/// # Errors
/// When the API server does not take it.
pub async fn server_status(
    client: &Client,
    server: &InferenceServer,
    status: &InferenceServerStatus,
) -> Result<InferenceServer, Error> {
    let patch = json!({"metadata": {"uid": server.uid()}, "status": status});
    let api = servers(client, server);
    let written = api
        .patch_status(
            &server.name_any(),
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await;
    written.map_err(|source| failed("status", server, source))
}

fn servers(client: &Client, server: &InferenceServer) -> Api<InferenceServer> {
    Api::namespaced(client.clone(), &server.namespace().unwrap_or_default())
}

fn failed(operation: &'static str, server: &InferenceServer, source: kube::Error) -> Error {
    Error::refused(operation, "InferenceServer", ObjectKey::of(server), source)
}

/// One log line for each condition whose status changes.
pub fn transitions(
    server: &ObjectKey,
    before: Option<&InferenceServerStatus>,
    after: &InferenceServerStatus,
) {
    let before = before.map_or(&[][..], |status| &status.conditions);
    for condition in events::transitions(before, &after.conditions) {
        let (kind, status, reason) = (&condition.type_, &condition.status, &condition.reason);
        tracing::info!(%server, condition = kind, status, reason, message = condition.message, "condition");
    }
}
