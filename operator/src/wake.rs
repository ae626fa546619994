//! Wake-ups: which keys have to be looked at, and the loop that does.
//!
//! A wake-up carries no data: whoever is woken plans from a snapshot. A key waits at most once however often it is
//! woken, runs at most once at a time, and runs again when it was woken meanwhile. So the queue is bounded by the
//! number of keys.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::time::{DelayQueue, delay_queue};

/// The keys that wait.
#[derive(Debug)]
pub struct Wakes<K> {
    waiting: Mutex<BTreeSet<K>>,
    news: Notify,
}

impl<K> Default for Wakes<K> {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            news: Notify::new(),
        }
    }
}

/// What a run says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing to do until the next wake-up.
    Rest,
    /// A passing error: run again later, by the back-off.
    Retry,
}

/// How long a key waits after its n-th failure in a row.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// At most.
    pub last: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            last: Duration::from_mins(5),
        }
    }
}

impl Backoff {
    fn after(self, failures: u32) -> Duration {
        let doubled = 1u32
            .checked_shl(failures.saturating_sub(1))
            .unwrap_or(u32::MAX);
        self.first.saturating_mul(doubled).min(self.last)
    }
}

impl<K: Ord + Clone + Debug + Send + 'static> Wakes<K> {
    /// The key is looked at, now or as soon as its run is over.
    pub fn wake(&self, key: K) {
        if self.lock().insert(key) {
            self.news.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<K>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` for each key that is woken, at most `concurrency` at once, until it is dropped.
    pub async fn run<W, F>(&self, concurrency: usize, backoff: Backoff, work: W)
    where
        W: Fn(K) -> F,
        F: Future<Output = Next> + Send + 'static,
    {
        let mut runs = Runs::new(concurrency, backoff);
        loop {
            loop {
                // The lock is free again before `work` runs: it may wake.
                let picked = runs.pick(&mut self.lock());
                let Some(key) = picked else { break };
                runs.start(key.clone(), work(key));
            }
            tokio::select! {
                () = self.news.notified() => {}
                Some(ended) = runs.running.join_next() => runs.end(ended),
                Some(due) = runs.retries.next() => {
                    let key = due.into_inner();
                    runs.retry_at.remove(&key);
                    self.lock().insert(key);
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
    retries: DelayQueue<K>,
    retry_at: BTreeMap<K, delay_queue::Key>,
}

impl<K: Ord + Clone + Debug + Send + 'static> Runs<K> {
    fn new(concurrency: usize, backoff: Backoff) -> Self {
        Self {
            concurrency,
            backoff,
            running: JoinSet::new(),
            busy: BTreeSet::new(),
            failures: BTreeMap::new(),
            retries: DelayQueue::new(),
            retry_at: BTreeMap::new(),
        }
    }

    /// Takes the next key that may run.
    fn pick(&self, waiting: &mut BTreeSet<K>) -> Option<K> {
        if self.running.len() >= self.concurrency {
            return None;
        }
        let key = waiting
            .iter()
            .find(|key| !self.busy.contains(key))
            .cloned()?;
        waiting.remove(&key);
        Some(key)
    }

    fn start(&mut self, key: K, run: impl Future<Output = Next> + Send + 'static) {
        if let Some(retry) = self.retry_at.remove(&key) {
            self.retries.remove(&retry);
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
        match next {
            Next::Rest => {
                self.failures.remove(&key);
            }
            Next::Retry => {
                let failures = self.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                let delay = self.backoff.after(*failures);
                self.retry_at
                    .insert(key.clone(), self.retries.insert(key, delay));
            }
        }
    }
}

/// Wake-ups that several tasks share.
pub type SharedWakes<K> = Arc<Wakes<K>>;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "the clock is paused: it shows what the loop waited for"
    )]
    /// Runs the loop until `done` ran often enough.
    async fn run_until(wakes: &Wakes<u8>, enough: usize, next: Next) -> Duration {
        let count = Arc::new(AtomicUsize::new(0));
        let reached = Arc::new(Notify::new());
        let start = tokio::time::Instant::now();
        let work = |_| {
            let (count, reached) = (Arc::clone(&count), Arc::clone(&reached));
            async move {
                if count.fetch_add(1, Ordering::SeqCst) + 1 == enough {
                    reached.notify_one();
                }
                next
            }
        };
        tokio::select! {
            () = wakes.run(2, Backoff::default(), work) => {}
            () = reached.notified() => {}
        }
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_woken_often_runs_once() {
        let wakes = Wakes::default();
        for _ in 0..5 {
            wakes.wake(1);
        }
        wakes.wake(2);
        run_until(&wakes, 2, Next::Rest).await;
        assert!(wakes.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_key_waits_longer_each_time() {
        let wakes = Wakes::default();
        wakes.wake(1);
        let elapsed = run_until(&wakes, 4, Next::Retry).await;
        assert!(
            elapsed >= Duration::from_millis(500 + 1000 + 2000),
            "{elapsed:?}"
        );
        assert!(elapsed < Duration::from_secs(4), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_woken_during_its_run_runs_again_and_never_twice_at_once() {
        let wakes = Arc::new(Wakes::default());
        wakes.wake(1u8);
        let (running, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let second = Arc::new(Notify::new());
        let work = |key| {
            let (wakes, running, runs) =
                (Arc::clone(&wakes), Arc::clone(&running), Arc::clone(&runs));
            let second = Arc::clone(&second);
            async move {
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                    wakes.wake(key);
                    tokio::task::yield_now().await;
                } else {
                    second.notify_one();
                }
                running.fetch_sub(1, Ordering::SeqCst);
                Next::Rest
            }
        };
        tokio::select! {
            () = wakes.run(8, Backoff::default(), work) => {}
            () = second.notified() => {}
        }
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn the_back_off_has_an_end() {
        let backoff = Backoff::default();
        assert_eq!(backoff.after(1), Duration::from_millis(500));
        assert_eq!(backoff.after(200), Duration::from_mins(5));
    }
}
