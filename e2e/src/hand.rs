//! Open connections, handed over from the supervisor to the fleet's holder.
//!
//! A connection that is relayed to the holder costs a copy in two processes, each way, which a Pod's does not. Whoever is
//! measured beside the product must not pay that: it gets the socket itself.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::control::{Request, ask};

/// A byte that a descriptor travels with: it can't travel alone.
const CARRIER: [u8; 1] = [0];

/// Sends the connection's socket after what was written to `to` before.
pub(crate) async fn over(to: &UnixStream, connection: &TcpStream) -> Result<()> {
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let sockets = [connection.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&sockets));
        sendmsg(
            to,
            &[IoSlice::new(&CARRIER)],
            &mut control,
            SendFlags::empty(),
        )
        .map_err(Into::into)
    };
    to.async_io(Interest::WRITABLE, send)
        .await
        .context("hand a connection over")?;
    Ok(())
}

/// Takes the socket that `over` sent.
async fn take(from: &UnixStream) -> Result<TcpStream> {
    let receive = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut carrier = CARRIER;
        let mut carriers = [IoSliceMut::new(&mut carrier)];
        recvmsg(from, &mut carriers, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let mut socket: Option<OwnedFd> = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut sockets) = message {
                socket = sockets.next();
            }
        }
        Ok(socket)
    };
    let socket = from.async_io(Interest::READABLE, receive).await?;
    let socket = std::net::TcpStream::from(socket.context("no connection was handed over")?);
    socket.set_nonblocking(true)?;
    Ok(TcpStream::from_std(socket)?)
}

/// Opens a connection from within a cluster, whose bytes no other process touches.
pub(crate) async fn connect(
    folder: &Path,
    cluster: usize,
    address: SocketAddr,
) -> Result<TcpStream> {
    let request = Request::HandOver { cluster, address };
    let (stream, _) = ask(folder, &request, |_| {}).await?;
    let connection = take(&stream).await?;
    connection.set_nodelay(true)?;
    Ok(connection)
}
