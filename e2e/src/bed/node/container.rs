//! One container: started, probed, stopped and started again as its Pod's restart policy says.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use nix::sys::signal::Signal;
use tokio::sync::watch;

use super::environment::{Place, References, environment, expand};
use super::pod::Shown;
use super::probe::Check;
use super::sandbox::{self, Mount, Sandbox};
use super::status::{Finished, State, View};
use super::{Context, Process};
use crate::bed::net::Netns;
use crate::bed::process::{Recipe, Running};
use crate::clock;

/// A kubelet's crash back-off with its reduced decay: from 1 s, doubling, to 60 s.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);
/// A run as long as this makes the next crash the first again.
const STEADY: Duration = Duration::from_secs(600);
/// Between two looks for a Secret or `ConfigMap` that isn't there yet.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// None while containers shall run; then how long they may take to end.
pub(super) type Stop = watch::Receiver<Option<Duration>>;

/// A container of a Pod that has its network and its volumes.
pub(super) struct Runner {
    pub(super) context: Arc<Context>,
    pub(super) netns: Arc<Netns>,
    pub(super) pod: Arc<Pod>,
    pub(super) container: Container,
    pub(super) place: Place,
    /// The Pod's folder in memory.
    pub(super) folder: PathBuf,
    pub(super) volumes: PathBuf,
    pub(super) shown: Arc<watch::Sender<Shown>>,
    pub(super) stop: Stop,
    /// `Always`, `OnFailure` or `Never`.
    pub(super) restart: String,
}

impl Runner {
    /// Runs the container until it shall not be started again. True if its last run succeeded.
    pub(super) async fn run(mut self) -> bool {
        let mut back_off = Duration::ZERO;
        loop {
            let began = clock::monotonic();
            let finished = self.run_once().await;
            let code = finished.code;
            let again = match self.restart.as_str() {
                "Always" => true,
                "OnFailure" => code != 0,
                _ => false,
            };
            self.update(|view| {
                (view.ready, view.started) = (false, false);
                view.state = State::Finished(finished.clone());
            });
            if self.stop.borrow().is_some() || !again {
                return code == 0;
            }
            if clock::monotonic().duration_since(began) >= STEADY {
                back_off = Duration::ZERO;
            }
            if !back_off.is_zero() {
                let message = format!("back-off {}s restarting failed container", back_off.as_secs());
                self.update(|view| {
                    view.last = Some(finished.clone());
                    view.state = State::Waiting { reason: "CrashLoopBackOff".to_owned(), message };
                });
                if self.stopped_within(back_off).await {
                    self.update(|view| view.state = State::Finished(finished.clone()));
                    return code == 0;
                }
            }
            back_off = (back_off * 2).clamp(FIRST_BACK_OFF, LONGEST_BACK_OFF);
            self.update(|view| {
                view.last = Some(finished);
                view.restarts += 1;
            });
        }
    }

    fn update(&self, change: impl FnOnce(&mut View)) {
        let name = &self.container.name;
        self.shown.send_if_modified(|shown| {
            let view = shown.views.entry(name.clone()).or_insert_with(|| View::waiting("ContainerCreating", ""));
            let before = view.clone();
            change(view);
            *view != before
        });
    }

