//! What hub and agent both stand on, and that knows nothing of inference.
//!
//! A component watches ([`cache`]), is woken by what changed ([`wake`]), plans elsewhere, takes the steps of the plan
//! ([`conditions`], of the plugin that [`registrar`] finds), writes what differs ([`apply`] by the rules of [`ownership`]), and
//! can be looked at ([`telemetry`], [`admin`]).

pub mod admin;
pub mod apply;
pub mod args;
pub mod cache;
pub mod client;
pub mod conditions;
pub mod ownership;
pub mod registrar;
pub mod telemetry;
pub mod wake;
