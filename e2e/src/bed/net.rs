//! Network namespaces and what connects them, by netlink.
//!
//! A network namespace is a property of a thread. Each [`Netns`] therefore owns one thread that
//! stays in it; whatever must be born inside (sockets, processes) is made by that thread.
//! A socket stays in its namespace wherever it is used later.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

use anyhow::{Context, Result, anyhow};
use futures::TryStreamExt;
use nix::sched::{CloneFlags, unshare};
use rtnetlink::packet_route::link::{InfoData, InfoVeth};
use rtnetlink::packet_route::rule::RuleAction;
use rtnetlink::{LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::addresses::Range;

type Job = Box<dyn FnOnce() + Send>;

/// One network namespace. It goes when this value, its sockets and its processes have gone.
pub(crate) struct Netns {
    jobs: mpsc::Sender<Job>,
    file: File,
    netlink: rtnetlink::Handle,
}

impl std::fmt::Debug for Netns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Netns")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Netns {
    /// The namespace that the supervisor itself is in.
    pub(crate) async fn own() -> Result<Self> {
        Self::on_a_thread(CloneFlags::empty()).await
    }

    /// A new, empty namespace; only its loopback device is up.
    pub(crate) async fn create() -> Result<Self> {
        let netns = Self::on_a_thread(CloneFlags::CLONE_NEWNET).await?;
        netns.set_up("lo").await?;
        Ok(netns)
    }

    async fn on_a_thread(flags: CloneFlags) -> Result<Self> {
        // Full means that the thread is busy; whoever wants the next job done waits.
        let (jobs, mut queue) = mpsc::channel::<Job>(16);
        let (made, ready) = oneshot::channel();
        let runtime = Handle::current();
        std::thread::Builder::new()
            .name("netns".to_owned())
            .spawn(move || {
                let _runtime = runtime.enter();
                let start = || -> Result<_> {
                    unshare(flags).context("make a network namespace")?;
                    let file = File::open("/proc/thread-self/ns/net")
                        .context("open the network namespace")?;
                    let (connection, netlink, _) =
                        rtnetlink::new_connection().context("open a netlink socket")?;
                    runtime.spawn(connection);
                    Ok((file, netlink))
                };
                if made.send(start()).is_ok() {
                    while let Some(job) = queue.blocking_recv() {
                        job();
                    }
                }
            })?;
        let (file, netlink) = ready
            .await
            .context("the thread of a network namespace ended")??;
        Ok(Self {
            jobs,
            file,
            netlink,
        })
    }

    /// Runs `job` in the namespace. It must not block for long.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move || {
            // Nobody waits for the result any more: then it isn't needed.
            drop(done.send(job()));
        });
        self.jobs
            .send(job)
            .await
            .map_err(|_gone| anyhow!("the network namespace is gone"))?;
        result.await.context("the network namespace is gone")
    }

    pub(crate) async fn listen(&self, address: SocketAddr) -> Result<TcpListener> {
        self.run(move || {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(1024)
        })
        .await?
        .with_context(|| format!("listen on {address}"))
    }

    pub(crate) async fn connect(&self, address: SocketAddr) -> Result<TcpStream> {
        let socket = self.run(TcpSocket::new_v4).await??;
        socket
            .connect(address)
            .await
            .with_context(|| format!("connect to {address}"))
    }

    pub(crate) async fn spawn(&self, mut command: Command) -> Result<Child> {
        Ok(self.run(move || command.spawn()).await??)
    }

    /// Lets the namespace pass packets on.
    pub(crate) async fn forward(&self) -> Result<()> {
        self.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))
            .await?
            .context("switch on IP forwarding")
    }

    /// A namespace that others made has its loopback device down.
    pub(crate) async fn bring_loopback_up(&self) -> Result<()> {
        self.set_up("lo").await
    }

    async fn index(&self, link: &str) -> Result<u32> {
        let mut links = self
            .netlink
            .link()
            .get()
            .match_name(link.to_owned())
            .execute();
        let found = links
            .try_next()
            .await
            .with_context(|| format!("find link {link}"))?;
        Ok(found
            .with_context(|| format!("no link {link}"))?
            .header
            .index)
    }

    async fn set_up(&self, link: &str) -> Result<()> {
        let index = self.index(link).await?;
        let up = LinkUnspec::new_with_index(index).up().build();
        self.netlink
            .link()
            .change(up)
            .execute()
            .await
            .with_context(|| format!("bring {link} up"))
    }

    /// Connects two namespaces by a pair of Ethernet devices, both up.
    pub(crate) async fn join(&self, link: &str, peer: &Self, peer_link: &str) -> Result<()> {
        let fd: RawFd = peer.file.as_raw_fd();
        let end = LinkMessageBuilder::<LinkUnspec>::new()
            .name(peer_link)
            .setns_by_fd(fd)
            .build();
        let pair = LinkVeth::new(link, peer_link)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(end)))
            .build();
        self.netlink
            .link()
            .add(pair)
            .execute()
            .await
            .with_context(|| format!("add the pair {link}"))?;
        self.set_up(link).await?;
        peer.set_up(peer_link).await
    }

    pub(crate) async fn add_address(
        &self,
        link: &str,
        address: Ipv4Addr,
        prefix: u8,
    ) -> Result<()> {
        let index = self.index(link).await?;
        let add = self
            .netlink
            .address()
            .add(index, IpAddr::V4(address), prefix);
        add.execute()
            .await
            .with_context(|| format!("add {address} to {link}"))
    }

    /// Makes every address of the range this namespace's own. On the loopback device a prefix
    /// counts as local in full.
    pub(crate) async fn own_range(&self, range: Range) -> Result<()> {
        let [a, b, c, d] = range.first.octets();
        self.add_address(
            "lo",
            Ipv4Addr::new(a, b, c, d.saturating_add(1)),
            range.prefix,
        )
        .await
    }

    /// Sends a range out of `link`, to `via` if given, else to whoever answers for it there.
    pub(crate) async fn route(
        &self,
        range: Range,
        link: &str,
        via: Option<Ipv4Addr>,
    ) -> Result<()> {
        let index = self.index(link).await?;
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(range.first, range.prefix)
            .output_interface(index);
        let route = match via {
            Some(via) => route.gateway(via),
            None => route.scope(rtnetlink::packet_route::route::RouteScope::Link),
        };
        let add = self.netlink.route().add(route.build());
        add.execute()
            .await
            .with_context(|| format!("route {range} to {link}"))
    }

    /// Whether what comes in by `link` for the range vanishes: nobody is told, as where a cable is cut.
    pub(crate) async fn discard(&self, link: &str, range: Range, discarded: bool) -> Result<()> {
        let mut add = self
            .netlink
            .rule()
            .add()
            .v4()
            .input_interface(link)
            .destination_prefix(range.first, range.prefix)
            .action(RuleAction::Blackhole);
        let done = if discarded {
            add.execute().await
        } else {
            let rule = add.message_mut().clone();
            self.netlink.rule().del(rule).execute().await
        };
        match done {
            // As wanted already.
            Err(rtnetlink::Error::NetlinkError(error))
                if matches!(error.raw_code().saturating_neg(), EEXIST | ENOENT) =>
            {
                Ok(())
            }
            done => done.with_context(|| format!("discard what {link} brings for {range}")),
        }
    }
}

/// The kernel's words for "it is there" and "it is not".
const EEXIST: i32 = 17;
const ENOENT: i32 = 2;

/// Everything.
pub(crate) const DEFAULT: Range = Range {
    first: Ipv4Addr::UNSPECIFIED,
    prefix: 0,
};

/// One address.
pub(crate) fn host(address: Ipv4Addr) -> Range {
    Range {
        first: address,
        prefix: 32,
    }
}
