//! Facts in, objects and verdicts out.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod backend;
mod gateway;
mod given;
mod metadata;
mod model_config;
mod render;
mod route;
mod substitution;
mod verdicts;
