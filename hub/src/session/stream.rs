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

use super::{Fleet, members::Member};

/// What the stream's task may have written and the network not yet taken. Full: the machine keeps the rest as state per
/// key, and the newest value goes when there is room.
pub(super) const OUTBOX: usize = 16;

/// Runs one session until its stream ends, a newer session fences it, or nothing is heard for too long.
pub(super) async fn run(
    fleet: Arc<Fleet>,
    member: Arc<Member>,
    session: SessionId,
    mut inbox: Streaming<AgentMessage>,
    outbox: mpsc::Sender<Result<HubMessage, Status>>,
) {
    let cluster = &member.name;
    loop {
        let news = member.news.notified();
        let mut news = std::pin::pin!(news);
        news.as_mut().enable();
        if !transmit(&fleet, &member, session, &outbox) {
            break;
        }
        let Some(wait) = patience(&fleet, &member, session) else {
            tracing::info!(%cluster, %session, "session over");
            break;
        };
        tokio::select! {
            () = news => {}
            () = tokio::time::sleep(wait) => {}
            // Only while the outbox is full: else there is nothing to send.
            permit = outbox.reserve(), if outbox.capacity() == 0 => drop(permit),
            message = inbox.next() => match message {
                Some(Ok(message)) => {
                    if let Err(violation) = hear(&fleet, &member, session, message) {
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
    close(&fleet, &member, session);
}

/// Sends what the machine has to say and the outbox has room for. False: the stream can't be written any more.
fn transmit(
    fleet: &Fleet,
    member: &Member,
    session: SessionId,
    outbox: &mpsc::Sender<Result<HubMessage, Status>>,
) -> bool {
    loop {
        let permit = match outbox.try_reserve() {
            Ok(permit) => permit,
            Err(mpsc::error::TrySendError::Full(())) => return true,
            Err(mpsc::error::TrySendError::Closed(())) => return false,
        };
        let Some(message) = member.lock().machine.transmit(session, fleet.elapsed()) else {
            return true;
        };
        permit.send(Ok(message));
    }
}

/// How long the session may rest; `None`: it is over.
fn patience(fleet: &Fleet, member: &Member, session: SessionId) -> Option<Duration> {
    let now = fleet.elapsed();
    let state = member.lock();
    if state.dismissed || state.machine.expired(session, now) {
        return None;
    }
    Some(state.machine.deadline(session)?.saturating_sub(now))
}

fn hear(
    fleet: &Fleet,
    member: &Member,
    session: SessionId,
    message: AgentMessage,
) -> Result<(), proto::session::Violation> {
    let mut state = member.lock();
    for event in state.machine.receive(session, message, fleet.elapsed())? {
        match event {
            HubEvent::Received { .. } => {}
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
            }
            HubEvent::Placement { key, report } => {
                state.placement_reported(key.clone(), report);
                fleet.wake(&key);
            }
            HubEvent::Endpoint { key, report } => {
                state.endpoint_reported(key.clone(), report);
                fleet.wake(&key);
            }
            HubEvent::ReportsComplete => {
                state.reports_complete = true;
                fleet.wakeups.wake_targeting(member.name.as_str());
            }
            HubEvent::Renew {
                certificate_request,
            } => {
                match fleet.enrollment.issue(&certificate_request, &member.uid) {
                    Ok(certificate_pem) => state.machine.certificate(session, certificate_pem),
                    // The agent asks again in its next session, and its certificate is good until then.
                    Err(error) => tracing::warn!(cluster = %member.name, %error, "renewal refused"),
                }
            }
        }
    }
    Ok(())
}

fn close(fleet: &Fleet, member: &Member, session: SessionId) {
    if member.lock().closed(session) {
        fleet.wakeups.wake_targeting(member.name.as_str());
        fleet.wakeups.members.wake(member.name.as_str().to_owned());
    }
}

impl Fleet {
    fn wake(&self, key: &PlacementKey) {
        self.wakeups
            .servers
            .wake(ObjectKey::new(key.namespace(), key.name()));
    }
}
