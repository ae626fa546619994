//! Clients of the API server: one that writes, one that watches. A connection that hangs must not hang a reconcile, and a
//! watch is quiet for minutes by its nature.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::http;
use kube::{Client, Config, client::ClientBuilder};
use tokio::sync::watch;
use tower::util::MapResultLayer;

/// How long an answer to a write may take. The API server's own limit is a minute; nothing of ours takes long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Watches are closed by the API server after five minutes at the latest: this is longer.
const WATCH_TIMEOUT: Duration = Duration::from_secs(330);

/// Clients of one API server.
#[derive(Clone)]
pub struct Clients {
    /// For writes, and for the few reads at the start.
    pub write: Client,
    /// For watches.
    pub watch: Client,
    /// Counts how often the API server answered again after it had not.
    pub recoveries: watch::Receiver<u64>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither a kubeconfig nor a Pod's service account was found.
    #[error("find the API server")]
    Find(#[source] Box<kube::config::InferConfigError>),
    /// What was found can't be used.
    #[error("set up a client of the API server")]
    Client(#[source] Box<kube::Error>),
}

/// Clients of the API server that a kubeconfig or the Pod's service account names.
///
/// # Errors
/// When none is named, or its certificates can't be read.
pub async fn connect() -> Result<Clients, Error> {
    let config = Config::infer()
        .await
        .map_err(|source| Error::Find(Box::new(source)))?;
    let reached = Reached::default();
    let recoveries = reached.recoveries.subscribe();
    Ok(Clients {
        write: client(&config, WRITE_TIMEOUT, &reached)?,
        watch: client(&config, WATCH_TIMEOUT, &reached)?,
        recoveries,
    })
}

fn client(config: &Config, read_timeout: Duration, reached: &Reached) -> Result<Client, Error> {
    let mut config = config.clone();
    config.read_timeout = Some(read_timeout);
    let reached = reached.clone();
    let layer = MapResultLayer::new(move |answer: Result<http::Response<_>, _>| {
        reached.take(answer.as_ref().ok().map(http::Response::status));
        answer
    });
    let builder =
        ClientBuilder::try_from(config).map_err(|source| Error::Client(Box::new(source)))?;
    Ok(builder.with_layer(&layer).build())
}

/// Does the API server answer? Every client of it tells.
#[derive(Clone, Debug)]
struct Reached {
    lost: Arc<AtomicBool>,
    recoveries: watch::Sender<u64>,
}

impl Default for Reached {
    fn default() -> Self {
        Self {
            lost: Arc::default(),
            recoveries: watch::Sender::new(0),
        }
    }
}

impl Reached {
    /// One answer; `None`: there was none.
    fn take(&self, answer: Option<http::StatusCode>) {
        match answer {
            Some(status) if status.is_success() => {
                if self.lost.swap(false, Ordering::AcqRel) {
                    self.recoveries
                        .send_modify(|count| *count = count.wrapping_add(1));
                }
            }
            // It may answer so while it starts or stops. Any other refusal is of the request.
            Some(status)
                if status.is_server_error() || status == http::StatusCode::TOO_MANY_REQUESTS =>
            {
                self.lost.store(true, Ordering::Release);
            }
            Some(_) => {}
            None => self.lost.store(true, Ordering::Release),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    #[test]
    fn an_api_server_has_recovered_when_it_answers_well_after_it_did_not() {
        let reached = Reached::default();
        let mut count = reached.recoveries.subscribe();
        let recovered = |count: &mut watch::Receiver<u64>| *count.borrow_and_update();
        reached.take(Some(StatusCode::OK));
        assert_eq!(recovered(&mut count), 0, "it was never lost");
        reached.take(None);
        reached.take(Some(StatusCode::FORBIDDEN));
        assert_eq!(recovered(&mut count), 0, "its RBAC is not there yet");
        reached.take(Some(StatusCode::OK));
        reached.take(Some(StatusCode::CREATED));
        assert_eq!(recovered(&mut count), 1);
        for status in [
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::TOO_MANY_REQUESTS,
        ] {
            reached.take(Some(status));
        }
        reached.take(Some(StatusCode::OK));
        assert_eq!(recovered(&mut count), 2);
        reached.take(Some(StatusCode::CONFLICT));
        reached.take(Some(StatusCode::OK));
        assert_eq!(recovered(&mut count), 2, "a refusal is no outage");
    }
}
