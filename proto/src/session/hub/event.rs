//! What the hub's machine gives back.

use bytes::Bytes;

use crate::identifiers::{Malformed, PlacementKey};
use crate::v1;
use crate::v1::hub_message::Body;
use crate::v1::{HubMessage, RejectReason};

/// What an agent said, for the caller to act on.
#[derive(Debug, Clone, PartialEq)]
pub enum HubEvent {
    /// The agent holds this value in memory.
    Received {
        /// Whose value.
        key: PlacementKey,
        /// Which of its values.
        generation: u64,
    },
    /// The member's API server holds this value.
    Applied {
        /// Whose value.
        key: PlacementKey,
        /// Which of its values.
        generation: u64,
    },
    /// The agent can't apply this value as things are; it may still say Applied later.
    Refused {
        /// Whose value.
        key: PlacementKey,
        /// Why, with the generation.
        refusal: v1::Refused,
    },
    /// Nothing of this key and UID is left in the member cluster, and it isn't wanted again.
    Removed {
        /// Which key.
        key: PlacementKey,
        /// Of which `InferenceServer`.
        uid: String,
    },
    /// How a placement is.
    Placement {
        /// Which one.
        key: PlacementKey,
        /// As it is now, whole.
        report: v1::PlacementReport,
    },
    /// Where the cluster admits traffic for a placement.
    Endpoint {
        /// Which one.
        key: PlacementKey,
        /// As it is now, whole.
        report: v1::EndpointReport,
    },
    /// Every placement that the agent holds has been reported in this session.
    ReportsComplete,
    /// The agent asks for a new certificate: answer by [`HubMachine::certificate`](super::HubMachine::certificate).
    Renew {
        /// A PKCS#10 request, DER.
        certificate_request: Bytes,
    },
}

/// Why a Hello opens no session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// No protocol version in common.
    #[error("the hub speaks protocol {ours:?}, the agent {theirs:?} (lowest, highest)")]
    Version {
        /// Lowest and highest of this build.
        ours: (u32, u32),
        /// Lowest and highest of the agent.
        theirs: (u32, u32),
    },
    /// The Hello can't be read.
    #[error("malformed Hello: {0}")]
    Malformed(#[from] Malformed),
}

impl Rejection {
    /// The answer to the agent.
    pub fn message(&self) -> HubMessage {
        let reason = match self {
            Self::Version { .. } => RejectReason::Version,
            Self::Malformed(_) => RejectReason::Malformed,
        };
        HubMessage {
            session: 0,
            body: Some(Body::Reject(v1::Reject {
                reason: reason.into(),
                message: self.to_string(),
                retry_after_ms: 0,
            })),
        }
    }
}
