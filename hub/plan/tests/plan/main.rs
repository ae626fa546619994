//! Plan tests: facts in, objects and verdicts out, in milliseconds.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod addresses;
mod cleanup;
mod clusters;
mod conditions;
mod deletion;
mod discovery;
mod drain;
mod endpoints;
mod given;
mod hostnames;
mod isolation;
mod leaving;
mod memory;
mod names;
mod overrides;
mod placements;
mod probe;
mod properties;
mod quiet;
mod ready;
mod refused;
mod revisions;
mod route_first;
mod routes;
mod routing;
mod shown;
mod silence;
mod sources;
mod status;
mod summary;
mod tiers;
mod urgency;
mod verdict;
mod weights;
