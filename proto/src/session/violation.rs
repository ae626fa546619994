//! What the other side must not do. Each one ends the session; the next one's Hello puts both sides right.

use crate::identifiers::{Malformed, PlacementKey, SessionId};

/// A message that the protocol forbids here. It changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The stream belongs to a session that a newer one replaced, or that was closed.
    #[error("session {0} is over")]
    Fenced(SessionId),
    /// The message carries another session's id.
    #[error("a message of session {got} came in session {session}")]
    Foreign {
        /// The session of the stream.
        session: SessionId,
        /// What the message says.
        got: u64,
    },
    /// No session is open on this side.
    #[error("no session is open")]
    NoSession,
    /// A message of this kind can't come at this point.
    #[error("{0} is out of place")]
    Unexpected(&'static str),
    /// A field can't be read.
    #[error("malformed: {0}")]
    Malformed(#[from] Malformed),
    /// The hub speaks a version that this side didn't offer.
    #[error("protocol version {0} was not offered")]
    Version(u32),
    /// The hub's heartbeat and silence make no sense.
    #[error("a heartbeat of {heartbeat_ms} ms and a silence of {silence_ms} ms do not fit")]
    Limits {
        /// As the Welcome says.
        heartbeat_ms: u32,
        /// As the Welcome says.
        silence_ms: u32,
    },
    /// An acknowledgement of a value that was never sent.
    #[error("generation {generation} of {key} was acknowledged, but {sent} is the last one sent")]
    Unsent {
        /// Whose acknowledgement.
        key: PlacementKey,
        /// What it names.
        generation: u64,
        /// The highest that was sent or held.
        sent: u64,
    },
    /// Two values with the same generation.
    #[error("generation {generation} of {key} came with another value than before")]
    Conflict {
        /// Whose value.
        key: PlacementKey,
        /// The generation of both.
        generation: u64,
    },
    /// The end of a snapshot doesn't fit what came before it.
    #[error("snapshot {id} ended with count {count}, but snapshot {open:?} has {counted}")]
    Incomplete {
        /// As the end says.
        id: u64,
        /// As the end says.
        count: u32,
        /// The snapshot that is open, if any.
        open: Option<u64>,
        /// What came in it.
        counted: u32,
    },
}
