//! Asks endpoints whether they lead to a server's model servers, as plans wish, and keeps the answers. Decides nothing of
//! endpoints.

mod http;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crds::{ClusterName, v1alpha1::InferenceServer};
use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use hub_plan::{
    facts::ClusterFacts,
    probe::{Probe, ProbeFacts},
};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use operator::{
    cache::ObjectKey,
    wake::{Backoff, Next, Wakes},
};

pub use self::http::Http;
use crate::clock::Clock;

/// Probes at once, each of a few addresses. A dead endpoint holds a place for as long as the timeout; who waits longest is next.
const PROBES_AT_ONCE: usize = 256;
/// An address that has not answered by then does not.
const TIMEOUT: Duration = Duration::from_secs(3);
/// A gateway takes a moment to carry out a route that it has accepted: an endpoint is not called unreachable before so many
/// probes in a row went wrong.
const FAILURES_TOLD: u32 = 4;
/// The pauses after failures, where the plan asks for none that are shorter.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(500),
    last: Duration::from_mins(5),
};

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Where.
    pub address: SocketAddr,
    /// The path that the member's route sends to the runtime's readiness path.
    pub path: String,
    /// UID of the server: a good answer carries it.
    pub uid: String,
}

/// Asks.
pub trait Ask: Send + Sync {
    /// Asks one address; why the answer is no good one, in a few words.
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<(), String>>;
}

/// One endpoint of one server.
type Key = (ObjectKey, ClusterName);

/// What is asked, and what was answered.
pub struct Prober {
    ask: Box<dyn Ask>,
    clock: Clock,
    known: Mutex<BTreeMap<ObjectKey, BTreeMap<ClusterName, Asked>>>,
    due: Wakes<Key>,
}

/// One endpoint that is asked.
#[derive(Debug)]
struct Asked {
    wish: Wish,
    failures: u32,
    answer: Option<ProbeFacts>,
}

/// What is asked. An answer counts while that is the same: a server that is made anew under its name has another UID.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wish {
    uid: String,
    probe: Probe,
}

impl Prober {
    /// Nothing is asked yet.
    pub fn new(ask: impl Ask + 'static, clock: Clock) -> Self {
        Self {
            ask: Box::new(ask),
            clock,
            known: Mutex::default(),
            due: Wakes::default(),
        }
    }

    /// Puts what was answered into what is known of each cluster.
    pub fn answers(
        &self,
        server: &InferenceServer,
        clusters: &mut BTreeMap<ClusterName, ClusterFacts>,
    ) {
        let known = self.lock();
        let Some(asked) = known.get(&ObjectKey::of(server)) else {
            return;
        };
        let uid = server.metadata.uid.as_deref().unwrap_or_default();
        let ours = asked.iter().filter(|(_, asked)| asked.wish.uid == uid);
        for (cluster, asked) in ours {
            if let Some(facts) = clusters.get_mut(cluster) {
                facts.probe.clone_from(&asked.answer);
            }
        }
    }

    /// From now on these endpoints of the server are asked, and no others. One that is asked already is not asked anew.
    pub fn wish(&self, server: &InferenceServer, probes: &BTreeMap<ClusterName, Probe>) {
        let key = ObjectKey::of(server);
        let uid = server.uid().unwrap_or_default();
        let mut known = self.lock();
        let asked = known.entry(key.clone()).or_default();
        asked.retain(|cluster, asked| probes.contains_key(cluster) && asked.wish.uid == uid);
        for (cluster, probe) in probes {
            let wish = Wish {
                uid: uid.clone(),
                probe: probe.clone(),
            };
            if asked.get(cluster).is_some_and(|asked| asked.wish == wish) {
                continue;
            }
            let before = asked.remove(cluster).filter(|Asked { wish, .. }| {
                wish.probe.addresses == probe.addresses && wish.probe.port == probe.port
            });
            let new = Asked {
                wish,
                failures: 0,
                answer: before.and_then(|before| before.answer),
            };
            asked.insert(cluster.clone(), new);
            self.due.wake((key.clone(), cluster.clone()));
        }
        if asked.is_empty() {
            known.remove(&key);
        }
    }

