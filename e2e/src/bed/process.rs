//! Foreign programs as children: started in a namespace, their output in a log, their end noticed.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::sync::watch;

use super::net::Netns;

/// How to start a program. Kept, so that it can be started again.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) log: PathBuf,
}

impl Recipe {
    pub(crate) fn new(name: &str, program: &Path, folder: &Path) -> Self {
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            args: Vec::new(),
            log: folder.join(format!("{name}.log")),
        }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// `--name=value`
    pub(crate) fn flag(self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut arg = OsString::from(format!("--{name}="));
        arg.push(value);
        self.arg(arg)
    }

    pub(crate) async fn start(&self, netns: &Netns) -> Result<Running> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("open {}", self.log.display()))?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let mut child =
            netns.spawn(command).await.with_context(|| format!("start {}", self.program.display()))?;
        let id = child.id().context("it ended at once")?;
        let (ended, exit) = watch::channel(None);
        tokio::spawn(async move {
            // An error means that the child was never ours; it counts as ended.
            let status = child.wait().await.unwrap_or_default();
            ended.send_replace(Some(status));
        });
        Ok(Running { name: self.name.clone(), log: self.log.clone(), pid: Pid::from_raw(i32::try_from(id)?), exit })
    }
}

/// A child, running or ended.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    name: String,
    log: PathBuf,
    pid: Pid,
    exit: watch::Receiver<Option<ExitStatus>>,
}

impl Running {
    pub(crate) fn has_ended(&self) -> bool {
        self.exit.borrow().is_some()
    }

    pub(crate) async fn ended(&self) -> ExitStatus {
        let mut exit = self.exit.clone();
        let status = exit.wait_for(Option::is_some).await.map(|status| *status);
        status.ok().flatten().unwrap_or_default()
    }

    /// Signals the program alone. A no-op once it has ended.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        if !self.has_ended() {
            kill(self.pid, signal).with_context(|| format!("send {signal} to {}", self.name))?;
        }
        Ok(())
    }

    /// Signals the program and what it has started.
    pub(crate) fn signal_all(&self, signal: Signal) -> Result<()> {
        if !self.has_ended() {
            killpg(self.pid, signal).with_context(|| format!("send {signal} to {}", self.name))?;
        }
        Ok(())
    }

    /// Kills it and waits until it's gone.
    pub(crate) async fn kill(&self) -> Result<()> {
        self.signal_all(Signal::SIGKILL)?;
        self.ended().await;
        Ok(())
    }

    /// Waits for `ready`, and fails with the end of the log when the program ends first or
    /// `deadline` passes.
    pub(crate) async fn until<T>(&self, ready: impl Future<Output = T>, deadline: Duration) -> Result<T> {
        tokio::select! {
            value = ready => Ok(value),
            status = self.ended() => bail!("{} ended ({status}): {}", self.name, self.log_end()),
            () = tokio::time::sleep(deadline) => {
                bail!("{} isn't ready after {} s: {}", self.name, deadline.as_secs(), self.log_end())
            }
        }
    }

    /// The last lines of its log, and where the rest is.
    pub(crate) fn log_end(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(5)..).unwrap_or_default();
        format!("{} … {}", self.log.display(), last.join("\n"))
    }
}
