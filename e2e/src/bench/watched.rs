//! When a watch showed what one waits for. No poll: what is measured is not slowed by who looks.

use std::fmt::{self, Debug};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::clock::monotonic;

/// How long anything may take. Generous: it is not the target.
pub(super) const DEADLINE: Duration = Duration::from_mins(10);

/// The objects that a watch shows, in its order.
pub(super) struct Watched<K> {
    what: &'static str,
    objects: BoxStream<'static, watcher::Result<K>>,
}

impl<K> Debug for Watched<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("what", &self.what)
            .finish_non_exhaustive()
    }
}

impl<K> Watched<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    /// Begins to watch; the list of what is there has been read when this returns.
    pub(super) async fn begin(
        what: &'static str,
        api: Api<K>,
        config: watcher::Config,
    ) -> Result<Self> {
        let mut events = watcher(api, config).boxed();
        let listed = async {
            while let Some(event) = events.try_next().await? {
                if matches!(event, Event::InitDone) {
                    return Ok(());
                }
            }
            bail!("the watch of {what} ended")
        };
        tokio::time::timeout(DEADLINE, listed)
            .await
            .with_context(|| format!("list {what}"))??;
        Ok(Self::of(what, events))
    }

    /// As `begin`, but what is there already is shown first.
    pub(super) fn with_what_is_there(
        what: &'static str,
        api: Api<K>,
        config: watcher::Config,
    ) -> Self {
        Self::of(what, watcher(api, config).boxed())
    }

    fn of(what: &'static str, events: BoxStream<'static, watcher::Result<Event<K>>>) -> Self {
        let objects = events.try_filter_map(async |event| {
            Ok(match event {
                Event::Apply(object) | Event::InitApply(object) => Some(object),
                Event::Delete(_) | Event::Init | Event::InitDone => None,
            })
        });
        Self {
            what,
            objects: objects.boxed(),
        }
    }

    /// The next object that `holds`, with the moment in which it was seen. What came before is passed over.
    pub(super) async fn until(
        &mut self,
        mut holds: impl FnMut(&K) -> bool + Send,
    ) -> Result<(K, Instant)> {
        let seen = async {
            while let Some(object) = self.objects.try_next().await? {
                if holds(&object) {
                    return Ok((object, monotonic()));
                }
            }
            bail!("the watch ended")
        };
        let seen = tokio::time::timeout(DEADLINE, seen).await;
        seen.with_context(|| format!("{}: not within {} s", self.what, DEADLINE.as_secs()))?
    }

    /// The next object, whichever it is.
    pub(super) async fn next(&mut self) -> Result<K> {
        match self.objects.try_next().await? {
            Some(object) => Ok(object),
            None => bail!("the watch of {} ended", self.what),
        }
    }
}

/// The watch of one object.
pub(super) fn named(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}
