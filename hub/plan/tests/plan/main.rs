//! Plan tests: facts in, objects and verdicts out, in milliseconds.

mod conditions;
mod deletion;
mod endpoints;
mod given;
mod placements;
mod routes;
mod status;
