//! Wake-ups: which keys have to be looked at, and the loop that does.
//!
//! A wake-up carries no data: whoever is woken plans from a snapshot. A key waits at most once however often it is
//! woken, runs at most once at a time, and runs again when it was woken meanwhile. So the queue is bounded by the
//! number of keys. The key that waits longest runs first: none is starved by others that come back again and again.
//!
//! What has failed is tried again by a back-off, and at once when the cause is known to have passed.

mod backoff;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Debug,
    future::Future,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};
use tokio_util::time::{DelayQueue, delay_queue};

pub use self::backoff::Backoff;

/// The keys that wait.
#[derive(Debug)]
pub struct Wakes<K> {
    waiting: Mutex<Waiting<K>>,
    news: Notify,
    recoveries: watch::Sender<u64>,
}

impl<K> Default for Wakes<K> {
    fn default() -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                keys: BTreeSet::new(),
                queue: VecDeque::new(),
            }),
            news: Notify::new(),
            recoveries: watch::Sender::new(0),
        }
    }
}

/// Keys in the order in which they came, each once.
#[derive(Debug)]
struct Waiting<K> {
    keys: BTreeSet<K>,
    queue: VecDeque<K>,
}

impl<K: Ord + Clone> Waiting<K> {
    /// Puts the key behind all others, unless it waits already. Returns whether it is new.
    fn push(&mut self, key: K) -> bool {
        let is_new = self.keys.insert(key.clone());
        if is_new {
            self.queue.push_back(key);
        }
        is_new
    }

    /// Takes the first key that may run. Those before it run already: as few as run at once.
    fn pop(&mut self, may_run: impl Fn(&K) -> bool) -> Option<K> {
        let place = self.queue.iter().position(may_run)?;
        let key = self.queue.remove(place)?;
        self.keys.remove(&key);
        Some(key)
    }
}

/// What a run says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing to do until the next wake-up.
    Rest,
    /// Nothing to do until the next wake-up, or until that much time has passed.
    After(Duration),
    /// A passing error: run again later, by the back-off.
    Retry,
    /// The same, and when that much time has passed at the latest.
    RetryWithin(Duration),
    /// Something is on its way, and an event is to say so: should none come, run again later, and when that much time has passed
    /// at the latest.
    Recheck {
        /// At the latest then.
        within: Option<Duration>,
    },
}

/// How long a run waits that failed while the cause of failures passed: it may have been before or after.
const RECOVERED_PAUSE: Duration = Duration::from_millis(500);

