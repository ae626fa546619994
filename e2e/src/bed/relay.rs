//! Plain TCP relays: bytes from one connection to another.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::net::Netns;

/// Carries bytes both ways until both ends have finished.
pub(crate) async fn carry(mut near: impl AsyncRead + AsyncWrite + Unpin, mut far: impl AsyncRead + AsyncWrite + Unpin) {
    // A broken connection is the peers' affair: both notice.
    drop(copy_bidirectional(&mut near, &mut far).await);
}

/// Accepts for ever; each connection goes to the address that `pick` names at that moment, from
/// within `netns`. With no address, or when nobody listens there, the connection is closed.
pub(crate) async fn serve(
    listener: TcpListener,
    netns: Arc<Netns>,
    pick: impl Fn() -> Option<SocketAddr> + Send + Sync,
) {
    loop {
        let near = match listener.accept().await {
            Ok((near, _)) => near,
            Err(error) => {
                tracing::warn!(%error, "accept");
                crate::clock::pause_between_looks().await;
                continue;
            }
        };
        let Some(address) = pick() else { continue };
        let netns = Arc::clone(&netns);
        // As many tasks as there are connections; the kernel's backlog bounds the rest.
        tokio::spawn(async move {
            match netns.connect(address).await {
                Ok(far) => {
                    quick(&near);
                    quick(&far);
                    carry(near, far).await;
                }
                Err(error) => tracing::debug!(%address, %error, "relay"),
            }
        });
    }
}

/// No waiting for more bytes: what is relayed is mostly small requests.
pub(crate) fn quick(stream: &TcpStream) {
    // Only a speed-up.
    drop(stream.set_nodelay(true));
}
