//! Facts in, objects and verdicts out.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod backend;
mod contract;
mod drivers;
mod endpoint;
mod gateway;
mod given;
mod health;
mod metadata;
mod model_config;
mod render;
mod roll_out;
mod route;
mod substitution;
mod verdicts;
