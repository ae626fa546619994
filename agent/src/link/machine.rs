//! The machine that link and reconciles share.

use std::sync::{Mutex, PoisonError};

use proto::session::AgentMachine;
use tokio::sync::Notify;

/// The agent's machine behind a lock that is never held over an await.
#[derive(Debug)]
pub(crate) struct Machine {
    inner: Mutex<AgentMachine>,
    changed: Notify,
}

impl Machine {
    pub(crate) fn new(machine: AgentMachine) -> Self {
        Self {
            inner: Mutex::new(machine),
            changed: Notify::new(),
        }
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
