//! The status of servers and member clusters, and a server's finalizer. One writer each, and never a write that changes
//! nothing.

use crds::{
    condition::{self, CONNECTED, JOINED, Verdict},
    labels, reason,
    v1alpha1::{InferenceServer, InferenceServerStatus, MemberCluster, MemberClusterStatus},
};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use operator::{
    cache::{Cache, ObjectKey},
    wake::Next,
};
use serde_json::json;

use crate::{observe::Wakeups, place::Placer};

/// A report that was not taken.
#[derive(Debug, thiserror::Error)]
#[error("{operation} of {kind} {key}")]
pub struct Error {
    operation: &'static str,
    kind: &'static str,
    key: ObjectKey,
    source: Box<kube::Error>,
}

impl Error {
    /// The object is gone, or another has taken its name: the watch says so, and nothing is left to report on.
    pub fn is_gone(&self) -> bool {
        let kube::Error::Api(status) = self.source.as_ref() else {
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
        format!("{self}: {}", self.source)
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
    Error {
        operation,
        kind: "InferenceServer",
        key: ObjectKey::of(server),
        source: Box::new(source),
    }
}

/// One log line for each condition whose status changes.
pub fn transitions(
    server: &ObjectKey,
    before: Option<&InferenceServerStatus>,
    after: &InferenceServerStatus,
) {
    let before = before
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    for condition in &after.conditions {
        let same = |other: &&_| {
            let other: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition = other;
            other.type_ == condition.type_ && other.status == condition.status
        };
        if before.iter().find(same).is_none() {
            let (kind, status, reason) = (&condition.type_, &condition.status, &condition.reason);
            tracing::info!(%server, condition = kind, status, reason, message = condition.message, "condition");
        }
    }
}

/// One pass over one MemberCluster: admits or dismisses it, and writes its status.
#[expect(
    clippy::disallowed_methods,
    reason = "transition times are read at the edge"
)]
pub async fn member(
    client: Client,
    members: Cache<MemberCluster>,
    placer: &Placer,
    wakeups: &Wakeups,
    name: String,
) -> Next {
    let member = placer.member(&name);
    let Some(record) = members.get(&ObjectKey::new("", &name)) else {
        return Next::Rest;
    };
    let previous = record.status.clone().unwrap_or_default();
    let servers = u32::try_from(wakeups.targeting(&name).len()).unwrap_or(u32::MAX);
    let session = member.map(|member| {
        let state = member.lock();
        (
            state.session.is_some(),
            state.agent_version.clone(),
            state.kubernetes_version.clone(),
        )
    });
    let generation = record.metadata.generation.unwrap_or_default();
    let status = member_status(
        previous.clone(),
        session,
        servers,
        generation,
        Timestamp::now(),
    );
    if status == previous {
        return Next::Rest;
    }
    // The enrollment is another's to write: a copy of it here could undo a newer one.
    let written = MemberClusterStatus {
        enrollment: None,
        ..status
    };
    let patch = json!({"metadata": {"uid": record.uid()}, "status": written});
    let api: Api<MemberCluster> = Api::all(client);
    match api
        .patch_status(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await
    {
        Ok(written) => {
            members.note(written);
            // Joined or not is a fact of every plan that targets it.
            wakeups.wake_targeting(&name);
            Next::Rest
        }
        Err(source) => {
            let key = ObjectKey::new("", name);
            let error = Error {
                operation: "status",
                kind: "MemberCluster",
                key,
                source: Box::new(source),
            };
            if error.is_gone() {
                return Next::Rest;
            }
            tracing::warn!(error = error.sentence(), "will try again");
            Next::Retry
        }
    }
}

/// The status of a member: is it in, and is it heard. What the enrollment wrote stays.
fn member_status(
    previous: MemberClusterStatus,
    session: Option<(bool, String, String)>,
    servers: u32,
    generation: i64,
    now: Timestamp,
) -> MemberClusterStatus {
    let joined = match &previous.enrollment {
        Some(enrollment) => {
            let message = format!("cluster {} enrolled", enrollment.cluster_uid);
            Verdict::yes(JOINED, reason::ENROLLED, message)
        }
        None => Verdict::no(
            JOINED,
            reason::CLUSTER_NOT_JOINED,
            "no agent has enrolled with its join token",
        ),
    };
    let (live, agent, kubernetes) = session.unwrap_or_default();
    let connected = if live {
        Verdict::yes(
            CONNECTED,
            reason::SESSION_OPEN,
            "its agent has a live session",
        )
    } else {
        Verdict::no(
            CONNECTED,
            reason::CLUSTER_NOT_CONNECTED,
            "its agent has no session",
        )
    };
    // A hub that has just started does not know the versions: what the last one wrote stands.
    let known = |new: String, old: String| if new.is_empty() { old } else { new };
    MemberClusterStatus {
        servers,
        agent_version: known(agent, previous.agent_version),
        kubernetes_version: known(kubernetes, previous.kubernetes_version),
        conditions: condition::merge(&previous.conditions, &[joined, connected], generation, now),
        enrollment: previous.enrollment,
    }
}
