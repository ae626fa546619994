//! Plan tests: facts in, objects and verdicts out, in milliseconds.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod addresses;
mod clusters;
mod conditions;
mod deletion;
mod discovery;
mod endpoints;
mod given;
mod memory;
mod placements;
mod properties;
mod ready;
mod routes;
mod status;
mod summary;
mod verdict;
mod weights;
