//! How a connection between agent and hub is made, and who is at its other end.
//!
//! * [`authority`]: the hub's certificate authority.
//! * [`identity`]: who a certificate names; the agent's own key.
//! * [`server`]: the hub's end of a connection.
//! * [`client`]: the agent's end.
//!
//! TLS 1.3 by aws-lc-rs and nothing else; sessions are never resumed, so that every connection shows its certificate. Owns
//! no policy: who may enrol, what was revoked and which session is the live one is the hub's to say.

pub mod authority;
pub mod client;
pub mod identity;
pub mod server;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The largest message that either side takes or sends: 4 MiB.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// HTTP/2 flow control of one connection. h2 ends a connection whose reader leaves too many small frames unread, and its
/// budget for them is half of this window (h2 0.4.19, RUSTSEC-2026-0258): a session writes small messages, so it is large.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// HTTP/2 flow control of one stream: one message of the largest size.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// The one protocol that is spoken over TLS.
const ALPN_HTTP2: &[u8] = b"h2";

/// Why a certificate, key or request can't be made or used. Trying again with the same input fails again.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// Text that isn't what it is said to be.
    #[error("reading the {what}: {reason}")]
    Read {
        /// Which input.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate request that isn't signed for.
    #[error("refused the certificate request: {0}")]
    Request(&'static str),
    /// A certificate that names no member cluster.
    #[error("the certificate names no member cluster: {0}")]
    Identity(&'static str),
    /// A name that can't stand in a certificate.
    #[error("{0:?} can't stand in a certificate")]
    Name(String),
    /// Generating a key or signing failed.
    #[error("signing the {what}: {source}")]
    Sign {
        /// What was to be made.
        what: &'static str,
        /// Why it wasn't.
        source: rcgen::Error,
    },
}

/// Why a connection can't be made or served.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// A certificate, key or trust bundle.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// TLS doesn't take the certificate or key.
    #[error("setting TLS up: {0}")]
    Tls(#[from] rustls::Error),
    /// The trust bundle can't be used to verify client certificates.
    #[error("setting up the verification of clients: {0}")]
    Trust(#[from] rustls::server::VerifierBuilderError),
    /// The hub's address isn't `host:port`.
    #[error("{0:?} is no host:port")]
    Address(String),
    /// No connection to the hub.
    #[error("dialing {address}: {}", causes(source))]
    Dial {
        /// Where to.
        address: String,
        /// Why not.
        source: tonic::transport::Error,
    },
    /// The server stopped by itself.
    #[error("serving: {}", causes(.0))]
    Serve(tonic::transport::Error),
}

/// tonic says "transport error" and keeps the reason in its sources.
fn causes(error: &tonic::transport::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Reads a chain of at least one certificate, PEM.
fn read_chain(
    what: &'static str,
    pem: &str,
) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let failed = |reason: String| CertificateError::Read { what, reason };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| failed(error.to_string()))?;
    if chain.is_empty() {
        return Err(failed("no certificate in it".to_owned()));
    }
    Ok(chain)
}

fn read_key(what: &'static str, pem: &str) -> Result<PrivateKeyDer<'static>, CertificateError> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| CertificateError::Read {
        what,
        reason: error.to_string(),
    })
}

/// Reads the authorities to trust: one, or two while one replaces the other.
fn read_trust(pem: &str) -> Result<Arc<RootCertStore>, CertificateError> {
    const WHAT: &str = "trusted authorities";
    let mut roots = RootCertStore::empty();
    for certificate in read_chain(WHAT, pem)? {
        roots
            .add(certificate)
            .map_err(|error| CertificateError::Read {
                what: WHAT,
                reason: error.to_string(),
            })?;
    }
    Ok(Arc::new(roots))
}
