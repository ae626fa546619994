//! A hub that signs what it is asked, welcomes whoever has a certificate, and says what it hears.

use std::{
    pin::Pin,
    sync::Mutex,
    time::{Duration, SystemTime},
};

use proto::{
    Hash,
    transport::{
        authority::{Authority, Validity},
        identity::{CertificateRequest, MemberUri},
        server::{Admission, ServerTls, require_peer, serve},
    },
    v1::{
        self, AgentMessage, HubMessage, agent_message::Body as Said, fleet_server::Fleet,
        hub_message::Body,
    },
};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming};

pub(super) const YEAR: Duration = Duration::from_hours(24 * 365);
pub(super) const SERVER_NAME: &str = "inferfleet-hub";

/// What a hub hears, with the fingerprint of the key that is spoken of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Enrol(String, Hash),
    Hello,
    Renew(Hash),
}

pub(super) struct Hub {
    pub(super) address: String,
    pub(super) authority_pem: String,
    pub(super) heard: mpsc::Receiver<Heard>,
}

/// `first` years since 1970, until `last`.
fn years(first: u32, last: u32) -> Validity {
    Validity {
        not_before: SystemTime::UNIX_EPOCH + first * YEAR,
        not_after: SystemTime::UNIX_EPOCH + last * YEAR,
    }
}

impl Hub {
    /// Certificates are good from year 50 to 130, renewed ones from year 110 to 170. The first `refusals` enrollments fail.
    pub(super) async fn start(refusals: u32) -> Self {
        let kept = Authority::create("hub-1", years(50, 130)).unwrap();
        let authority = Authority::load(&kept).unwrap();
        let names = [SERVER_NAME.to_owned()];
        let certificate = authority.issue_server(&names, years(50, 130)).unwrap();
        let tls = ServerTls::new(&certificate, &kept.certificate_pem).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (hears, heard) = mpsc::channel(16);
        let service = Service {
            authority: authority.into(),
            refusals: Mutex::new(refusals),
            hears,
        };
        let forever = std::future::pending();
        // Ends with the test's runtime.
        tokio::spawn(serve(listener, tls, Admission::default(), service, forever));
        Self {
            address,
            authority_pem: kept.certificate_pem,
            heard,
        }
    }
}

struct Service {
    authority: std::sync::Arc<Authority>,
    refusals: Mutex<u32>,
    hears: mpsc::Sender<Heard>,
}

fn sign(authority: &Authority, request: &CertificateRequest, validity: Validity) -> String {
    let member = MemberUri::new("hub-1", "member").unwrap();
    authority.issue_client(request, &member, validity).unwrap()
}

#[tonic::async_trait]
impl Fleet for Service {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<HubMessage, Status>> + Send>>;

    async fn enroll(
        &self,
        request: Request<v1::EnrollRequest>,
    ) -> Result<Response<v1::EnrollResponse>, Status> {
        let v1::EnrollRequest {
            token,
            certificate_request,
            ..
        } = request.into_inner();
        let request = CertificateRequest::from_der(&certificate_request).unwrap();
        let heard = Heard::Enrol(token, request.key_fingerprint());
        self.hears.send(heard).await.unwrap();
        {
            let mut refusals = self.refusals.lock().unwrap();
            if *refusals > 0 {
                *refusals -= 1;
                return Err(Status::unavailable("the answer is lost"));
            }
        }
        let certificate_pem = sign(&self.authority, &request, years(50, 130));
        Ok(Response::new(v1::EnrollResponse { certificate_pem }))
    }

    async fn session(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        require_peer(&request)?;
        let (hears, authority) = (self.hears.clone(), std::sync::Arc::clone(&self.authority));
        let mut incoming = request.into_inner();
        let (outgoing, answers) = mpsc::channel(16);
        tokio::spawn(async move {
            while let Ok(Some(message)) = incoming.message().await {
                let body = match message.body {
                    Some(Said::Hello(_)) => {
                        hears.send(Heard::Hello).await.unwrap();
                        Body::Welcome(v1::Welcome {
                            protocol: 1,
                            heartbeat_ms: 10_000,
                            silence_ms: 40_000,
                            hub_version: String::new(),
                        })
                    }
                    Some(Said::Renew(renew)) => {
                        let request =
                            CertificateRequest::from_der(&renew.certificate_request).unwrap();
                        let heard = Heard::Renew(request.key_fingerprint());
                        hears.send(heard).await.unwrap();
                        let certificate_pem = sign(&authority, &request, years(110, 170));
                        Body::Certificate(v1::Certificate { certificate_pem })
                    }
                    _ => continue,
                };
                let message = HubMessage {
                    session: 1,
                    body: Some(body),
                };
                outgoing.send(message).await.unwrap();
            }
        });
        Ok(Response::new(Box::pin(
            ReceiverStream::new(answers).map(Ok),
        )))
    }
}
