//! Ports of this machine's loopback that lead into a cluster: how a person's own tools get in.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use tokio::net::{TcpListener, UnixStream};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::control::{Request, ask};

/// A loopback port that leads to an address in a cluster, until this value is dropped.
#[derive(Debug)]
pub struct Forward {
    address: SocketAddr,
    task: AbortHandle,
}

impl Forward {
    /// Where to connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn start(runtime: &Handle, folder: PathBuf, cluster: usize, to: SocketAddr) -> Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        // On the fleet's runtime: the caller's may end before the fleet does, as a test's does.
        let serve = async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            loop {
                let Ok((mut near, _)) = listener.accept().await else {
                    crate::clock::pause_between_looks().await;
                    continue;
                };
                let folder = folder.clone();
                tokio::spawn(async move {
                    // A failure closes the connection, which is all a TCP client can be told.
                    if let Ok(mut far) = connect(&folder, cluster, to).await {
                        drop(near.set_nodelay(true));
                        drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
                    }
                });
            }
        };
        let task = runtime.spawn(serve).abort_handle();
        Ok(Self { address, task })
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Opens a TCP connection to an address, from within a cluster.
pub(crate) async fn connect(folder: &std::path::Path, cluster: usize, address: SocketAddr) -> Result<UnixStream> {
    let (stream, _) = ask(folder, &Request::Connect { cluster, address }, |_| {}).await?;
    Ok(stream)
}
