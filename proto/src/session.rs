//! What hub and agent say to each other, as two machines without IO: time comes in as a [`Duration`](std::time::Duration)
//! since a start of the caller's choice, messages come in and go out one by one.
//!
//! A machine outlives its sessions. It keeps state per key, never a queue of events: what is to be said next is read off
//! that state when the caller can send, so a slow peer costs no memory and always gets the newest value.
//!
//! # Generations
//!
//! The hub numbers the values of a key when it first sends them, and goes on from what the agent says it holds. So a value
//! that was replaced before it was sent has no number, and a hub that restarts with the same wishes changes nothing. Within
//! a session the hub's counter is never below what the agent holds; an acknowledgement beyond it, or two values of one
//! number, are a [`Violation`], and the Hello of the next session puts both right.
//!
//! # Removal
//!
//! * A [`Tombstone`](crate::v1::Tombstone) names a UID. It is repeated in each session until its Removed came in that
//!   session. An agent says Removed only to a tombstone of the same session, once each: so a late answer never takes a
//!   value that was wanted again in between.
//! * A tombstone that this session hasn't sent yet is dropped when its UID is wanted again; a sent one is waited for.
//! * A re-created key (another UID) is a tombstone of the old UID, then the new value. Outside a snapshot the hub waits with
//!   the value until no tombstone of the key is open. Within the snapshot the value follows at once, since a snapshot must
//!   name all that is wanted. Either way the agent gives the new value to its cluster only when the old one is gone.
//! * A complete snapshot names every key and UID that is wanted or to go. What the agent holds and it doesn't name is
//!   [`Absent`](AgentEvent::Absent). A snapshot whose end doesn't fit is a [`Violation`] and removes nothing.
//!
//! # Why both sides converge
//!
//! Each open session sends every key once, and afterwards each key whose value differs from the last one sent. A key waits
//! only for an acknowledgement of what it sent, and the agent owes one for each value and each tombstone; a lost session
//! owes nothing, since the next one starts with all of it.

mod agent;
mod hub;
mod liveness;
mod turns;
mod violation;

#[cfg(test)]
mod tests;

pub use agent::{AgentEvent, AgentInfo, AgentMachine, HASH_MISMATCH, Held, Refusal};
pub use hub::{HubEvent, HubMachine, Rejection};
pub use liveness::Limits;
pub use violation::Violation;

/// What becomes of what a placement runs when it is to go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Removal {
    /// It goes as well.
    #[default]
    Delete,
    /// It is left running, without a sign of its origin.
    Orphan,
}

/// The protocol versions that this build speaks, lowest and highest.
pub const PROTOCOL: (u32, u32) = (1, 1);
