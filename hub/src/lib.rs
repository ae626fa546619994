//! The hub: one controller for the inference servers of a whole fleet.
//!
//! In the order in which data flows:
//!
//! * `clock`: what time it is, for all that follows;
//! * [`observe`]: watches of the hub's own API server, as caches, and whom a change wakes;
//! * `revisions`: what the profiles that servers name say, recorded when it changes;
//! * [`session`]: the agents' streams: what each cluster is to hold goes out, what it says comes in;
//! * [`place`]: what each member is to hold of a server, told to its session;
//! * [`resolve`]: the addresses of the DNS names that they said;
//! * [`probe`]: whether endpoints lead to model servers;
//! * [`server`]: one pass over one InferenceServer: snapshot, plan (crate `hub-plan`), steps, report;
//! * [`endpoints`]: where clusters admit traffic, and the Services and EndpointSlices that publish it;
//! * [`routing`]: the discovery HTTPRoutes; [`models`]: which model each cluster serves;
//! * [`apply`]: the plan's objects, written where they differ;
//! * [`report`]: the status of servers and member clusters;
//! * [`metrics`]: what can be counted of all that;
//! * [`enrollment`]: tokens in, certificates out, and the hub's authority;
//! * [`builder`]: what of it a build of one's own may replace, and `leftovers` of what it replaces;
//! * [`contract`]: what such a build has to keep, as tests;
//! * `run`: wires all of it and keeps it going; [`args`]: the only reader of flags and environment.

pub mod apply;
pub mod args;
pub mod builder;
mod clock;
pub mod contract;
pub mod endpoints;
pub mod enrollment;
#[cfg(test)]
mod fake;
mod leftovers;
pub mod metrics;
pub mod models;
pub mod observe;
pub mod place;
pub mod probe;
pub mod report;
pub mod resolve;
mod revisions;
pub mod routing;
mod run;
pub mod server;
pub mod session;

pub use builder::Hub;