    /// The server is gone.
    pub fn forget(&self, server: &ObjectKey) {
        self.lock().remove(server);
    }

    /// Asks for ever; `changed` is called for each server of which something else is known.
    pub async fn run(self: Arc<Self>, changed: impl Fn(ObjectKey) + Clone + Send + 'static) {
        let probe = |key| Arc::clone(&self).probe(key, changed.clone());
        self.due.run(PROBES_AT_ONCE, BACKOFF, probe).await;
    }

    async fn probe(self: Arc<Self>, key: Key, changed: impl Fn(ObjectKey)) -> Next {
        let Some(wish) = self.asked(&key) else {
            return Next::Rest;
        };
        // A failure says nothing of what came after it was asked for, and a good answer nothing of what was before it.
        let asked_at = self.clock.now();
        let failure = self.ask_all(&key.0, &wish).await;
        let pause = match &failure {
            Some(_) => wish.probe.retry_seconds,
            None => wish.probe.max_age_seconds,
        };
        let pause = pause.map(|seconds| Duration::from_secs(seconds.into()));
        let next = match (&failure, pause) {
            (Some(_), None) => Next::Retry,
            (Some(_), Some(most)) => Next::RetryWithin(most),
            (None, Some(age)) => Next::After(age),
            (None, None) => Next::Rest,
        };
        if self.learn(&key, &wish, failure, asked_at) {
            changed(key.0);
        }
        next
    }

    /// Asks all addresses at once: the first good answer speaks for them, and where there is none the first address does. Returns
    /// why there is none.
    async fn ask_all(&self, server: &ObjectKey, Wish { uid, probe }: &Wish) -> Option<String> {
        let ask = |address: IpAddr| async move {
            let answer = self.ask_one(server, address, probe.port, uid).await;
            answer.map_err(|why| (address, why))
        };
        let mut answers: FuturesUnordered<_> = probe.addresses.iter().copied().map(ask).collect();
        let mut failures = BTreeMap::new();
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(()) => return None,
                Err((address, why)) => failures.insert(address, why),
            };
        }
        let failure = failures.into_iter().next();
        Some(failure.map_or_else(
            || "it has no address".to_owned(),
            |(address, why)| format!("{address}: {why}"),
        ))
    }

    async fn ask_one(
        &self,
        server: &ObjectKey,
        address: IpAddr,
        port: u16,
        uid: &str,
    ) -> Result<(), String> {
        let question = Question {
            address: SocketAddr::new(address, port),
            path: format!("/cluster/{}/{}/-/ready", server.namespace, server.name),
            uid: uid.to_owned(),
        };
        match tokio::time::timeout(TIMEOUT, self.ask.ask(question)).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
        }
    }

    fn asked(&self, (server, cluster): &Key) -> Option<Wish> {
        let known = self.lock();
        let asked = known.get(server)?.get(cluster)?;
        Some(asked.wish.clone())
    }

    /// Keeps an answer, unless something else is asked meanwhile. Returns whether it is news.
    fn learn(
        &self,
        (server, cluster): &Key,
        wish: &Wish,
        failure: Option<String>,
        asked_at: Timestamp,
    ) -> bool {
        let at = match failure {
            Some(_) => asked_at,
            None => self.clock.now(),
        };
        let mut known = self.lock();
        let asked = known
            .get_mut(server)
            .and_then(|asked| asked.get_mut(cluster));
        let Some(asked) = asked.filter(|asked| asked.wish == *wish) else {
            return false;
        };
        asked.failures = match failure {
            Some(_) => asked.failures.saturating_add(1),
            None => 0,
        };
        if failure.is_some() && asked.failures < FAILURES_TOLD {
            return false;
        }
        let is_other = asked.answer.as_ref().map(|answer| &answer.failure) != Some(&failure);
        if is_other {
            tracing::info!(%server, %cluster, failure, "endpoint probed");
        }
        asked.answer = Some(ProbeFacts {
            addresses: wish.probe.addresses.clone(),
            port: wish.probe.port,
            at,
            failure,
        });
        // Also the same answer: that it is a newer one is news where its age counts.
        is_other || wish.probe.max_age_seconds.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, BTreeMap<ClusterName, Asked>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
