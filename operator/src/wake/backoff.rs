//! How long what has failed waits for its next try.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

/// The first look at what waits for an event that does not come.
const RECHECK_FIRST: Duration = Duration::from_secs(10);
/// The longest pause between two such looks.
const RECHECK_LAST: Duration = Duration::from_mins(5);

/// How long a key waits after its n-th failure in a row: between half of it and all of it, so that keys which failed
/// together are not tried together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// How long what waits for an event is left alone without one: a safety net, so never sooner than a failure is tried again.
    pub(super) fn rechecks(self) -> Self {
        Self {
            first: RECHECK_FIRST.max(self.first),
            last: RECHECK_LAST.max(self.last),
        }
    }

    /// The wait of one key: its own place between half of the time and all of it.
    pub(super) fn of(self, key: &impl Hash, failures: u32) -> Duration {
        let mut hasher = DefaultHasher::new();
        (key, failures).hash(&mut hasher);
        let share = u32::from(hasher.finish().to_le_bytes()[0]);
        let half = self.after(failures) / 2;
        half + half * share / u32::from(u8::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_that_failed_together_are_not_tried_together() {
        let waits: BTreeSet<_> = (0..100u32)
            .map(|key| Backoff::default().of(&key, 3))
            .collect();
        assert!(waits.len() > 50, "{}", waits.len());
        assert!(
            waits
                .iter()
                .all(|wait| (1_000..=2_000).contains(&wait.as_millis()))
        );
    }

    #[test]
    fn the_back_off_has_an_end() {
        let backoff = Backoff::default();
        assert_eq!(backoff.after(1), Duration::from_millis(500));
        assert_eq!(backoff.after(200), Duration::from_mins(5));
    }
}
