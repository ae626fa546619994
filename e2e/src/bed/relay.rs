//! Plain TCP relays: bytes from one connection to another, and what can befall them on the way.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Result, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::addresses::Range;
use super::net::Netns;

/// What is read at once. Many such pieces are under way while bytes are delayed.
const PIECE: usize = 16 << 10;

/// What befalls the connections of a relay, those that are open as well.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    delay: Arc<watch::Sender<Duration>>,
    refused: Arc<watch::Sender<Vec<Range>>>,
}

impl Faults {
    /// Has each byte arrive so much later.
    pub(crate) fn delay(&self, delay: Duration) {
        self.delay.send_replace(delay);
    }

    /// Whether connections from that range are reset.
    pub(crate) fn refuse(&self, range: Range, refused: bool) {
        self.refused.send_modify(|ranges| {
            ranges.retain(|other| *other != range);
            ranges.extend(refused.then_some(range));
        });
    }

    /// Returns once connections from that address are to be reset.
    async fn refused(&self, peer: IpAddr) {
        let IpAddr::V4(peer) = peer else {
            return std::future::pending().await;
        };
        let mut refused = self.refused.subscribe();
        // The sender is this value's own.
        drop(
            refused
                .wait_for(|ranges| ranges.iter().any(|range| range.contains(peer)))
                .await,
        );
    }
}

/// Carries bytes both ways until both ends have finished.
pub(crate) async fn carry(
    mut near: impl AsyncRead + AsyncWrite + Unpin,
    mut far: impl AsyncRead + AsyncWrite + Unpin,
) {
    // A broken connection is the peers' affair: both notice.
    drop(copy_bidirectional(&mut near, &mut far).await);
}

/// Accepts for ever; each connection goes to the address that `pick` names at that moment, from
/// within `netns`. With no address, or when nobody listens there, the connection is closed.
pub(crate) async fn serve(
    listener: TcpListener,
    netns: Arc<Netns>,
    pick: impl Fn() -> Option<SocketAddr> + Send + Sync,
    faults: Faults,
) {
    loop {
        let (near, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accept");
                crate::clock::pause_between_looks().await;
                continue;
            }
        };
        let Some(address) = pick() else { continue };
        let (netns, faults) = (Arc::clone(&netns), faults.clone());
        // As many tasks as there are connections; the kernel's backlog bounds the rest.
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = faults.refused(peer.ip()) => reset(&near),
                far = netns.connect(address) => match far {
                    Ok(far) => relay(near, far, peer.ip(), &faults).await,
                    Err(error) => tracing::debug!(%address, %error, "relay"),
                },
            }
        });
    }
}

async fn relay(mut near: TcpStream, mut far: TcpStream, peer: IpAddr, faults: &Faults) {
    quick(&near);
    quick(&far);
    let (near_read, near_write) = near.split();
    let (far_read, far_write) = far.split();
    let delay = || faults.delay.subscribe();
    let carry = async {
        let there = carry_late(near_read, far_write, delay());
        let back = carry_late(far_read, near_write, delay());
        // A broken connection is the peers' affair: both notice.
        drop(tokio::try_join!(there, back));
    };
    let is_reset = tokio::select! {
        () = carry => false,
        () = faults.refused(peer) => true,
    };
    if is_reset {
        reset(&near);
        reset(&far);
    }
}

/// Carries bytes one way until their end. Each leaves when its delay is over, and none overtakes another.
async fn carry_late(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: watch::Receiver<Duration>,
) -> Result<()> {
    // When it is full, whoever sends waits, as on any long line.
    let (under_way, mut arriving) = mpsc::channel::<(Instant, Vec<u8>)>(64);
    let read = async move {
        let mut bytes = vec![0; PIECE];
        loop {
            let count = from.read(&mut bytes).await?;
            let due = Instant::from_std(crate::clock::monotonic()) + *delay.borrow();
            let piece = bytes.get(..count).unwrap_or_default().to_vec();
            if under_way.send((due, piece)).await.is_err() || count == 0 {
                return Ok(());
            }
        }
    };
    let write = async move {
        while let Some((due, piece)) = arriving.recv().await {
            sleep_until(due).await;
            to.write_all(&piece).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(read, write)?;
    Ok(())
}

/// Has the connection end by a reset when it is dropped.
fn reset(stream: &TcpStream) {
    // A connection that has ended already needs none.
    drop(stream.set_zero_linger());
}

/// No waiting for more bytes: what is relayed is mostly small requests.
pub(crate) fn quick(stream: &TcpStream) {
    // Only a speed-up.
    drop(stream.set_nodelay(true));
}
