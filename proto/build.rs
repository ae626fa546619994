//! Generates the messages and the service from `inferfleet/v1/fleet.proto`, without a `protoc` program.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=inferfleet/v1/fleet.proto");
    let descriptors = protox::compile(["inferfleet/v1/fleet.proto"], ["."])?;
    tonic_prost_build::configure()
        // A payload is encoded once and shared by every session that sends it.
        .bytes(".inferfleet.v1")
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)?;
    Ok(())
}
