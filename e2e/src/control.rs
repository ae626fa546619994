//! What the holder of a fleet and its supervisor say to each other.
//!
//! Each request is a connection of its own to the supervisor's Unix socket: one line of JSON, answered
//! by lines of JSON of which the last is `Done` or `Failed`. After the `Done` of a `Connect` the
//! connection carries the bytes of that TCP connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// The supervisor's socket in a fleet's folder.
pub(crate) const SOCKET: &str = "bed.sock";

/// Longest line: anything longer isn't ours.
const LONGEST_LINE: u64 = 4 << 20;

/// A program that stands for a container image on process nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageProgram {
    /// The program on this machine.
    pub path: PathBuf,
    /// The image's entry point after the program: arguments before those of the Pod.
    pub args: Vec<String>,
}

/// What a cluster is to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ClusterSpec {
    /// Its number in the fleet; the hub is 0.
    pub(crate) number: usize,
    pub(crate) name: String,
    /// Where its logs, certificates and data go. It exists.
    pub(crate) folder: PathBuf,
    /// Foreign programs by name.
    pub(crate) programs: BTreeMap<String, PathBuf>,
    /// Folder of the Gateway API's and Contour's CRDs and kwok's stages.
    pub(crate) manifests: PathBuf,
    /// Programs by image, without its tag.
    pub(crate) images: BTreeMap<String, ImageProgram>,
    pub(crate) audit: bool,
    pub(crate) gateway: bool,
    pub(crate) fake_nodes: usize,
    /// Further resources of each fake node, such as `nvidia.com/gpu`.
    pub(crate) fake_capacity: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ApiServerFault {
    Stop,
    Start,
    Pause,
    Resume,
}

/// How the link between a member and the hub is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cut {
    /// What the member sends to the hub vanishes, and nobody is told.
    ToHub,
    /// What the hub sends to the member vanishes, and nobody is told.
    FromHub,
    /// Both vanish.
    BothWays,
    /// Connections to the hub are reset, and so are new ones.
    Loudly,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    StartCluster(Box<ClusterSpec>),
    Connect {
        cluster: usize,
        address: SocketAddr,
    },
    /// As `Connect`; after the `Done` comes the connection's own socket.
    HandOver {
        cluster: usize,
        address: SocketAddr,
    },
    ApiServer {
        cluster: usize,
        fault: ApiServerFault,
    },
    /// Freezes a cluster's controller manager, or lets it go on.
    ControllerManager {
        cluster: usize,
        paused: bool,
    },
    /// How much later each byte between Pods and the API server arrives.
    DelayApiServer {
        cluster: usize,
        delay_ms: u64,
    },
    /// Cuts a member's link to the hub, or restores it.
    Link {
        cluster: usize,
        cut: Option<Cut>,
    },
    /// Kills the processes of Pods by labels (all must match); answers how many.
    KillPods {
        cluster: usize,
        namespace: String,
        labels: BTreeMap<String, String>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// A step that a person may want to see.
    Progress(String),
    Done(Outcome),
    Failed(String),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Nothing,
    Count(usize),
    Started(Box<Access>),
}

/// What one needs to speak to a cluster's API server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Access {
    pub(crate) api: SocketAddr,
    /// The Service `kubernetes`: where Pods find the API server.
    pub(crate) api_service: SocketAddr,
    pub(crate) ca_pem: String,
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: String,
    pub(crate) gateway: SocketAddr,
    pub(crate) addresses: AddressRanges,
}

/// A cluster's ranges, as a person writes them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AddressRanges {
    pub(crate) pods: String,
    pub(crate) services: String,
}

pub(crate) async fn write_line<T: Serialize>(
    stream: &mut (impl AsyncWriteExt + Unpin),
    value: &T,
) -> Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(stream.write_all(&line).await?)
}

/// Reads one line, and not a byte more: what follows belongs to the relayed connection.
pub(crate) async fn read_line<T: serde::de::DeserializeOwned>(
    stream: &mut UnixStream,
) -> Result<T> {
    let mut line = Vec::new();
    // One byte of buffer: whatever is read past the line would be lost.
    let mut limited = BufReader::with_capacity(1, (&mut *stream).take(LONGEST_LINE));
    limited.read_until(b'\n', &mut line).await?;
    if line.last() != Some(&b'\n') {
        bail!("the other end hung up");
    }
    serde_json::from_slice(&line).context("read a line of the control socket")
}

/// Asks the supervisor and waits for its last word; `progress` hears the words before.
pub(crate) async fn ask(
    folder: &Path,
    request: &Request,
    mut progress: impl FnMut(&str),
) -> Result<(UnixStream, Outcome)> {
    let mut stream = UnixStream::connect(folder.join(SOCKET))
        .await
        .context("the fleet's supervisor is gone")?;
    write_line(&mut stream, request).await?;
    loop {
        match read_line(&mut stream).await? {
            Answer::Progress(step) => progress(&step),
            Answer::Done(outcome) => return Ok((stream, outcome)),
            Answer::Failed(why) => bail!(why),
        }
    }
}
