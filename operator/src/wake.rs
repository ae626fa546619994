//! Wake-ups: which keys have to be looked at, and the loop that does.
//!
//! A wake-up carries no data: whoever is woken plans from a snapshot. A key waits at most once however often it is
//! woken, runs at most once at a time, and runs again when it was woken meanwhile. So the queue is bounded by the
//! number of keys.
//!
//! What has failed is tried again by a back-off, and at once when the cause is known to have passed.

mod backoff;

use std::{
    collections::{BTreeMap, BTreeSet},
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
    waiting: Mutex<BTreeSet<K>>,
    news: Notify,
    recoveries: watch::Sender<u64>,
}

impl<K> Default for Wakes<K> {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            news: Notify::new(),
            recoveries: watch::Sender::new(0),
        }
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
}

/// How long a run waits that failed while the cause of failures passed: it may have been before or after.
const RECOVERED_PAUSE: Duration = Duration::from_millis(500);

impl<K: Ord + Hash + Clone + Debug + Send + 'static> Wakes<K> {
    /// The key is looked at, now or as soon as its run is over.
    pub fn wake(&self, key: K) {
        if self.lock().insert(key) {
            self.news.notify_one();
        }
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
            retries: DelayQueue::new(),
            retry_at: BTreeMap::new(),
            overlapped: BTreeSet::new(),
        }
    }

    /// What waits for a retry is due; what runs is as soon as it fails.
    fn recovered(&mut self, waiting: &mut BTreeSet<K>) {
        self.retries.clear();
        waiting.extend(std::mem::take(&mut self.retry_at).into_keys());
        self.overlapped.clone_from(&self.busy);
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
        let overlapped = self.overlapped.remove(&key);
        match next {
            Next::Rest => {
                self.failures.remove(&key);
            }
            Next::After(delay) => {
                self.failures.remove(&key);
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

    fn run_after(&mut self, key: K, delay: Duration) {
        let timer = self.retries.insert(key.clone(), delay);
        self.retry_at.insert(key, timer);
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
        let longest = Duration::from_millis(500 + 1000 + 2000);
        assert!(elapsed >= longest / 2, "{elapsed:?}");
        assert!(
            elapsed <= longest + Duration::from_millis(10),
            "{elapsed:?}"
        );
    }

    /// Runs a key that fails once: `recover` is called after its failure, or within its run.
    async fn retried_after(recover_within: bool) -> Duration {
        let wakes = Arc::new(Wakes::default());
        wakes.wake(1u8);
        let (runs, second) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let failed = Arc::new(Notify::new());
        let work = |_| {
            let (wakes, runs) = (Arc::clone(&wakes), Arc::clone(&runs));
            let (second, failed) = (Arc::clone(&second), Arc::clone(&failed));
            async move {
                if runs.fetch_add(1, Ordering::SeqCst) > 0 {
                    second.notify_one();
                    return Next::Rest;
                }
                if recover_within {
                    wakes.retry_now();
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                failed.notify_one();
                Next::Retry
            }
        };
        let hour = Backoff {
            first: Duration::from_hours(1),
            last: Duration::from_hours(1),
        };
        let recover = async {
            failed.notified().await;
            // The clock is paused: it moves on once the loop has nothing left to do but to wait.
            tokio::time::sleep(Duration::from_secs(1)).await;
            if !recover_within {
                wakes.retry_now();
            }
            second.notified().await;
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "the clock is paused: it shows what the loop waited for"
        )]
        let start = tokio::time::Instant::now();
        tokio::select! {
            () = wakes.run(2, hour, work) => {}
            () = recover => {}
        }
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_key_is_tried_at_once_when_its_cause_has_passed() {
        assert!(retried_after(false).await < Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_fails_while_its_cause_passes_does_not_wait_for_its_back_off() {
        assert!(retried_after(true).await < Duration::from_secs(3));
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

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_due_runs_then() {
        let wakes = Wakes::default();
        wakes.wake(1);
        let elapsed = run_until(&wakes, 3, Next::After(Duration::from_secs(7))).await;
        let seconds = elapsed.as_secs_f64();
        assert!((14.0..14.1).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_key_that_is_due_does_not_wait_for_its_back_off() {
        let wakes = Wakes::default();
        wakes.wake(1);
        let elapsed = run_until(&wakes, 9, Next::RetryWithin(Duration::from_secs(1))).await;
        assert!(elapsed < Duration::from_secs(8), "{elapsed:?}");
    }
}
