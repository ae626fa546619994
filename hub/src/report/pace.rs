//! How often the status of one server is written while it only tells how far things are on their way.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use operator::cache::ObjectKey;

/// What comes within this time goes together.
const PAUSE: Duration = Duration::from_secs(1);

/// When each server's status was last written, or first to be.
#[derive(Debug, Default)]
pub struct Pace {
    last: Mutex<BTreeMap<ObjectKey, Duration>>,
}

impl Pace {
    /// How long a status has to wait that is to be written now; `None`: it is written, and what follows waits for the next. A
    /// pressing one never waits.
    pub fn wait(&self, server: &ObjectKey, is_pressing: bool, now: Duration) -> Option<Duration> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let since = last.entry(server.clone()).or_insert(now);
        let left = since.saturating_add(PAUSE).saturating_sub(now);
        if left.is_zero() || is_pressing {
            *since = now;
            return None;
        }
        Some(left)
    }

    /// The server is gone.
    pub fn forget(&self, server: &ObjectKey) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.remove(server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn what_is_on_its_way_is_told_once_a_second_and_what_presses_at_once() {
        let pace = Pace::default();
        let server = ObjectKey::new("team", "llama");
        assert_eq!(pace.wait(&server, false, at(100)), Some(at(1000)));
        assert_eq!(pace.wait(&server, false, at(700)), Some(at(400)));
        assert_eq!(pace.wait(&server, false, at(1100)), None);
        assert_eq!(pace.wait(&server, false, at(1200)), Some(at(900)));
        assert_eq!(pace.wait(&server, true, at(1300)), None);
        assert_eq!(pace.wait(&server, false, at(2200)), Some(at(100)));
    }

    #[test]
    fn a_server_waits_for_no_other_and_begins_anew_when_it_is_gone() {
        let pace = Pace::default();
        let (a, b) = (ObjectKey::new("team", "a"), ObjectKey::new("team", "b"));
        assert_eq!(pace.wait(&a, true, at(0)), None);
        assert_eq!(pace.wait(&b, true, at(1)), None);
        pace.forget(&a);
        assert_eq!(pace.wait(&a, false, at(2000)), Some(at(1000)));
    }
}
