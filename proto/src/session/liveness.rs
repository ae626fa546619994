//! When to say a heartbeat, and when the other side counts as gone. The same for both sides.

use std::time::Duration;

/// How often both sides send a heartbeat, and how long a silence ends a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Between two heartbeats, whatever else is sent.
    pub heartbeat: Duration,
    /// Nothing heard for this long, of any kind, ends the session. Longer than `heartbeat`.
    pub silence: Duration,
}

impl Default for Limits {
    /// 10 s and 40 s: below half of the shortest idle time of the usual load balancers (60 s).
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(10),
            silence: Duration::from_secs(40),
        }
    }
}

/// When one session last heard and last sent a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Liveness {
    limits: Limits,
    heard: Duration,
    beat: Duration,
}

impl Liveness {
    pub(super) fn new(limits: Limits, now: Duration) -> Self {
        Self {
            limits,
            heard: now,
            beat: now,
        }
    }

    /// Something came from the other side.
    pub(super) fn hear(&mut self, now: Duration) {
        self.heard = self.heard.max(now);
    }

    /// True once for each heartbeat that is due.
    pub(super) fn beat(&mut self, now: Duration) -> bool {
        let due = now >= self.next_beat();
        if due {
            self.beat = now;
        }
        due
    }

    pub(super) fn expired(&self, now: Duration) -> bool {
        now >= self.silence_ends()
    }

    /// When to look again if nothing happens until then.
    pub(super) fn deadline(&self) -> Duration {
        self.next_beat().min(self.silence_ends())
    }

    /// When the session ends if nothing is heard until then.
    pub(super) fn silence_ends(&self) -> Duration {
        self.heard.saturating_add(self.limits.silence)
    }

    fn next_beat(&self) -> Duration {
        self.beat.saturating_add(self.limits.heartbeat)
    }
}
