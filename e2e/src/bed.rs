//! What runs inside the private namespaces: the supervisor of a fleet and all that it starts.
//!
//! [`enter`] makes the namespaces, [`init`] is process 1 in them. It answers the requests of the
//! process that holds the fleet and ends when that process does.

mod addresses;
mod backoff;
mod controlplane;
pub mod enter;
mod fake;
mod gateway;
mod http;
pub mod init;
mod link;
mod manifests;
mod member;
mod net;
mod node;
mod pki;
mod process;
mod relay;
mod services;

pub use http::serve_identity;
pub use node::sandbox::enter_pod;
