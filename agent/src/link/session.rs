//! One open stream: what comes in, what goes out, and its deadlines, in one task that waits for nothing else.

use std::time::Duration;

use proto::{
    session::AgentEvent,
    v1::{AgentMessage, HubMessage, fleet_client::FleetClient},
};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep_until, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::{Link, LinkError};

/// Messages between the machine and the stream. When it is full, nothing is taken out of the machine, which keeps only
/// the newest of each key.
const OUTGOING: usize = 16;
/// From the request to the answer's headers.
const OPEN_TIMEOUT: Duration = Duration::from_secs(20);

impl Link {
    /// Opens the stream and drives the machine until the stream ends. Sets `welcomed` once the hub has opened the session.
    pub(super) async fn drive(
        &self,
        mut client: FleetClient<Channel>,
        certificates: &watch::Sender<Option<String>>,
        welcomed: &mut bool,
    ) -> Result<(), LinkError> {
        let (outgoing, stream) = mpsc::channel(OUTGOING);
        let hello = self
            .machine
            .drive(|machine| machine.connect(&self.info, self.machine.elapsed()));
        // There is room, and the receiver lives in the request below.
        outgoing
            .send(hello)
            .await
            .map_err(|_closed| LinkError::Ended)?;
        let opened = timeout(OPEN_TIMEOUT, client.session(ReceiverStream::new(stream)))
            .await
            .map_err(|_elapsed| LinkError::Silent)?;
        let mut incoming = opened.map_err(LinkError::Open)?.into_inner();
        loop {
            let full = self.say(&outgoing)?;
            // A heartbeat that is due and has no room waits for that.
            let deadline = self.machine.drive(|machine| {
                if full {
                    machine.silence_ends()
                } else {
                    machine.deadline()
                }
            });
            let deadline = deadline.ok_or(LinkError::Silent)?;
            tokio::select! {
                message = incoming.message() => self.hear(message, certificates, welcomed)?,
                () = self.machine.changed(), if !full => {}
                permit = outgoing.reserve(), if full => drop(permit.map_err(|_closed| LinkError::Ended)?),
                () = sleep_until(self.machine.moment(deadline)) => {}
            }
            if self
                .machine
                .drive(|machine| machine.expired(self.machine.elapsed()))
            {
                return Err(LinkError::Silent);
            }
        }
    }

    /// Says all that there is to say and room for; returns whether room is what lacks.
    fn say(&self, outgoing: &mpsc::Sender<AgentMessage>) -> Result<bool, LinkError> {
        loop {
            let permit = match outgoing.try_reserve() {
                Ok(permit) => permit,
                Err(mpsc::error::TrySendError::Full(())) => return Ok(true),
                Err(mpsc::error::TrySendError::Closed(())) => return Err(LinkError::Ended),
            };
            match self
                .machine
                .drive(|machine| machine.transmit(self.machine.elapsed()))
            {
                Some(message) => permit.send(message),
                None => return Ok(false),
            }
        }
    }

    fn hear(
        &self,
        message: Result<Option<HubMessage>, tonic::Status>,
        certificates: &watch::Sender<Option<String>>,
        welcomed: &mut bool,
    ) -> Result<(), LinkError> {
        let message = message
            .map_err(LinkError::Broken)?
            .ok_or(LinkError::Ended)?;
        let events = self.machine.drive(|machine| {
            let events = machine.receive(message, self.machine.elapsed())?;
            // Under the machine's lock: words are taken in their order.
            for event in &events {
                self.wishes.take(event.clone());
            }
            Ok::<_, LinkError>(events)
        })?;
        for event in events {
            match event {
                AgentEvent::Welcomed {
                    session,
                    hub_version,
                    ..
                } => {
                    tracing::info!(%session, hub_version, "session open");
                    *welcomed = true;
                    self.connected.set(1);
                }
                AgentEvent::Rejected {
                    reason,
                    message,
                    retry_after,
                } => {
                    return Err(LinkError::Rejected {
                        reason,
                        message,
                        retry_after,
                    });
                }
                AgentEvent::Certificate { certificate_pem } => {
                    certificates.send_replace(Some(certificate_pem));
                }
                AgentEvent::Desired { .. }
                | AgentEvent::Tombstone { .. }
                | AgentEvent::Absent { .. } => {}
            }
        }
        Ok(())
    }
}
