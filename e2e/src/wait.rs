//! Waiting for conditions, with a deadline.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// Watches an object until `condition` holds, and returns it as it is then; none if it's absent.
pub async fn until<K>(api: Api<K>, name: &str, deadline: Duration, condition: impl Condition<K>) -> Result<Option<K>>
where
    K: Clone + Debug + Send + DeserializeOwned + Resource + 'static,
{
    let held = tokio::time::timeout(deadline, await_condition(api, name, condition)).await;
    Ok(held.with_context(|| format!("{name}: not within {} s", deadline.as_secs()))??)
}

/// Tries until `attempt` succeeds, for what can't be watched, such as a connection. On failure the
/// last error says why.
pub async fn eventually<T, F: Future<Output = Result<T>>>(
    what: &str,
    deadline: Duration,
    mut attempt: impl FnMut() -> F,
) -> Result<T> {
    let mut last = None;
    let tries = async {
        loop {
            match attempt().await {
                Ok(value) => return value,
                Err(error) => last = Some(error),
            }
            crate::clock::pause_between_looks().await;
        }
    };
    match tokio::time::timeout(deadline, tries).await {
        Ok(value) => Ok(value),
        Err(_) => match last {
            Some(error) => Err(error.context(format!("{what}: not within {} s", deadline.as_secs()))),
            None => bail!("{what}: not within {} s", deadline.as_secs()),
        },
    }
}
