//! The agent: it dials the hub and runs what the hub wants in one member cluster.
//!
//! What the hub wants is kept as a ServerPlacement in the member cluster, and everything else follows from that object
//! alone: a cluster goes on serving, and heals, with the hub away.
//!
//! * [`args`]: the flags. [`Builder`]: what the agent is put together from. `run`: starts its parts in order, and ends with
//!   any of them.
//! * `link`: the session with the hub, and who the agent is in it.
//! * `observe`: the watches; every read of a reconcile comes from them.
//! * `placement`: what the hub says → ServerPlacement objects.
//! * `serving`: one ServerPlacement → facts → `agent_plan` → `apply` → `report`.
//! * `apply`: writes what differs. `report`: what the hub is told.

mod apply;
pub mod args;
mod builder;
mod link;
mod observe;
mod placement;
mod report;
mod run;
mod serving;

pub use builder::{Agent, Builder, SetTwice};

#[cfg(test)]
mod tests;
