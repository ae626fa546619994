//! The agent's end: dials the hub, verifies it against the pinned authority, and shows the agent's certificate if it has one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use super::authority::KeyedCertificate;
use super::{
    ALPN_HTTP2, CONNECTION_WINDOW_BYTES, MESSAGE_BYTES_MAX, STREAM_WINDOW_BYTES, TransportError,
    provider, read_chain, read_key, read_trust,
};
use crate::v1::fleet_client::FleetClient;

/// From the first packet to the end of the handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Dials one hub. Clones share the identity.
#[derive(Debug, Clone)]
pub struct Dialer {
    address: String,
    endpoint: Endpoint,
    server_name: ServerName<'static>,
    trust: Arc<RootCertStore>,
    identity: Arc<watch::Sender<Option<Identity>>>,
}

impl Dialer {
    /// `address` is `host:port`, IPv6 in brackets. The hub's certificate must have `server_name` as a name, whatever the
    /// address, and be of one of the authorities in `trust_pem`. Shows no client certificate until [`Self::present`].
    pub fn new(address: &str, server_name: &str, trust_pem: &str) -> Result<Self, TransportError> {
        let failed = || TransportError::Address(address.to_owned());
        // The scheme is what keeps tonic from a TLS of its own: the connector below speaks it.
        let uri: Uri = format!("http://{address}")
            .parse()
            .map_err(|_error| failed())?;
        let (Some(host), Some(port)) = (uri.host(), uri.port_u16()) else {
            return Err(failed());
        };
        // Neither a user nor a path, and a host.
        if host.is_empty() || format!("{host}:{port}") != address {
            return Err(failed());
        }
        let server_name = ServerName::try_from(server_name.to_owned())
            .map_err(|_error| TransportError::Address(server_name.to_owned()))?;
        let endpoint = Endpoint::from(uri)
            .connect_timeout(CONNECT_TIMEOUT)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES);
        Ok(Self {
            address: address.to_owned(),
            endpoint,
            server_name,
            trust: read_trust(trust_pem)?,
            identity: Arc::new(watch::Sender::new(None)),
        })
    }

    /// Shows this certificate from the next connection on. An error changes nothing.
    pub fn present(&self, certificate: &KeyedCertificate) -> Result<(), TransportError> {
        let identity = Identity {
            chain: read_chain("client certificate", &certificate.certificate_pem)?,
            key: read_key("client key", &certificate.key_pem)?,
        };
        // Finds a key that isn't the certificate's now, not at the next connection.
        client_config(&self.trust, Some(&identity))?;
        self.identity.send_replace(Some(identity));
        Ok(())
    }

    /// Connects. Should the connection end, a later call on the client dials again by the same rules.
    pub async fn dial(&self) -> Result<FleetClient<Channel>, TransportError> {
        let dialer = self.clone();
        let connector = tower::service_fn(move |_uri: Uri| {
            let dialer = dialer.clone();
            async move { dialer.connect().await.map(TokioIo::new) }
        });
        let channel = self.endpoint.connect_with_connector(connector).await;
        let channel = channel.map_err(|source| TransportError::Dial {
            address: self.address.clone(),
            source,
        })?;
        Ok(FleetClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX))
    }

    async fn connect(&self) -> io::Result<TlsStream<TcpStream>> {
        let config = client_config(&self.trust, self.identity.borrow().as_ref());
        let config = config.map_err(io::Error::other)?;
        let stream = TcpStream::connect(self.address.as_str()).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(Arc::new(config))
            .connect(self.server_name.clone(), stream)
            .await
    }
}

fn client_config(
    trust: &Arc<RootCertStore>,
    identity: Option<&Identity>,
) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(Arc::clone(trust));
    let mut config = match identity {
        Some(Identity { chain, key }) => {
            builder.with_client_auth_cert(chain.clone(), key.clone_key())?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}