impl<K: Ord + Hash + Clone + Debug + Send + 'static> Wakes<K> {
    /// The key is looked at, now or as soon as its run is over.
    pub fn wake(&self, key: K) {
        if self.lock().push(key) {
            self.news.notify_one();
        }
    }

    /// How many keys wait to be looked at, but for those that wait for a time.
    pub fn depth(&self) -> usize {
        self.lock().keys.len()
    }

    /// What keys have failed by may have passed: all that wait for their back-off are tried now.
    pub fn retry_now(&self) {
        self.recoveries
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Tries failed keys again whenever `recoveries` changes, until it ends.
    pub async fn retry_on(&self, mut recoveries: watch::Receiver<u64>) {
        while recoveries.changed().await.is_ok() {
            self.retry_now();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<K>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` for each key that is woken, at most `concurrency` at once, until it is dropped.
    pub async fn run<W, F>(&self, concurrency: usize, backoff: Backoff, work: W)
    where
        W: Fn(K) -> F,
        F: Future<Output = Next> + Send + 'static,
    {
        let mut runs = Runs::new(concurrency, backoff);
        let mut recoveries = self.recoveries.subscribe();
        loop {
            loop {
                // The lock is free again before `work` runs: it may wake.
                let picked = runs.pick(&mut self.lock());
                let Some(key) = picked else { break };
                runs.start(key.clone(), work(key));
            }
            tokio::select! {
                () = self.news.notified() => {}
                Ok(()) = recoveries.changed() => runs.recovered(&mut self.lock()),
                Some(ended) = runs.running.join_next() => runs.end(ended),
                Some(due) = runs.retries.next() => {
                    let key = due.into_inner();
                    runs.retry_at.remove(&key);
                    self.lock().push(key);
                }
            }
        }
    }
}

/// The runs of one loop: what runs, what failed how often, what is retried when.
struct Runs<K> {
    concurrency: usize,
    backoff: Backoff,
    running: JoinSet<(K, Next)>,
    busy: BTreeSet<K>,
    failures: BTreeMap<K, u32>,
    /// Looks in a row that no event asked for.
    rechecks: BTreeMap<K, u32>,
    retries: DelayQueue<K>,
    retry_at: BTreeMap<K, delay_queue::Key>,
    /// What ran while the cause of failures passed.
    overlapped: BTreeSet<K>,
}

impl<K: Ord + Hash + Clone + Debug + Send + 'static> Runs<K> {
    fn new(concurrency: usize, backoff: Backoff) -> Self {
        Self {
            concurrency,
            backoff,
            running: JoinSet::new(),
            busy: BTreeSet::new(),
            failures: BTreeMap::new(),
            rechecks: BTreeMap::new(),
            retries: DelayQueue::new(),
            retry_at: BTreeMap::new(),
            overlapped: BTreeSet::new(),
        }
    }

    /// What waits for a retry is due; what runs is as soon as it fails.
    fn recovered(&mut self, waiting: &mut Waiting<K>) {
        self.retries.clear();
        for key in std::mem::take(&mut self.retry_at).into_keys() {
            waiting.push(key);
        }
        self.overlapped.clone_from(&self.busy);
    }

    /// Takes the next key, if one may run.
    fn pick(&self, waiting: &mut Waiting<K>) -> Option<K> {
        if self.running.len() >= self.concurrency {
            return None;
        }
        waiting.pop(|key| !self.busy.contains(key))
    }

    fn start(&mut self, key: K, run: impl Future<Output = Next> + Send + 'static) {
        // Its time has not come, so it was woken: what waits from now on has not been waited for yet.
        if let Some(retry) = self.retry_at.remove(&key) {
            self.retries.remove(&retry);
            self.rechecks.remove(&key);
        }
        self.busy.insert(key.clone());
        self.running.spawn(async move { (key, run.await) });
    }

    fn end(&mut self, ended: Result<(K, Next), tokio::task::JoinError>) {
        let (key, next) = match ended {
            Ok(ended) => ended,
            // A run that panicked has broken an invariant: the process ends with it rather than go on without its key.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_cancelled) => return,
            },
        };
        self.busy.remove(&key);
        let overlapped = self.overlapped.remove(&key);
        if !matches!(next, Next::Retry | Next::RetryWithin(_)) {
            self.failures.remove(&key);
        }
        if !matches!(next, Next::Recheck { .. }) {
            self.rechecks.remove(&key);
        }
        match next {
            Next::Rest => {}
            Next::After(delay) => self.run_after(key, delay),
            Next::Recheck { within } => {
                let delay = self.rechecked(&key, within);
                self.run_after(key, delay);
            }
            Next::Retry => {
                let delay = self.failed(&key, overlapped);
                self.run_after(key, delay);
            }
            Next::RetryWithin(most) => {
                let delay = self.failed(&key, overlapped).min(most);
                self.run_after(key, delay);
            }
        }
    }

    /// Counts a failure; returns how long the key waits.
    fn failed(&mut self, key: &K, overlapped: bool) -> Duration {
        let failures = self.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        if overlapped {
            RECOVERED_PAUSE
        } else {
            self.backoff.of(key, *failures)
        }
    }

    /// Counts a look that nothing else asks for; returns how long the key waits.
    fn rechecked(&mut self, key: &K, within: Option<Duration>) -> Duration {
        let rechecks = self.rechecks.entry(key.clone()).or_default();
        let next = rechecks.saturating_add(1);
        let delay = self.backoff.rechecks().of(key, next);
        match within {
            Some(most) if most < delay => most,
            Some(_) | None => {
                *rechecks = next;
                delay
            }
        }
    }

    fn run_after(&mut self, key: K, delay: Duration) {
        let timer = self.retries.insert(key.clone(), delay);
        self.retry_at.insert(key, timer);
    }
}

/// Wake-ups that several tasks share.
pub type SharedWakes<K> = Arc<Wakes<K>>;
