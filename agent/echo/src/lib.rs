//! Echo: a tiny model server for demos and tests. It speaks KServe v2 and the OpenAI API, and says who it is.
//!
//! * [`args`]: the flags, and the Pod that the environment names.
//! * `run`: listens until SIGTERM, then drains.
//! * `drain`: what is in flight.
//! * `routes`: every path, and who answered.
//! * `kserve`, `openai`: the two protocols.
//! * `models`: the model list that the agent mounts.
//!
//! It loads no model and keeps nothing: every answer is made of the request.

pub mod args;
mod drain;
mod kserve;
mod models;
mod openai;
mod routes;
mod run;

pub use drain::Drain;
pub use routes::{POD_UID_HEADER, Server, router};
pub use run::run;