    async fn stopped_within(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.stop.wait_for(Option::is_some)).await.is_ok()
    }

    async fn run_once(&mut self) -> Finished {
        let running = loop {
            match self.start().await {
                Ok(running) => break running,
                Err(error) => {
                    let message = format!("{error:#}");
                    self.update(|view| {
                        view.state = State::Waiting { reason: "CreateContainerConfigError".to_owned(), message };
                    });
                }
            }
            if self.stopped_within(LOOK_AGAIN).await {
                return finished(128, None, Some("stopped before it started".to_owned()));
            }
        };
        let since = clock::time();
        self.update(|view| view.state = State::Running { since: since.clone() });
        let key = (self.pod.uid().unwrap_or_default(), self.container.name.clone());
        let process = Process {
            namespace: self.pod.namespace().unwrap_or_default(),
            labels: self.pod.labels().clone(),
            running: running.clone(),
        };
        self.context.processes().insert(key.clone(), process);
        let mut stop = self.stop.clone();
        let mut why = None;
        tokio::select! {
            _ = running.ended() => {}
            _ = stop.wait_for(Option::is_some) => {}
            failed = self.probe() => why = Some(failed),
        }
        self.update(|view| view.ready = false);
        let status = self.end(&running).await;
        self.context.processes().remove(&key);
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(255);
        // The last words of a program that failed, as a kubelet gives them with FallbackToLogsOnError.
        finished(code, Some(since), why.or_else(|| (code != 0).then(|| running.log_end())))
    }

    /// Starts the program, once all that it needs is there.
    async fn start(&self) -> Result<Running> {
        let (pod, container) = (&self.pod, &self.container);
        let image = container.image.as_deref().unwrap_or_default();
        let program = self.context.program(image).with_context(|| format!("no program for {image}"))?;
        let namespace = pod.namespace().unwrap_or_default();
        let references = References::fetch(&self.context.client, &namespace, container).await?;
        let env = environment(pod, container, &self.place, &references)?;
        let expanded = |words: &Option<Vec<String>>| -> Option<Vec<String>> {
            let words = words.as_ref().filter(|words| !words.is_empty())?;
            Some(words.iter().map(|word| expand(word, &env)).collect())
        };
        let entry = || [vec![sandbox::program_path(&program.path)], program.args.clone()].concat();
        let mut command = expanded(&container.command).unwrap_or_else(entry);
        command.extend(expanded(&container.args).unwrap_or_default());
        let root = self.folder.join(format!("root-{}", container.name));
        std::fs::create_dir_all(&root)?;
        let security = container.security_context.as_ref();
        let sandbox = Sandbox {
            root,
            host_name: pod.name_any().chars().take(63).collect(),
            hosts: self.hosts(),
            program: program.path.clone(),
            mounts: self.mounts(),
            read_only_root: security.and_then(|security| security.read_only_root_filesystem).unwrap_or(false),
            working_dir: container.working_dir.clone().unwrap_or_else(|| "/".to_owned()).into(),
            command,
            env,
        };
        let file = self.folder.join(format!("{}.json", container.name));
        std::fs::write(&file, serde_json::to_vec(&sandbox)?)?;
        let name = format!("{namespace}_{}_{}", pod.name_any(), container.name);
        let this = std::env::current_exe()?;
        Recipe::new(&name, &this, &self.context.logs).arg("bed").arg("pod").arg(file).start(&self.netns).await
    }

    fn hosts(&self) -> String {
        let (own, api) = (&self.place.address, self.place.addresses.api_service());
        let name = self.pod.name_any();
        format!(
            "127.0.0.1 localhost\n{own} {name}\n{api} kubernetes kubernetes.default kubernetes.default.svc \
             kubernetes.default.svc.cluster.local\n"
        )
    }

    fn mounts(&self) -> Vec<Mount> {
        let mounts = self.container.volume_mounts.iter().flatten();
        let mount = |mount: &k8s_openapi::api::core::v1::VolumeMount| {
            let volume = self.volumes.join(&mount.name);
            Mount {
                source: mount.sub_path.as_ref().map_or_else(|| volume.clone(), |path| volume.join(path)),
                target: PathBuf::from(&mount.mount_path),
                read_only: mount.read_only.unwrap_or(false),
            }
        };
        mounts.map(mount).collect()
    }

    fn check(&self, probe: Option<&Probe>) -> Result<Option<Check>> {
        let address: IpAddr = self.place.address.parse()?;
        probe.map(|probe| Check::new(probe, &self.container, address)).transpose()
    }

    /// Runs the probes; ends, with the reason, when the container must be started again.
    async fn probe(&self) -> String {
        let container = &self.container;
        let checks = || -> Result<_> {
            Ok((
                self.check(container.startup_probe.as_ref())?,
                self.check(container.readiness_probe.as_ref())?,
                self.check(container.liveness_probe.as_ref())?,
            ))
        };
        let (startup, readiness, liveness) = match checks() {
            Ok(checks) => checks,
            Err(error) => return format!("a probe can't be run: {error:#}"),
        };
        // From the node, as a kubelet's are.
        let node = &self.context.netns;
        if let Some(startup) = startup
            && let Err(why) = startup.run(node, ControlFlow::Break).await
        {
            return format!("startup probe failed: {why}");
        }
        let ready_at_once = readiness.is_none();
        self.update(|view| (view.started, view.ready) = (true, ready_at_once));
        let ready = async {
            match readiness {
                Some(readiness) => {
                    readiness
                        .run(node, |result| {
                            self.update(|view| view.ready = result.is_ok());
                            ControlFlow::<std::convert::Infallible>::Continue(())
                        })
                        .await;
                }
                None => std::future::pending().await,
            }
        };
        let lives = async {
            match liveness {
                Some(liveness) => {
                    let verdict = |result: Result<(), String>| match result {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(why) => ControlFlow::Break(why),
                    };
                    liveness.run(node, verdict).await
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ready => "the readiness probe ended".to_owned(),
            why = lives => format!("liveness probe failed: {why}"),
        }
    }

    /// Asks the program to end, and makes it end when its time is over.
    async fn end(&self, running: &Running) -> ExitStatus {
        let spec = self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let usual = Duration::from_secs(spec.and_then(|grace| u64::try_from(grace).ok()).unwrap_or(30));
        if let Err(error) = running.signal_all(Signal::SIGTERM) {
            tracing::debug!(error = format!("{error:#}"), "end a container");
        }
        let mut stop = self.stop.clone();
        loop {
            let grace = (*stop.borrow_and_update()).unwrap_or(usual);
            tokio::select! {
                status = running.ended() => return status,
                () = tokio::time::sleep(grace) => break,
                // A shorter grace, such as a deletion by force, counts from now.
                Ok(()) = stop.changed() => {}
            }
        }
        if let Err(error) = running.kill().await {
            tracing::debug!(error = format!("{error:#}"), "kill a container");
        }
        running.ended().await
    }
}

fn finished(code: i32, started: Option<Time>, message: Option<String>) -> Finished {
    let reason = if code == 0 { "Completed" } else { "Error" };
    Finished { code, reason: reason.to_owned(), message, started, finished: clock::time() }
}
