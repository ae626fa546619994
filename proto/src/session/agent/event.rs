//! What the agent's machine is given and what it gives back.

use std::time::Duration;

use bytes::Bytes;

use super::slot::HASH_MISMATCH;
use crate::identifiers::{Hash, PlacementKey, SessionId};
use crate::session::{PROTOCOL, Removal};
use crate::v1;

/// A placement that exists in the cluster when the agent starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Which one.
    pub key: PlacementKey,
    /// UID of the `InferenceServer`, in the hub.
    pub uid: String,
    /// Which of its values.
    pub generation: u64,
    /// The hash of that value's body.
    pub hash: Hash,
}

/// Who the agent is, for its Hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInfo {
    /// The agent's own version.
    pub agent_version: String,
    /// The version of the member's API server.
    pub kubernetes_version: String,
    /// UID of the `kube-system` namespace of the member cluster.
    pub cluster_uid: String,
}

impl AgentInfo {
    pub(super) fn hello(&self, held: Vec<v1::Held>) -> v1::Hello {
        let (protocol_min, protocol_max) = PROTOCOL;
        let Self {
            agent_version,
            kubernetes_version,
            cluster_uid,
        } = self.clone();
        v1::Hello {
            protocol_min,
            protocol_max,
            agent_version,
            kubernetes_version,
            cluster_uid,
            held,
        }
    }
}

/// Why a value can't be applied as things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// `CamelCase`, as in a condition.
    pub reason: String,
    /// The field at fault, as a path into the body; empty when no field is.
    pub field: String,
    /// A sentence for a person.
    pub message: String,
}

impl Refusal {
    pub(super) fn hash_mismatch() -> Self {
        Self {
            reason: HASH_MISMATCH.to_owned(),
            field: String::new(),
            message: "The body is not the one that its hash names.".to_owned(),
        }
    }
}

/// What the hub said, for the caller to act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEvent {
    /// The session is open.
    Welcomed {
        /// Its id.
        session: SessionId,
        /// The hub's own version.
        hub_version: String,
    },
    /// The hub ends the session, or opens none: disconnect.
    Rejected {
        /// Why.
        reason: v1::RejectReason,
        /// A sentence for a person.
        message: String,
        /// When to try again; `None`: by the agent's own back-off.
        retry_after: Option<Duration>,
    },
    /// Apply this, then say applied or refused. Comes again for the same value in each session: what it says is checked
    /// against the cluster, and nothing is written when nothing differs.
    Desired {
        /// Which placement.
        key: PlacementKey,
        /// UID of the `InferenceServer`, in the hub.
        uid: String,
        /// Grows with each change of the key's value.
        generation: u64,
        /// The hash of the body, verified.
        hash: Hash,
        /// The JSON of `ServerPlacement.spec`.
        body: Bytes,
    },
    /// Remove this, by name, then say removed. Comes again when it is to go another way.
    Tombstone {
        /// Which placement.
        key: PlacementKey,
        /// Only of this UID.
        uid: String,
        /// With what it runs, or without.
        removal: Removal,
    },
    /// Remove this, because a complete snapshot doesn't name it, then say removed.
    Absent {
        /// Which placement.
        key: PlacementKey,
        /// Only of this UID.
        uid: String,
    },
    /// A new client certificate, for the request that was made last.
    Certificate {
        /// The certificate and its chain, PEM.
        certificate_pem: String,
    },
}

impl AgentEvent {
    pub(super) fn rejected(reject: v1::Reject) -> Self {
        let reason = reject.reason();
        let retry_after = (reject.retry_after_ms > 0)
            .then(|| Duration::from_millis(reject.retry_after_ms.into()));
        Self::Rejected {
            reason,
            message: reject.message,
            retry_after,
        }
    }
}
