//! Clients of the API server: one that writes, one that watches. A connection that hangs must not hang a reconcile, and a
//! watch is quiet for minutes by its nature.

use std::time::Duration;

use kube::{Client, Config};

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
    let client = |read_timeout| {
        let mut config = config.clone();
        config.read_timeout = Some(read_timeout);
        Client::try_from(config).map_err(|source| Error::Client(Box::new(source)))
    };
    Ok(Clients {
        write: client(WRITE_TIMEOUT)?,
        watch: client(WATCH_TIMEOUT)?,
    })
}
