//! The hub's clock: the wall clock of its start, moved on by the monotonic one. A wall clock that is set makes nobody
//! silent.

use std::time::{Duration, Instant};

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
