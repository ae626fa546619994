//! How the bed's own watches wait after a failure.

use std::time::Duration;

use kube::runtime::utils::Backoff;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);

/// Doubles up to a second: unlike the usual half minute, tests that stop an API server can wait for it.
#[derive(Debug)]
pub(crate) struct WatchBackoff(Duration);

impl Default for WatchBackoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = self.0;
        self.0 = (wait * 2).min(LONGEST);
        Some(wait)
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        *self = Self::default();
    }
}
