//! One agent's stream: drives the session's machine with messages, time and news. Reads from no API server.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use operator::cache::ObjectKey;
use proto::{
    PlacementKey, SessionId,
    session::HubEvent,
    v1::{AgentMessage, HubMessage},
};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::{
    Fleet,
    members::{Member, MemberState},
};

/// What the stream's task may have written and the network not yet taken. Full: the machine keeps the rest as state per
/// key, and the newest value goes when there is room.
pub(super) const OUTBOX: usize = 16;

type Outbox = mpsc::Sender<Result<HubMessage, Status>>;

/// How long a stream that takes nothing is left alone: heartbeats can't go either.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// One session's stream. Dropping it ends the session, however its task ends.
pub(super) struct Stream {
    pub(super) fleet: Arc<Fleet>,
    pub(super) member: Arc<Member>,
    pub(super) session: SessionId,
    /// When the agent's certificate ends, by the fleet's clock: TLS looks at it when a connection is made, and never again.
    pub(super) expires: Duration,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.fleet.metrics.sessions.dec();
        if self
            .member
            .lock()
            .closed(self.session, self.fleet.clock.now())
        {
            self.fleet.placer.fleet_changed();
            self.fleet.wakeups.wake_concerned(self.member.name.as_str());
            self.fleet
                .wakeups
                .members
                .wake(self.member.name.as_str().to_owned());
        }
    }
}

impl Stream {
    /// Runs until the stream ends, a newer session fences it, nothing is heard for too long, or the certificate ends.
    pub(super) async fn run(self, mut inbox: Streaming<AgentMessage>, outbox: Outbox) {
        let (cluster, session) = (&self.member.name, self.session);
        loop {
            let news = self.member.news.notified();
            let mut news = std::pin::pin!(news);
            news.as_mut().enable();
            if !self.transmit(&outbox) {
                break;
            }
            let wait = match self.patience() {
                Ok(wait) => wait,
                Err(status) => {
                    tracing::info!(%cluster, %session, reason = status.message(), "session over");
                    // A full or closed outbox: the stream ends all the same.
                    drop(outbox.try_send(Err(status)));
                    break;
                }
            };
            let full = outbox.capacity() == 0;
            let wait = if full { wait.max(FULL_PAUSE) } else { wait };
            tokio::select! {
                () = news, if !full => {}
                () = tokio::time::sleep(wait) => {}
                permit = outbox.reserve(), if full => drop(permit),
                message = inbox.next() => match message {
                    Some(Ok(message)) => {
                        if let Err(violation) = self.hear(message) {
                            tracing::warn!(%cluster, %session, %violation, "session ended");
                            let status = Status::failed_precondition(violation.to_string());
                            // A full or closed outbox: the stream ends all the same.
                            drop(outbox.try_send(Err(status)));
                            break;
                        }
                    }
                    Some(Err(status)) => {
                        tracing::info!(%cluster, %session, %status, "stream broken");
                        break;
                    }
                    None => {
                        tracing::info!(%cluster, %session, "stream closed");
                        break;
                    }
                }
            }
        }
    }

    /// Sends what the machine has to say and the outbox has room for. False: the stream can't be written any more.
    fn transmit(&self, outbox: &Outbox) -> bool {
        loop {
            let permit = match outbox.try_reserve() {
                Ok(permit) => permit,
                Err(mpsc::error::TrySendError::Full(())) => return true,
                Err(mpsc::error::TrySendError::Closed(())) => return false,
            };
            let message = self
                .member
                .lock()
                .machine
                .transmit(self.session, self.fleet.clock.elapsed());
            match message {
                Some(message) => permit.send(Ok(message)),
                None => return true,
            }
        }
    }

    /// How long the session may rest. When it is over, what the agent is told of it: its log is all that shows why.
    fn patience(&self) -> Result<Duration, Status> {
        let now = self.fleet.clock.elapsed();
        let state = self.member.lock();
        if state.dismissed {
            return Err(Status::aborted("the MemberCluster was deleted"));
        }
        let next = state.machine.deadline(self.session);
        let next =
            next.ok_or_else(|| Status::aborted("a newer session of this cluster took over"))?;
        if now >= self.expires {
            return Err(Status::unauthenticated("the client certificate ended"));
        }
        if state.machine.expired(self.session, now) {
            return Err(Status::deadline_exceeded("the agent was silent"));
        }
        Ok(next.min(self.expires).saturating_sub(now))
    }

    fn hear(&self, message: AgentMessage) -> Result<(), proto::session::Violation> {
        let Self {
            fleet,
            member,
            session,
            ..
        } = self;
        let mut state = member.lock();
        for event in state
            .machine
            .receive(*session, message, fleet.clock.elapsed())?
        {
            match event {
                HubEvent::Received { key, generation } => {
                    tracing::debug!(cluster = %member.name, %key, generation, "value received");
                }
                HubEvent::Applied { key, generation } => {
                    state.applied(&key, generation);
                    fleet.wake(&key);
                }
                HubEvent::Refused { key, refusal } => {
                    state.refused(key.clone(), refusal);
                    fleet.wake(&key);
                }
                HubEvent::Removed { key, uid } => {
                    state.removed(&key, &uid);
                    fleet.wake(&key);
                    // A record of it may go, and a cluster that leaves may be empty now.
                    fleet.wakeups.members.wake(member.name.as_str().to_owned());
                }
                HubEvent::Placement { key, report } => {
                    self.seen(&state, &key, report.age_us);
                    state.placement_reported(key.clone(), report);
                    fleet.wake(&key);
                }
                HubEvent::Endpoint { key, report } => {
                    self.seen(&state, &key, report.age_us);
                    state.endpoint_reported(key.clone(), report);
                    fleet.wake(&key);
                }
                HubEvent::ReportsComplete => {
                    state.complete(fleet.clock.now());
                    fleet.placer.fleet_changed();
                    fleet.wakeups.wake_concerned(member.name.as_str());
                }
                HubEvent::Renew {
                    certificate_request,
                } => {
                    match fleet.enrollment.issue(&certificate_request, &member.uid) {
                        Ok(certificate_pem) => state.machine.certificate(*session, certificate_pem),
                        // The agent asks again in its next session, and its certificate is good until then.
                        Err(error) => {
                            tracing::warn!(cluster = %member.name, %error, "renewal refused");
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Notes when an agent saw what it reports, of what it was told only: it can't fill the hub's memory.
    fn seen(&self, state: &MemberState, key: &PlacementKey, age_us: Option<u64>) {
        let Some(age) = age_us.map(Duration::from_micros) else {
            return;
        };
        if state.machine.is_known(key) {
            let Self { fleet, member, .. } = self;
            let at = fleet.clock.elapsed().saturating_sub(age);
            let server = ObjectKey::new(key.namespace(), key.name());
            let propagation = &fleet.metrics.propagation;
            propagation.reported(server, &member.name, at);
        }
    }
}

impl Fleet {
    fn wake(&self, key: &PlacementKey) {
        self.wakeups
            .servers
            .wake(ObjectKey::new(key.namespace(), key.name()));
    }
}
