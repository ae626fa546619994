//! Certificates, and connections over loopback.

mod certificates;
mod connections;
mod fleet;
