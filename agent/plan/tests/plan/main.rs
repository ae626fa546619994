//! Facts in, objects and verdicts out.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod accelerator;
mod backend;
mod contract;
mod drivers;
mod endpoint;
mod gateway;
mod given;
mod health;
mod intents;
mod metadata;
mod model_config;
mod profiles;
mod render;
mod roll_out;
mod route;
mod substitution;
mod verdicts;
