//! What a test does to a cluster: API servers that stop, freeze and slow down, controllers that freeze, processes that are
//! killed, the link to the hub.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};

use super::Cluster;
use crate::control::{ApiServerFault, Cut, Outcome, Request, ask};

impl Cluster {
    async fn fault(&self, fault: ApiServerFault) -> Result<()> {
        ask(
            &self.holder.folder,
            &Request::ApiServer {
                cluster: self.number,
                fault,
            },
            |_| {},
        )
        .await?;
        Ok(())
    }

    /// Kills the API server. It stays away until it's started again.
    pub async fn stop_api_server(&self) -> Result<()> {
        self.fault(ApiServerFault::Stop).await
    }

    /// Kills the API server if it runs, starts it, and returns once it's ready.
    pub async fn restart_api_server(&self) -> Result<()> {
        self.fault(ApiServerFault::Start).await
    }

    /// Freezes the API server: connections stay open and nothing answers.
    pub async fn pause_api_server(&self) -> Result<()> {
        self.fault(ApiServerFault::Pause).await
    }

    /// Ends a pause.
    pub async fn resume_api_server(&self) -> Result<()> {
        self.fault(ApiServerFault::Resume).await
    }

    /// Puts the API server far away: each byte between it and the cluster's Pods, of connections that are open as well,
    /// arrives so much later. Zero ends it. Whoever else speaks to it, this fleet's holder for one, notices nothing.
    pub async fn delay_api_server(&self, delay: Duration) -> Result<()> {
        let request = Request::DelayApiServer {
            cluster: self.number,
            delay_ms: u64::try_from(delay.as_millis())?,
        };
        ask(&self.holder.folder, &request, |_| {}).await?;
        Ok(())
    }

    /// Cuts the link between this member and the hub, whatever cut it before. Traffic to gateways goes on.
    pub async fn cut_link(&self, cut: Cut) -> Result<()> {
        self.link(Some(cut)).await
    }

    /// Ends the cut.
    pub async fn restore_link(&self) -> Result<()> {
        self.link(None).await
    }

    async fn link(&self, cut: Option<Cut>) -> Result<()> {
        let request = Request::Link {
            cluster: self.number,
            cut,
        };
        ask(&self.holder.folder, &request, |_| {}).await?;
        Ok(())
    }

    /// Freezes the controller manager: no Deployment gets Pods, nothing is collected.
    pub async fn pause_controller_manager(&self) -> Result<()> {
        self.controller_manager(true).await
    }

    /// Ends that pause.
    pub async fn resume_controller_manager(&self) -> Result<()> {
        self.controller_manager(false).await
    }

    async fn controller_manager(&self, paused: bool) -> Result<()> {
        let request = Request::ControllerManager {
            cluster: self.number,
            paused,
        };
        ask(&self.holder.folder, &request, |_| {}).await?;
        Ok(())
    }

    /// Kills (SIGKILL) the processes of all Pods that have these labels, and says how many. The process
    /// node starts them again as their restart policy says.
    pub async fn kill_pod_process(
        &self,
        namespace: &str,
        labels: &[(&str, &str)],
    ) -> Result<usize> {
        let labels: BTreeMap<_, _> = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let request = Request::KillPods {
            cluster: self.number,
            namespace: namespace.to_owned(),
            labels,
        };
        match ask(&self.holder.folder, &request, |_| {}).await? {
            (_, Outcome::Count(killed)) => Ok(killed),
            _ => bail!("the supervisor answered something else"),
        }
    }
}
