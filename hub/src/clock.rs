//! The hub's clock: the wall clock of its start, moved on by the monotonic one. A wall clock that is set makes nobody
//! silent.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// Counts from its start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    instant: Instant,
    timestamp: Timestamp,
}

impl Clock {
    /// A clock that starts now.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the clocks are read first"
    )]
    pub fn start() -> Self {
        Self {
            instant: Instant::now(),
            timestamp: Timestamp::now(),
        }
    }

    /// The clock of a hub that has run for that long already.
    #[cfg(test)]
    pub(crate) fn running_for(elapsed: Duration) -> Self {
        let Self { instant, timestamp } = Self::start();
        Self {
            instant: instant.checked_sub(elapsed).unwrap(),
            timestamp,
        }
    }

    /// Time since the start, monotonic.
    #[expect(
        clippy::disallowed_methods,
        reason = "plans and machines take the time as an argument: it is read here"
    )]
    pub fn elapsed(&self) -> Duration {
        Instant::now().duration_since(self.instant)
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        SignedDuration::try_from(self.elapsed())
            .ok()
            .and_then(|elapsed| self.timestamp.checked_add(elapsed).ok())
            .unwrap_or(Timestamp::MAX)
    }

    /// How long until that moment.
    pub fn until(&self, moment: Timestamp) -> Duration {
        moment
            .duration_since(self.now())
            .try_into()
            .unwrap_or_default()
    }
}

/// Lets each key have one turn per pause: the first at once, and what follows within the pause when it is over.
#[derive(Debug)]
pub(crate) struct Pace<K> {
    clock: Clock,
    pause: Duration,
    /// Of the turns within the pause.
    turns: Mutex<BTreeMap<K, Duration>>,
}

impl<K: Ord> Pace<K> {
    /// No key has had a turn.
    pub(crate) fn new(clock: Clock, pause: Duration) -> Self {
        Self {
            clock,
            pause,
            turns: Mutex::default(),
        }
    }

    /// Takes a turn of the key, or returns how long it has to wait for one.
    pub(crate) fn wait(&self, key: K) -> Option<Duration> {
        let now = self.clock.elapsed();
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let over = turns.get(&key).map(|at| *at + self.pause);
        if let Some(over) = over.filter(|over| now < *over) {
            return Some(over.saturating_sub(now));
        }
        turns.retain(|_, at| now < *at + self.pause);
        turns.insert(key, now);
        None
    }

    /// The turn came to nothing: the next need not wait for it.
    pub(crate) fn give_back(&self, key: &K) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_turn_within_the_pause_and_keeps_no_other_waiting() {
        let pace = Pace::new(Clock::start(), Duration::from_hours(1));
        assert_eq!(pace.wait("a"), None);
        let wait = pace.wait("a").unwrap();
        assert!(wait <= Duration::from_hours(1) && wait > Duration::from_mins(59));
        assert_eq!(pace.wait("b"), None);
        pace.give_back(&"a");
        assert_eq!(pace.wait("a"), None);
    }

    #[test]
    fn a_pause_that_is_over_leaves_nothing_behind() {
        let pace = Pace::new(Clock::start(), Duration::ZERO);
        for key in ["a", "b", "a"] {
            assert_eq!(pace.wait(key), None);
        }
        assert_eq!(pace.turns.lock().unwrap().len(), 1);
    }
}
