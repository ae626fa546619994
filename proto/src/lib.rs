//! The session between hub and agents: messages, sans-IO machines, and their transport.
//!
//! * [`v1`]: the messages and the service, generated from `inferfleet/v1/fleet.proto`.
//! * [`identifiers`]: what the messages name, parsed.
//! * [`session`]: what both sides say to each other, without IO and without a clock.
//! * [`transport`]: certificates, TLS, and how a connection is made and accepted.
//!
//! This crate knows nothing of Kubernetes, nor of what a placement's body means.

pub mod identifiers;
pub mod session;
pub mod transport;

pub use identifiers::{Hash, PlacementKey, SessionId};

/// The messages and the service, as generated.
#[expect(
    clippy::pedantic,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::as_conversions,
    clippy::clone_on_ref_ptr,
    clippy::derive_partial_eq_without_eq,
    unused_qualifications,
    reason = "generated code"
)]
pub mod v1 {
    tonic::include_proto!("inferfleet.v1");
}
