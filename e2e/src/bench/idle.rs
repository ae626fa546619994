//! What hub and agents ask and use while nothing changes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use crds::v1alpha1::InferenceServer;
use kube::{Api, runtime::watcher};
use serde_json::json;

use super::requests::{asked, marks, quiet};
use super::setting::{self, Setting};
use super::usage::{Usage, usage};
use super::verdict::{Verdict, say, show, tell};
use super::watched::Watched;
use crate::Installed;

const NAMESPACE: &str = "resting";
/// Of one core, in percent.
const TARGET: f64 = 1.0;

/// What a person asks of the benchmark.
#[derive(Debug, clap::Args)]
pub(super) struct Idle {
    /// Servers, each Ready in every member
    #[arg(long, default_value_t = 200)]
    servers: usize,
    #[arg(long, default_value_t = 2)]
    members: usize,
    /// How long nothing changes
    #[arg(long, default_value_t = 180)]
    seconds: u64,
}

impl Idle {
    pub(super) async fn run(self, product: Option<&Path>) -> Result<Verdict> {
        ensure!(self.seconds > 0, "time has to pass");
        let setting = Setting {
            members: self.members,
            audit: true,
            fake_pods: self.servers,
        };
        let installed = setting::start(setting, product).await?;
        installed.namespace(NAMESPACE).await?;
        tell("until all is Ready");
        self.serve(&installed).await?;
        quiet(&installed).await?;
        tell(&format!("{} s of rest", self.seconds));
        let (begin, hub, agents) = (marks(&installed)?, usage("hub")?, usage("agent")?);
        // Time is the subject.
        tokio::time::sleep(Duration::from_secs(self.seconds)).await;
        let (hub_after, agents_after) = (usage("hub")?, usage("agent")?);
        let requests: Vec<_> = asked(&installed, &begin)?.into_iter().flatten().collect();
        for request in &requests {
            say(&format!(
                "{}: {} {}",
                request.user, request.verb, request.uri
            ));
        }
        let rows = [("hub", hub, hub_after), ("agents", agents, agents_after)];
        show(
            &["", "processes", "CPU s", "% of a core", "RSS MiB"],
            rows.map(|(what, before, after)| self.row(what, before, after)),
        );
        Ok(self.verdict((hub, hub_after), (agents, agents_after), requests.len()))
    }

    /// Returns once every server is Ready.
    async fn serve(&self, installed: &Installed) -> Result<()> {
        let api: Api<InferenceServer> =
            Api::namespaced(installed.hub().direct_client().await?, NAMESPACE);
        let watch = Watched::begin("the servers", api.clone(), watcher::Config::default()).await?;
        setting::serve(installed, &api, watch, self.servers, setting::is_ready).await
    }

    /// In percent of one core.
    fn load(&self, before: Usage, after: Usage) -> f64 {
        let used = after.cpu.saturating_sub(before.cpu);
        100.0 * used.as_secs_f64() / Duration::from_secs(self.seconds).as_secs_f64()
    }

    fn row(&self, what: &str, before: Usage, after: Usage) -> Vec<String> {
        let used = after.cpu.saturating_sub(before.cpu);
        vec![
            what.to_owned(),
            after.processes.to_string(),
            format!("{:.2}", used.as_secs_f64()),
            format!("{:.2}", self.load(before, after)),
            format!("{:.1}", mebibytes(after)),
        ]
    }

    fn verdict(&self, hub: (Usage, Usage), agents: (Usage, Usage), requests: usize) -> Verdict {
        let figure = self.load(hub.0, hub.1);
        let more = json!({
            "servers": self.servers,
            "members": self.members,
            "seconds": self.seconds,
            "requests": requests,
            "hub_rss_mib": mebibytes(hub.1),
            "agents_percent": self.load(agents.0, agents.1),
            "agents_rss_mib": mebibytes(agents.1),
        });
        Verdict {
            bench: "idle",
            figure,
            unit: "% of a core (hub)",
            floor: None,
            ratio: None,
            target: format!("≤ {TARGET} %, no request but renewals and watches"),
            ok: figure <= TARGET && requests == 0,
            more: more.as_object().cloned().unwrap_or_default(),
        }
    }
}

fn mebibytes(usage: Usage) -> f64 {
    let kibibytes = u32::try_from(usage.resident / 1024).unwrap_or(u32::MAX);
    f64::from(kibibytes) / 1024.0
}
