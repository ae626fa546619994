//! The DNS names of endpoints: looked up once, however many servers have them, and again when their time to live ends. A
//! failed lookup keeps what the last good one brought, and concerns no other name. Decides nothing of endpoints.

mod system;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crds::ClusterName;
use futures::future::BoxFuture;
use hub_plan::facts::{ClusterFacts, Family, Resolution};
use operator::{
    cache::ObjectKey,
    wake::{Backoff, Next, Wakes},
};

pub use system::System;

/// How long an answer counts, whatever its time to live: a name that says 0 is not asked for all the time, and one that says
/// a day is not believed that long.
const TTL_MIN: Duration = Duration::from_secs(5);
const TTL_MAX: Duration = Duration::from_mins(5);
/// The pauses after failures. A key waits at least half of one: never less than [`TTL_MIN`].
const BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(10),
    last: TTL_MAX,
};
/// Lookups at once. Each waits for a name server most of its time; those that wait for a dead one leave room for others.
const LOOKUPS_AT_ONCE: usize = 64;
/// A lookup that takes longer has failed.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(15);
/// Names at once. One more is not looked up, and its server says so.
const NAMES_MAX: usize = 10_000;

/// What a lookup brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The addresses of the name, of both families.
    pub addresses: BTreeSet<IpAddr>,
    /// How long they hold.
    pub ttl: Duration,
    /// The family that could not be looked up, and why: it is not taken for one without addresses. Of the other there are some.
    pub failure: Option<(Family, String)>,
}

/// Looks names up.
pub trait Lookup: Debug + Send + Sync {
    /// The addresses of a name, or why there are none, in a few words.
    fn lookup(&self, name: String) -> BoxFuture<'static, Result<Answer, String>>;
}

/// What is known of all names.
#[derive(Debug)]
pub struct Resolver {
    lookup: Box<dyn Lookup>,
    known: Mutex<Known>,
    /// Names that are due.
    due: Wakes<String>,
}

#[derive(Debug, Default)]
struct Known {
    names: BTreeMap<String, Name>,
    asked: BTreeMap<ObjectKey, BTreeSet<String>>,
}

#[derive(Debug, Default)]
struct Name {
    servers: BTreeSet<ObjectKey>,
    resolution: Resolution,
}

impl Resolver {
    /// Nothing is known yet.
    pub fn new(lookup: impl Lookup + 'static) -> Self {
        Self {
            lookup: Box::new(lookup),
            known: Mutex::default(),
            due: Wakes::default(),
        }
    }

    /// Puts what is known of each name into what its clusters said. From now on the server is told of changes of these names,
    /// and of no others.
    pub fn resolve(&self, server: &ObjectKey, clusters: &mut BTreeMap<ClusterName, ClusterFacts>) {
        let endpoints = clusters.values_mut().filter_map(|of| of.endpoint.as_mut());
        let mut hostnames: Vec<_> = endpoints.flat_map(|of| of.hostnames.iter_mut()).collect();
        let wanted = hostnames.iter().map(|(name, _)| (*name).clone()).collect();
        let mut known = self.lock();
        for name in known.ask(server, wanted) {
            self.due.wake(name);
        }
        for (name, resolution) in &mut hostnames {
            **resolution = known.names.get(*name).map_or_else(
                || Resolution {
                    failure: Some(format!("the hub resolves {NAMES_MAX} names already")),
                    ..Resolution::default()
                },
                |known| known.resolution.clone(),
            );
        }
    }

    /// The server is gone.
    pub fn forget(&self, server: &ObjectKey) {
        self.lock().ask(server, BTreeSet::new());
    }

    /// Looks names up for ever; `changed` is called for each server of a name of which something else is known.
    pub async fn run(self: Arc<Self>, changed: impl Fn(ObjectKey) + Clone + Send + 'static) {
        let look_up = |name| Arc::clone(&self).look_up(name, changed.clone());
        self.due.run(LOOKUPS_AT_ONCE, BACKOFF, look_up).await;
    }

    async fn look_up(self: Arc<Self>, name: String, changed: impl Fn(ObjectKey)) -> Next {
        if !self.lock().names.contains_key(&name) {
            return Next::Rest;
        }
        let lookup = self.lookup.lookup(name.clone());
        let answer = match tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await {
            Ok(Ok(answer)) if answer.addresses.is_empty() => Err("it has no address".to_owned()),
            Ok(answer) => answer,
            Err(_elapsed) => Err("no name server answers".to_owned()),
        };
        let next = answer.as_ref().map_or(Next::Retry, |answer| {
            let within = answer.ttl.clamp(TTL_MIN, TTL_MAX);
            match answer.failure {
                None => Next::After(within),
                Some(_) => Next::RetryWithin(within),
            }
        });
        let servers = self.lock().learn(&name, answer);
        servers.into_iter().for_each(changed);
        next
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The server asks for these names and no others. Returns the new ones.
    fn ask(&mut self, server: &ObjectKey, mut wanted: BTreeSet<String>) -> Vec<String> {
        let before = self.asked.remove(server).unwrap_or_default();
        for name in before.difference(&wanted) {
            if let Some(known) = self.names.get_mut(name) {
                known.servers.remove(server);
                if known.servers.is_empty() {
                    self.names.remove(name);
                }
            }
        }
        let mut new = Vec::new();
        wanted.retain(|name| {
            let room = self.names.len() < NAMES_MAX;
            if let Some(known) = self.names.get_mut(name) {
                known.servers.insert(server.clone());
            } else if room {
                let known = self.names.entry(name.clone()).or_default();
                known.servers.insert(server.clone());
                new.push(name.clone());
            } else {
                return false;
            }
            true
        });
        if !wanted.is_empty() {
            self.asked.insert(server.clone(), wanted);
        }
        new
    }

    /// Takes what a lookup brought. Returns the servers for which that is news.
    fn learn(&mut self, name: &str, answer: Result<Answer, String>) -> BTreeSet<ObjectKey> {
        let Some(known) = self.names.get_mut(name) else {
            return BTreeSet::new();
        };
        let resolution = match answer {
            Ok(Answer {
                addresses,
                failure: None,
                ..
            }) => Resolution {
                addresses,
                ..Resolution::default()
            },
            Ok(Answer {
                mut addresses,
                failure: Some((family, failure)),
                ..
            }) => {
                let known = known.resolution.addresses.iter().copied();
                addresses.extend(known.filter(|address| family.has(*address)));
                Resolution {
                    addresses,
                    failure: Some(failure),
                    failed: Some(family),
                }
            }
            Err(failure) => Resolution {
                addresses: known.resolution.addresses.clone(),
                failure: Some(failure),
                failed: None,
            },
        };
        if resolution == known.resolution {
            return BTreeSet::new();
        }
        tracing::info!(
            name,
            addresses = ?resolution.addresses,
            failure = resolution.failure,
            "hostname resolved anew"
        );
        known.resolution = resolution;
        known.servers.clone()
    }
}

#[cfg(test)]
mod tests;
