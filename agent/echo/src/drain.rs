//! What is in flight, so that a terminating process first turns unready and then ends with nothing lost.
//!
//! Owns the count and the word that draining began. Must not decide when: that is `run`'s.

use std::sync::Arc;

use tokio::sync::watch;

/// Shared by the server and its shutdown. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Drain {
    state: Arc<watch::Sender<State>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    draining: bool,
    in_flight: u64,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            state: Arc::new(watch::Sender::new(State::default())),
        }
    }
}

impl Drain {
    /// From now on the server is not ready.
    pub fn begin(&self) {
        self.state.send_modify(|state| state.draining = true);
    }

    /// Whether draining began.
    pub fn has_begun(&self) -> bool {
        self.state.borrow().draining
    }

    /// Counts one request until the guard is dropped.
    pub(crate) fn enter(&self) -> InFlight {
        self.state
            .send_modify(|state| state.in_flight = state.in_flight.saturating_add(1));
        InFlight(self.clone())
    }

    /// Draining began and nothing is in flight.
    pub async fn idle(&self) {
        let mut changes = self.state.subscribe();
        // The sender lives in `self`: waiting can't fail.
        let _idle = changes
            .wait_for(|state| state.draining && state.in_flight == 0)
            .await;
    }
}

/// One request in flight.
#[derive(Debug)]
pub(crate) struct InFlight(Drain);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0
            .state
            .send_modify(|state| state.in_flight = state.in_flight.saturating_sub(1));
    }
}
