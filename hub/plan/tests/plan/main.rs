//! Plan tests: facts in, objects and verdicts out, in milliseconds.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod conditions;
mod deletion;
mod drain;
mod endpoints;
mod given;
mod leaving;
mod placements;
mod routes;
mod shown;
mod silence;
mod status;
mod tiers;
