//! The hub's end: accepts connections, shows who is at the other end, and serves the [`Fleet`] service over them.
//!
//! A client certificate is optional here, since `Enroll` has none, but one that is shown must be of the authority and name a
//! member cluster. A service that needs one calls [`require_peer`].

mod connection;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tonic::transport::Server;
use tonic::{Request, Status};

pub use self::connection::{Connection, ConnectionInfo};
use super::authority::KeyedCertificate;
use super::identity::PeerIdentity;
use super::{
    ALPN_HTTP2, CONNECTION_WINDOW_BYTES, CertificateError, MESSAGE_BYTES_MAX, STREAM_WINDOW_BYTES,
    TransportError, provider, read_chain, read_key, read_trust,
};
use crate::v1::fleet_server::{Fleet, FleetServer};

/// One session and a call or two beside it.
const STREAMS_PER_CONNECTION_MAX: u32 = 8;
/// A call has a handful of headers.
const HEADER_BYTES_MAX: u32 = 16 << 10;
/// Ends connections whose other end vanished, also those without a session.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Between two tries when the system has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What to show and whom to trust. Clones share it, and [`Self::reload`] is seen by the next connection; those that are up
/// stay.
#[derive(Debug, Clone)]
pub struct ServerTls {
    config: Arc<watch::Sender<Arc<ServerConfig>>>,
}

impl ServerTls {
    /// `trust_pem` are the authorities of client certificates.
    pub fn new(certificate: &KeyedCertificate, trust_pem: &str) -> Result<Self, TransportError> {
        let config = server_config(certificate, trust_pem)?;
        Ok(Self {
            config: Arc::new(watch::Sender::new(config)),
        })
    }

    /// Replaces certificate and trust for the connections to come. An error changes nothing.
    pub fn reload(
        &self,
        certificate: &KeyedCertificate,
        trust_pem: &str,
    ) -> Result<(), TransportError> {
        let config = server_config(certificate, trust_pem)?;
        self.config.send_replace(config);
        Ok(())
    }

    fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config.borrow()))
    }
}

fn server_config(
    certificate: &KeyedCertificate,
    trust_pem: &str,
) -> Result<Arc<ServerConfig>, TransportError> {
    let chain = read_chain("server certificate", &certificate.certificate_pem)?;
    let key = read_key("server key", &certificate.key_pem)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(read_trust(trust_pem)?, provider())
        .allow_unauthenticated()
        .build()?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
    // A resumed session would show no certificate, and outlive a renewed trust.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// Bounds on those who aren't known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Handshakes in progress. Beyond, connections wait in the listener's backlog.
    pub handshakes_max: usize,
    /// How long one handshake may take.
    pub handshake_timeout: Duration,
    /// How long a connection without a client certificate may last.
    pub anonymous_lifetime: Duration,
}

impl Default for Admission {
    /// 256 handshakes (0.3 ms of CPU each) of 10 s, and a minute to enrol.
    fn default() -> Self {
        Self {
            handshakes_max: 256,
            handshake_timeout: Duration::from_secs(10),
            anonymous_lifetime: Duration::from_mins(1),
        }
    }
}

/// Serves `fleet` on `listener` until `shutdown` resolves, and then until its connections are done.
pub async fn serve<F: Fleet>(
    listener: TcpListener,
    tls: ServerTls,
    admission: Admission,
    fleet: F,
    shutdown: impl Future<Output = ()>,
) -> Result<(), TransportError> {
    let service = FleetServer::new(fleet)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    Server::builder()
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .add_service(service)
        .serve_with_incoming_shutdown(connections(listener, tls, admission), shutdown)
        .await
        .map_err(TransportError::Serve)
}

/// Who sent a request. `Unauthenticated` for a connection without a client certificate.
pub fn require_peer<T>(request: &Request<T>) -> Result<&PeerIdentity, Status> {
    let info = request.extensions().get::<ConnectionInfo>();
    info.and_then(|info| info.peer.as_deref())
        .ok_or_else(|| Status::unauthenticated("this call needs a client certificate"))
}

/// Where a request came from, for logs: behind a load balancer it isn't the agent's address. `None` where no connection is.
pub fn remote<T>(request: &Request<T>) -> Option<SocketAddr> {
    let info = request.extensions().get::<ConnectionInfo>();
    info.map(|info| info.remote)
}

/// Connections whose handshake is done, in the order in which they were. Never ends, never fails.
fn connections(
    listener: TcpListener,
    tls: ServerTls,
    admission: Admission,
) -> impl Stream<Item = Result<Connection, Infallible>> {
    let acceptor = Acceptor {
        listener,
        tls,
        admission,
        handshakes: JoinSet::new(),
    };
    futures::stream::unfold(acceptor, async |mut acceptor| {
        let connection = acceptor.next().await;
        Some((Ok(connection), acceptor))
    })
}

struct Acceptor {
    listener: TcpListener,
    tls: ServerTls,
    admission: Admission,
    /// At most `handshakes_max`; then nothing is accepted until one is done.
    handshakes: JoinSet<Option<Connection>>,
}

impl Acceptor {
    async fn next(&mut self) -> Connection {
        loop {
            let room = self.handshakes.len() < self.admission.handshakes_max;
            tokio::select! {
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(connection)) = done {
                        return connection;
                    }
                }
                accepted = self.listener.accept(), if room => match accepted {
                    Ok((stream, remote)) => {
                        let acceptor = self.tls.acceptor();
                        self.handshakes.spawn(shake_hands(acceptor, stream, remote, self.admission));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accepting a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }
}

async fn shake_hands(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    remote: SocketAddr,
    admission: Admission,
) -> Option<Connection> {
    let handshake = async {
        stream.set_nodelay(true)?;
        acceptor.accept(stream).await
    };
    let stream = match tokio::time::timeout(admission.handshake_timeout, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return refuse(remote, &error),
        Err(_elapsed) => return refuse(remote, &io::Error::from(io::ErrorKind::TimedOut)),
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let peer = certificates
        .and_then(|chain| chain.first())
        .map(PeerIdentity::of);
    match peer.transpose() {
        Ok(peer) => Some(Connection::new(
            stream,
            remote,
            peer,
            admission.anonymous_lifetime,
        )),
        Err(error) => refuse(remote, &error),
    }
}

fn refuse(remote: SocketAddr, error: &(impl std::error::Error + ?Sized)) -> Option<Connection> {
    tracing::debug!(%remote, %error, "refused a connection");
    None
}

impl From<CertificateError> for Status {
    /// Only a request that the client made is the client's fault.
    fn from(error: CertificateError) -> Self {
        match error {
            CertificateError::Request(_) => Self::invalid_argument(error.to_string()),
            CertificateError::Read { .. }
            | CertificateError::Identity(_)
            | CertificateError::Name(_)
            | CertificateError::Sign { .. } => Self::internal(error.to_string()),
        }
    }
}
