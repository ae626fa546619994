//! The stream that is open: its id and limits, its snapshot, and what it still owes.

use std::collections::BTreeSet;
use std::time::Duration;

use super::AgentEvent;
use crate::identifiers::{PlacementKey, SessionId};
use crate::session::liveness::{Limits, Liveness};
use crate::session::turns::Turns;
use crate::session::{PROTOCOL, Violation};
use crate::v1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    /// From Welcome; before it, nothing is said and nothing else is heard.
    pub(super) id: Option<SessionId>,
    pub(super) liveness: Liveness,
    /// Keys with something to answer.
    pub(super) answers: Turns,
    pub(super) renewal_sent: bool,
    /// The snapshot that is open, and how many messages came in it.
    snapshot: Option<(u64, u32)>,
    /// Placements that were held at Welcome and are not reported yet; `None` after `ReportsComplete`.
    unreported: Option<BTreeSet<PlacementKey>>,
}

impl Session {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            id: None,
            liveness: Liveness::new(Limits::default(), now),
            answers: Turns::default(),
            renewal_sent: false,
            snapshot: None,
            unreported: None,
        }
    }

    pub(super) fn welcome(
        &mut self,
        id: u64,
        welcome: v1::Welcome,
        unreported: BTreeSet<PlacementKey>,
        now: Duration,
    ) -> Result<AgentEvent, Violation> {
        let v1::Welcome {
            protocol,
            heartbeat_ms,
            silence_ms,
            hub_version,
        } = welcome;
        let (lowest, highest) = PROTOCOL;
        if !(lowest..=highest).contains(&protocol) {
            return Err(Violation::Version(protocol));
        }
        if heartbeat_ms == 0 || silence_ms <= heartbeat_ms {
            return Err(Violation::Limits {
                heartbeat_ms,
                silence_ms,
            });
        }
        if id == 0 {
            return Err(Violation::Unexpected("session 0"));
        }
        let limits = Limits {
            heartbeat: Duration::from_millis(heartbeat_ms.into()),
            silence: Duration::from_millis(silence_ms.into()),
        };
        self.id = Some(SessionId(id));
        self.liveness = Liveness::new(limits, now);
        self.unreported = Some(unreported);
        Ok(AgentEvent::Welcomed {
            session: SessionId(id),
            hub_version,
        })
    }

    pub(super) fn snapshot_begins(&mut self, id: u64) -> Result<(), Violation> {
        if self.snapshot.is_some() {
            return Err(Violation::Unexpected("a snapshot within a snapshot"));
        }
        self.snapshot = Some((id, 0));
        Ok(())
    }

    /// One more message of an open snapshot.
    pub(super) fn count(&mut self) {
        if let Some((_, count)) = &mut self.snapshot {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn snapshot_ends(&mut self, end: v1::SnapshotEnd) -> Result<(), Violation> {
        let v1::SnapshotEnd { id, count } = end;
        if self.snapshot != Some((id, count)) {
            return Err(Violation::Incomplete {
                id,
                count,
                open: self.snapshot.map(|(id, _)| id),
                counted: self.snapshot.map_or(0, |(_, counted)| counted),
            });
        }
        self.snapshot = None;
        Ok(())
    }

    /// Nothing more is to come of this key before `ReportsComplete`.
    pub(super) fn reported(&mut self, key: &PlacementKey) {
        if let Some(unreported) = &mut self.unreported {
            unreported.remove(key);
        }
    }

    /// True once, when all that was held at Welcome is reported.
    pub(super) fn complete(&mut self) -> bool {
        let complete = self.unreported.take_if(|unreported| unreported.is_empty());
        complete.is_some()
    }
}
