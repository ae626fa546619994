//! The session with the hub: dialled, driven, and dialled again. Hands the hub's words to [`Wishes`], and says what the
//! machine has to say. Must not wait on the cluster: whoever acts on a word does so elsewhere.

mod identity;
mod machine;
mod session;

use std::{path::PathBuf, sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use proto::{
    session::{AgentInfo, Violation},
    transport::TransportError,
    v1,
};
use tokio::sync::watch;

pub(crate) use self::{
    identity::{Clock, Identity, IdentityError, Store},
    machine::Machine,
};
use crate::placement::Wishes;

/// Between two attempts, at the most: doubled each time, up to the last.
const BACK_OFF_FIRST: Duration = Duration::from_millis(500);
const BACK_OFF_LAST: Duration = Duration::from_secs(30);

/// A random number from 0 to 1.
pub(crate) type Random = fn() -> f64;

/// Why a session ended, or did not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("reading {path}: {source}")]
    Bundle {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("opening the session: {}", .0.message())]
    Open(tonic::Status),
    #[error("the session broke: {}", .0.message())]
    Broken(tonic::Status),
    #[error("the hub ended the session")]
    Ended,
    #[error("the hub is silent")]
    Silent,
    #[error("the hub broke the protocol: {0}")]
    Violation(#[from] Violation),
    #[error("the hub refuses the session ({reason:?}): {message}")]
    Rejected {
        reason: v1::RejectReason,
        message: String,
        retry_after: Option<Duration>,
    },
}

impl LinkError {
    /// When the hub wants to be asked again, if it said so.
    const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Rejected { retry_after, .. } => *retry_after,
            Self::Bundle { .. }
            | Self::Identity(_)
            | Self::Transport(_)
            | Self::Open(_)
            | Self::Broken(_)
            | Self::Ended
            | Self::Silent
            | Self::Violation(_) => None,
        }
    }
}

/// What a session is made with.
pub(crate) struct Link {
    pub(crate) machine: Arc<Machine>,
    pub(crate) wishes: Arc<Wishes>,
    pub(crate) store: Store,
    pub(crate) info: AgentInfo,
    /// The hub, as host:port, and the name in its certificate.
    pub(crate) hub: (String, String),
    /// Folder of the join bundle.
    pub(crate) join: PathBuf,
    /// Wall clock: certificates end by it.
    pub(crate) clock: Clock,
    /// Spreads the agents of a fleet that has lost its hub.
    pub(crate) random: Random,
    pub(crate) connected: prometheus_client::metrics::gauge::Gauge,
}

impl Link {
    /// Keeps a session open until it is dropped.
    pub(crate) async fn run(self) {
        let (certificates, _) = watch::channel(None);
        let mut identity = None;
        let mut delays = back_off(self.random);
        loop {
            let mut welcomed = false;
            let error = self
                .connect(&mut identity, &certificates, &mut welcomed)
                .await;
            self.machine.drive(proto::session::AgentMachine::disconnect);
            self.connected.set(0);
            if welcomed {
                delays = back_off(self.random);
            }
            let own = delays.next().unwrap_or(BACK_OFF_LAST);
            let delay = error.retry_after().unwrap_or(own);
            tracing::warn!(%error, retry_in_ms = delay.as_millis(), "no session");
            tokio::time::sleep(delay).await;
        }
    }

    /// One session, from the identity to its end.
    async fn connect(
        &self,
        identity: &mut Option<Identity>,
        certificates: &watch::Sender<Option<String>>,
        welcomed: &mut bool,
    ) -> LinkError {
        let ended = async {
            let dialer = self.dialer().await?;
            if identity.is_none() {
                *identity = Some(self.store.load().await?);
            }
            // Loaded just now or before.
            let Some(identity) = identity.as_mut() else {
                return Ok(());
            };
            let token = self.bundled("token").await;
            self.store
                .enrol_if_needed(identity, &dialer, token, &self.info.cluster_uid, self.clock)
                .await?;
            self.store.try_save(identity).await?;
            identity.present(&dialer)?;
            let client = dialer.dial().await?;
            tokio::select! {
                ended = self.drive(client, certificates, welcomed) => ended,
                failed = self.store.renew(identity, &self.machine, certificates.subscribe(), self.clock) => {
                    Err(failed.into())
                }
            }
        };
        match ended.await {
            Ok(()) => LinkError::Ended,
            Err(error) => error,
        }
    }

    /// Made anew for each session: the authority's file may have been replaced.
    async fn dialer(&self) -> Result<proto::transport::client::Dialer, LinkError> {
        let authority = self.bundled("ca.crt").await?;
        let (address, server_name) = &self.hub;
        let dialer = proto::transport::client::Dialer::new(address, server_name, &authority)?;
        Ok(dialer)
    }

    async fn bundled(&self, file: &str) -> Result<String, LinkError> {
        let path = self.join.join(file);
        let text = tokio::fs::read_to_string(&path).await;
        text.map_err(|source| LinkError::Bundle { path, source })
    }
}

/// Anywhere from at once to the doubled delay: agents that lost their hub at one time don't come back at one time.
fn back_off(random: Random) -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(BACK_OFF_FIRST)
        .with_max_delay(BACK_OFF_LAST)
        .without_max_times()
        .build()
        .map(move |delay| delay.mul_f64(random().clamp(0.0, 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_spread_over_the_whole_of_a_delay_that_doubles_up_to_30_s() {
        let most: Vec<u128> = back_off(|| 1.0)
            .take(9)
            .map(|delay| delay.as_millis())
            .collect();
        assert_eq!(
            most,
            [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]
        );
        let half = back_off(|| 0.5).nth(20);
        assert_eq!(half, Some(Duration::from_secs(15)));
        assert_eq!(back_off(|| 0.0).nth(20), Some(Duration::ZERO));
    }
}
