//! The agents' streams. Who speaks is what the client certificate says, and a member's state is reached by nothing else.

mod bounds;
pub mod members;
mod stream;
#[cfg(test)]
mod tests;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use crds::v1alpha1::MemberCluster;
use futures::StreamExt;
use proto::{
    SessionId,
    session::Rejection,
    transport::{
        identity::PeerIdentity,
        server::{remote, require_peer},
    },
    v1::{
        AgentMessage, EnrollRequest, EnrollResponse, Hello, HubMessage, Reject, RejectReason,
        agent_message, fleet_server, hub_message,
    },
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use self::stream::Stream;
use crate::{
    clock::Clock,
    enrollment::Enrollment,
    metrics::Metrics,
    observe::{Caches, Wakeups},
    place::Placer,
};

/// How long a stream may stay without a Hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// When an agent may try again while the caches fill.
const BUSY_RETRY_MS: u32 = 1_000;

/// The service that agents call.
pub struct Fleet {
    /// The hub's own objects.
    pub caches: Caches,
    /// Whom an agent's words wake.
    pub wakeups: Arc<Wakeups>,
    /// Tokens and certificates.
    pub enrollment: Arc<Enrollment>,
    /// What each cluster is to hold.
    pub placer: Arc<Placer>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The hub's clock.
    pub clock: Clock,
    /// The last session's id. Starts at the hub's start time, so that no id comes twice.
    pub sessions: AtomicU64,
}

#[tonic::async_trait]
impl fleet_server::Fleet for Service {
    type SessionStream = ReceiverStream<Result<HubMessage, Status>>;

    async fn enroll(
        &self,
        request: Request<EnrollRequest>,
    ) -> Result<Response<EnrollResponse>, Status> {
        let Self(fleet) = self;
        if !fleet.placer.is_ready() {
            return Err(Status::unavailable("the hub is starting; try again"));
        }
        let certificate_pem = fleet
            .enrollment
            .enroll(&fleet.caches.members, request.get_ref())
            .await?;
        Ok(Response::new(EnrollResponse { certificate_pem }))
    }

    async fn session(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let Self(fleet) = self;
        let (peer, remote) = (require_peer(&request)?.clone(), remote(&request));
        let mut inbox = request.into_inner();
        let (outbox, answers) = mpsc::channel(stream::OUTBOX);
        let first = tokio::time::timeout(HELLO_TIMEOUT, inbox.next()).await;
        let hello = match first {
            Ok(Some(Ok(AgentMessage {
                body: Some(agent_message::Body::Hello(hello)),
                ..
            }))) => hello,
            Ok(Some(Err(status))) => return Err(status),
            Ok(Some(Ok(_)) | None) | Err(_) => {
                let message = "the first message must be a Hello";
                return Ok(rejected(
                    &outbox,
                    answers,
                    reject(RejectReason::Malformed, message),
                ));
            }
        };
        match fleet.open(&peer, remote, &hello) {
            Ok(stream) => {
                tokio::spawn(stream.run(inbox, outbox));
                Ok(Response::new(ReceiverStream::new(answers)))
            }
            Err(rejection) => Ok(rejected(&outbox, answers, *rejection)),
        }
    }
}

/// What tonic serves.
pub struct Service(pub Arc<Fleet>);

impl Fleet {
    /// A moment of the wall clock, by the fleet's own.
    #[expect(
        clippy::disallowed_methods,
        reason = "certificates are dated by the wall clock, read at the edge"
    )]
    fn until(&self, moment: SystemTime) -> Duration {
        self.clock.elapsed() + moment.duration_since(SystemTime::now()).unwrap_or_default()
    }

    /// Opens the session of an authenticated agent, and fences its older one.
    fn open(
        self: &Arc<Self>,
        peer: &PeerIdentity,
        remote: Option<SocketAddr>,
        hello: &Hello,
    ) -> Result<Stream, Box<HubMessage>> {
        if !self.placer.is_ready() {
            let mut message = reject(RejectReason::Busy, "the hub is starting");
            if let Some(hub_message::Body::Reject(reject)) = &mut message.body {
                reject.retry_after_ms = BUSY_RETRY_MS;
            }
            return Err(Box::new(message));
        }
        let record = self.record(peer, hello)?;
        let member = self.placer.admit(&record).ok_or_else(|| {
            Box::new(reject(
                RejectReason::Removed,
                "the MemberCluster's name is no DNS label",
            ))
        })?;
        // Everything that the cluster is to hold must be wanted by the time its snapshot is made.
        for server in self.wakeups.concerned(member.name.as_str()) {
            self.placer.place(&server);
        }
        let status = record.status.as_ref();
        self.placer
            .let_go(&member, status.map_or(&[], |status| &status.released));
        let session = SessionId(self.sessions.fetch_add(1, Ordering::Relaxed));
        let mut state = member.lock();
        let fenced = state.machine.open(session, hello, self.clock.elapsed());
        let fenced = fenced.map_err(|rejection: Rejection| Box::new(rejection.message()))?;
        state.opened(session, hello, self.clock.now());
        drop(state);
        let remote = remote.map(tracing::field::display);
        tracing::info!(cluster = %member.name, %session, ?fenced, agent = hello.agent_version, serial = peer.serial, remote, "session opened");
        member.news.notify_waiters();
        self.wakeups.members.wake(member.name.as_str().to_owned());
        self.wakeups.wake_concerned(member.name.as_str());
        self.metrics.sessions.inc();
        Ok(Stream {
            fleet: Arc::clone(self),
            member,
            session,
            expires: self.until(peer.not_after),
        })
    }

    /// The MemberCluster of a certificate.
    fn record(
        &self,
        peer: &PeerIdentity,
        hello: &Hello,
    ) -> Result<Arc<MemberCluster>, Box<HubMessage>> {
        let uid = peer.member.member_uid();
        let of_this_hub = peer.member.hub_id() == self.enrollment.hub_id();
        let found = self
            .caches
            .members
            .filter(|record| record.metadata.uid.as_deref() == Some(uid));
        let Some(record) = found.into_iter().next().filter(|_| of_this_hub) else {
            let message = "the MemberCluster of this certificate does not exist: run `kubectl inferfleet join` again";
            return Err(Box::new(reject(RejectReason::Removed, message)));
        };
        let enrolled = record
            .status
            .as_ref()
            .and_then(|status| status.enrollment.as_ref());
        if enrolled.is_none_or(|enrolled| enrolled.cluster_uid != hello.cluster_uid) {
            let message = "another cluster enrolled under this certificate: run `kubectl inferfleet join` for this one";
            return Err(Box::new(reject(RejectReason::UidMismatch, message)));
        }
        Ok(record)
    }
}

/// Session ids of a later start are greater: the time is in their upper bits.
#[expect(clippy::disallowed_methods, reason = "read once, at the start")]
pub fn first_session() -> AtomicU64 {
    let since_epoch = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    AtomicU64::new((since_epoch.as_secs() << 20) + 1)
}

fn reject(reason: RejectReason, message: &str) -> HubMessage {
    HubMessage {
        session: 0,
        body: Some(hub_message::Body::Reject(Reject {
            reason: reason.into(),
            message: message.to_owned(),
            retry_after_ms: 0,
        })),
    }
}

fn rejected(
    outbox: &mpsc::Sender<Result<HubMessage, Status>>,
    answers: mpsc::Receiver<Result<HubMessage, Status>>,
    rejection: HubMessage,
) -> Response<ReceiverStream<Result<HubMessage, Status>>> {
    // The channel is new and empty: there is room.
    drop(outbox.try_send(Ok(rejection)));
    Response::new(ReceiverStream::new(answers))
}
