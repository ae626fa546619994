//! Facts in, objects and verdicts out.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod given;
mod render;
mod verdicts;
