//! Both machines against each other, and each against a peer that breaks the rules.

mod convergence;
mod decoding;
mod faults;
mod generations;
mod keeping;
mod liveness;
mod removal;
mod reports;
mod wire;
