//! Probes, run from the node against the Pod's address: `httpGet` over HTTP and `tcpSocket`.

use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bed::net::Netns;

/// A probe of one container, with the defaults filled in.
#[derive(Debug, Clone)]
pub(super) struct Check {
    what: What,
    address: SocketAddr,
    initial_delay: Duration,
    period: Duration,
    timeout: Duration,
    failures: i32,
    successes: i32,
}

#[derive(Debug, Clone)]
enum What {
    Http { path: String, headers: String },
    Tcp,
}

impl Check {
    pub(super) fn new(probe: &Probe, container: &Container, address: IpAddr) -> Result<Self> {
        let (what, port, host) = if let Some(get) = &probe.http_get {
            ensure!(get.scheme.as_deref().unwrap_or("HTTP") == "HTTP", "HTTPS probes are not for the process node");
            let headers = get.http_headers.iter().flatten();
            let headers = headers.map(|header| format!("{}: {}\r\n", header.name, header.value)).collect();
            let path = get.path.clone().unwrap_or_else(|| "/".to_owned());
            (What::Http { path, headers }, &get.port, &get.host)
        } else if let Some(tcp) = &probe.tcp_socket {
            (What::Tcp, &tcp.port, &tcp.host)
        } else {
            bail!("the process node has httpGet and tcpSocket probes only");
        };
        let address = host.as_ref().map(|host| host.parse()).transpose()?.unwrap_or(address);
        let seconds = |value: Option<i32>, default: u64| {
            Duration::from_secs(value.and_then(|value| u64::try_from(value).ok()).unwrap_or(default))
        };
        Ok(Self {
            what,
            address: SocketAddr::new(address, port_number(port, container)?),
            initial_delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds.filter(|period| *period > 0), 10),
            timeout: seconds(probe.timeout_seconds.filter(|timeout| *timeout > 0), 1),
            failures: probe.failure_threshold.unwrap_or(3).max(1),
            successes: probe.success_threshold.unwrap_or(1).max(1),
        })
    }

    async fn once(&self, netns: &Netns) -> Result<()> {
        let look = async {
            let mut stream = netns.connect(self.address).await?;
            match &self.what {
                What::Tcp => Ok(()),
                What::Http { path, headers } => http(&mut stream, self.address, path, headers).await,
            }
        };
        tokio::time::timeout(self.timeout, look).await.context("timed out")?
    }

    /// Probes until `verdict` breaks. It hears `Ok` while there are enough successes in a row, and why
    /// not while there are enough failures in a row.
    pub(super) async fn run<T>(
        &self,
        netns: &Netns,
        mut verdict: impl FnMut(Result<(), String>) -> ControlFlow<T>,
    ) -> T {
        tokio::time::sleep(self.initial_delay).await;
        let mut turns = tokio::time::interval(self.period);
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut good, mut bad) = (0_i32, 0_i32);
        loop {
            turns.tick().await;
            let result = self.once(netns).await.map_err(|error| format!("{error:#}"));
            (good, bad) = if result.is_ok() { (good + 1, 0) } else { (0, bad + 1) };
            if (good >= self.successes || bad >= self.failures)
                && let ControlFlow::Break(value) = verdict(result)
            {
                return value;
            }
        }
    }
}

fn port_number(port: &IntOrString, container: &Container) -> Result<u16> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let found = ports.find(|port| port.name.as_ref() == Some(name));
            found.with_context(|| format!("no port {name:?}"))?.container_port
        }
    };
    Ok(u16::try_from(number)?)
}

async fn http(stream: &mut TcpStream, address: SocketAddr, path: &str, headers: &str) -> Result<()> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: kube-probe/bed\r\nAccept: */*\r\n{headers}Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    stream.take(1024).read_to_end(&mut head).await?;
    let head = String::from_utf8_lossy(&head);
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse::<u16>().ok());
    let status = status.context("no HTTP answer")?;
    ensure!((200..400).contains(&status), "HTTP probe failed with statuscode: {status}");
    Ok(())
}
