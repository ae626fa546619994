//! Process 1 of a bed: answers the fleet's holder until that one is gone.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use nix::mount::{MsFlags, mount};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::Mutex;

use super::link;
use super::member::Member;
use super::net::Netns;
use super::relay;
use crate::control::{Answer, Outcome, Request, SOCKET, read_line, write_line};
use crate::hand;

/// Where volumes and roots of Pods live, in the fleet's folder: memory that only the bed sees.
pub(crate) const PODS: &str = "pods";

/// The whole fleet, as its supervisor sees it.
struct Supervisor {
    folder: PathBuf,
    world: Arc<Netns>,
    // A cluster is there once it has started; the lock is held for look-ups only.
    members: Mutex<BTreeMap<usize, Arc<Member>>>,
}

/// Runs the bed in `folder`. Never returns while the holder lives.
pub async fn run(folder: &Path) -> Result<()> {
    end_with_the_holder()?;
    let none = None::<&str>;
    let pods = folder.join(PODS);
    std::fs::create_dir_all(&pods)?;
    mount(Some("tmpfs"), &pods, Some("tmpfs"), MsFlags::empty(), none)
        .context("mount memory for Pods")?;
    let world = Arc::new(Netns::own().await?);
    world.bring_loopback_up().await?;
    world.forward().await?;
    let supervisor = Arc::new(Supervisor {
        folder: folder.to_owned(),
        world,
        members: Mutex::default(),
    });
    let listener =
        UnixListener::bind(folder.join(SOCKET)).context("listen on the control socket")?;
    loop {
        let (stream, _) = listener.accept().await?;
        let supervisor = Arc::clone(&supervisor);
        tokio::spawn(async move {
            if let Err(error) = Box::pin(supervisor.answer(stream)).await {
                tracing::debug!(error = format!("{error:#}"), "a request ended");
            }
        });
    }
}

/// The holder has the other end of standard input. When it ends, for whatever reason, that end closes;
/// process 1 ends, and with it the kernel ends everything in the process namespace.
fn end_with_the_holder() -> Result<()> {
    std::thread::Builder::new()
        .name("holder".to_owned())
        .spawn(|| {
            let mut byte = [0];
            while matches!(std::io::stdin().read(&mut byte), Ok(1)) {}
            #[expect(
                clippy::exit,
                reason = "nothing is left to do, and no task may delay it"
            )]
            std::process::exit(0);
        })?;
    Ok(())
}

impl Supervisor {
    async fn answer(&self, mut stream: UnixStream) -> Result<()> {
        let request = read_line(&mut stream).await?;
        if let Request::Connect { cluster, address } = request {
            return self.connect(stream, cluster, address).await;
        }
        if let Request::HandOver { cluster, address } = request {
            return self.hand_over(stream, cluster, address).await;
        }
        let answer = match Box::pin(self.act(&mut stream, request)).await {
            Ok(outcome) => Answer::Done(outcome),
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "a request failed");
                Answer::Failed(format!("{error:#}"))
            }
        };
        write_line(&mut stream, &answer).await
    }

    async fn act(&self, stream: &mut UnixStream, request: Request) -> Result<Outcome> {
        match request {
            Request::StartCluster(spec) => {
                let number = spec.number;
                let pods = self.folder.join(PODS);
                let member = Box::pin(Member::start(*spec, &self.world, &pods, stream)).await?;
                let access = member.access();
                self.members.lock().await.insert(number, Arc::new(member));
                Ok(Outcome::Started(Box::new(access)))
            }
            Request::ApiServer { cluster, fault } => {
                self.member(cluster)
                    .await?
                    .control_plane
                    .fault(fault)
                    .await?;
                Ok(Outcome::Nothing)
            }
            Request::ControllerManager { cluster, paused } => {
                let member = self.member(cluster).await?;
                member.control_plane.pause_controller_manager(paused)?;
                Ok(Outcome::Nothing)
            }
            Request::DelayApiServer { cluster, delay_ms } => {
                let delay = std::time::Duration::from_millis(delay_ms);
                self.member(cluster).await?.faults.api.delay(delay);
                Ok(Outcome::Nothing)
            }
            Request::Link { cluster, cut } => {
                let (hub, member) = (self.member(0).await?, self.member(cluster).await?);
                link::set(&self.world, &hub, &member, cut).await?;
                Ok(Outcome::Nothing)
            }
            Request::KillPods {
                cluster,
                namespace,
                labels,
            } => Ok(Outcome::Count(
                self.member(cluster).await?.node.kill(&namespace, &labels)?,
            )),
            Request::Connect { .. } | Request::HandOver { .. } => Err(anyhow!(
                "a connection is relayed or handed over, not answered"
            )),
        }
    }

    async fn connect(
        &self,
        mut stream: UnixStream,
        cluster: usize,
        address: SocketAddr,
    ) -> Result<()> {
        if let Some(far) = self.open(&mut stream, cluster, address).await? {
            relay::quick(&far);
            relay::carry(stream, far).await;
        }
        Ok(())
    }

    async fn hand_over(
        &self,
        mut stream: UnixStream,
        cluster: usize,
        address: SocketAddr,
    ) -> Result<()> {
        match self.open(&mut stream, cluster, address).await? {
            Some(far) => hand::over(&stream, &far).await,
            None => Ok(()),
        }
    }

    /// Opens a connection within a cluster, and says whether that came about.
    async fn open(
        &self,
        stream: &mut UnixStream,
        cluster: usize,
        address: SocketAddr,
    ) -> Result<Option<TcpStream>> {
        let far = async { self.member(cluster).await?.netns.connect(address).await };
        let (answer, far) = match far.await {
            Ok(far) => (Answer::Done(Outcome::Nothing), Some(far)),
            Err(error) => (Answer::Failed(format!("{error:#}")), None),
        };
        write_line(stream, &answer).await?;
        Ok(far)
    }

    async fn member(&self, number: usize) -> Result<Arc<Member>> {
        let members = self.members.lock().await;
        members
            .get(&number)
            .map(Arc::clone)
            .with_context(|| format!("cluster {number} has not started"))
    }
}
