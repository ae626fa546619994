//! The test bed: fleets of real control planes on one Linux machine.
//!
//! The module list is the way a fleet comes up. [`programs`] finds or builds what runs, [`Fleet`] is
//! what a test or the demo holds, `control` is what it says to the supervisor, and [`bed`] is that
//! supervisor: a process of its own in private namespaces, which ends with everything in it when
//! the holder of the [`Fleet`] ends, however that happens.

pub mod audit;
pub mod bed;
pub mod bench;
pub mod clock;
mod cluster;
mod control;
pub mod demo;
mod fleet;
mod folder;
mod forward;
mod hand;
pub mod installed;
pub mod programs;
pub mod wait;

pub use cluster::Cluster;
pub use control::{Cut, ImageProgram};
pub use fleet::{Fleet, FleetBuilder};
pub use forward::Forward;
pub use installed::Installed;
pub use programs::{Product, Programs};

/// Has the process use aws-lc-rs for TLS. Any number of times.
pub fn install_crypto() {
    // An error means that one is installed already.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
}
