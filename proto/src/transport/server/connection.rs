//! One accepted connection, and who is at its other end.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::transport::identity::PeerIdentity;

/// What a request knows of its connection: an extension of each request.
#[derive(Debug, Clone)]
pub struct ConnectionInfo {
    /// Where it came from.
    pub(super) remote: SocketAddr,
    /// By the client certificate that TLS verified.
    pub(super) peer: Option<Arc<PeerIdentity>>,
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct Connection {
    stream: TlsStream<TcpStream>,
    info: ConnectionInfo,
    /// When a connection without a client certificate ends.
    ends: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    pub(super) fn new(
        stream: TlsStream<TcpStream>,
        remote: SocketAddr,
        peer: Option<PeerIdentity>,
        anonymous_lifetime: Duration,
    ) -> Self {
        let ends = peer
            .is_none()
            .then(|| Box::pin(tokio::time::sleep(anonymous_lifetime)));
        Self {
            stream,
            info: ConnectionInfo {
                remote,
                peer: peer.map(Arc::new),
            },
            ends,
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        self.info.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let over = self
            .ends
            .as_mut()
            .is_some_and(|ends| ends.as_mut().poll(context).is_ready());
        if over {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
