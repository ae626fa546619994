//! The machine that link and reconciles share.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use proto::session::AgentMachine;
use tokio::{sync::Notify, time::Instant};

/// The agent's machine behind a lock that is never held over an await.
#[derive(Debug)]
pub(crate) struct Machine {
    inner: Mutex<AgentMachine>,
    changed: Notify,
    /// The machine's time counts from here, by the monotonic clock.
    start: Instant,
}

impl Machine {
    pub(crate) fn new(machine: AgentMachine, start: Instant) -> Self {
        Self {
            inner: Mutex::new(machine),
            changed: Notify::new(),
            start,
        }
    }

    /// What time it is for the machine.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The moment of that time.
    pub(super) fn moment(&self, elapsed: Duration) -> Instant {
        self.start + elapsed
    }

    /// Tells the machine something; the session looks whether there is something to say now.
    pub(crate) fn with<T>(&self, tell: impl FnOnce(&mut AgentMachine) -> T) -> T {
        let told = self.drive(tell);
        self.changed.notify_one();
        told
    }

    /// As [`Self::with`], for the session itself.
    pub(super) fn drive<T>(&self, tell: impl FnOnce(&mut AgentMachine) -> T) -> T {
        tell(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns when it was told something since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}
