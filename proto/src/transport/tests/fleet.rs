//! A hub that says who it hears, on a loopback port of its own.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::transport::authority::{Authority, KeyedCertificate, Validity};
use crate::transport::client::Dialer;
use crate::transport::identity::{AgentKey, CertificateRequest, MemberUri, PeerIdentity};
use crate::transport::server::{Admission, ServerTls, require_peer, serve};
use crate::v1;
use crate::v1::fleet_client::FleetClient;
use crate::v1::fleet_server::Fleet;
use crate::v1::hub_message::Body;
use crate::v1::{AgentMessage, HubMessage};

const YEAR: Duration = Duration::from_hours(24 * 365);

/// 2020 to 2100.
pub(super) fn valid() -> Validity {
    Validity {
        not_before: SystemTime::UNIX_EPOCH + 50 * YEAR,
        not_after: SystemTime::UNIX_EPOCH + 130 * YEAR,
    }
}

/// 2020 to 2021.
pub(super) fn expired() -> Validity {
    Validity {
        not_after: SystemTime::UNIX_EPOCH + 51 * YEAR,
        ..valid()
    }
}

pub(super) fn member() -> MemberUri {
    MemberUri::new("hub-1", "uid-1").unwrap()
}

/// An authority, and its own certificate.
pub(super) fn authority() -> (Authority, String) {
    let kept = Authority::create("hub-1", valid()).unwrap();
    (Authority::load(&kept).unwrap(), kept.certificate_pem)
}

pub(super) fn server_certificate(authority: &Authority) -> KeyedCertificate {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    authority.issue_server(&names, valid()).unwrap()
}

pub(super) fn client_certificate(authority: &Authority, validity: Validity) -> KeyedCertificate {
    let key = AgentKey::generate().unwrap();
    let request = CertificateRequest::from_der(&key.certificate_request().unwrap()).unwrap();
    KeyedCertificate {
        certificate_pem: authority
            .issue_client(&request, &member(), validity)
            .unwrap(),
        key_pem: key.pem(),
    }
}

/// Signs what it is asked, and answers each message of a session by the peer's serial number.
pub(super) struct Hub {
    authority: Authority,
    pub(super) peers: Arc<Mutex<Vec<PeerIdentity>>>,
}

#[tonic::async_trait]
impl Fleet for Hub {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<HubMessage, Status>> + Send>>;

    async fn enroll(
        &self,
        request: Request<v1::EnrollRequest>,
    ) -> Result<Response<v1::EnrollResponse>, Status> {
        let request = request.into_inner();
        if request.token == "never" {
            std::future::pending::<()>().await;
        }
        let request = CertificateRequest::from_der(&request.certificate_request)?;
        let certificate_pem = self.authority.issue_client(&request, &member(), valid())?;
        Ok(Response::new(v1::EnrollResponse { certificate_pem }))
    }

    async fn session(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let peer = require_peer(&request)?.clone();
        self.peers.lock().unwrap().push(peer.clone());
        let answers = request.into_inner().map(move |message| {
            message.map(|AgentMessage { session, .. }| HubMessage {
                session,
                body: Some(Body::Welcome(v1::Welcome {
                    hub_version: peer.serial.clone(),
                    ..v1::Welcome::default()
                })),
            })
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

/// A running hub.
pub(super) struct Serving {
    pub(super) address: SocketAddr,
    pub(super) tls: ServerTls,
    /// Who opened a session.
    pub(super) peers: Arc<Mutex<Vec<PeerIdentity>>>,
}

impl Serving {
    pub(super) async fn start(authority: Authority, trust_pem: &str, admission: Admission) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = ServerTls::new(&server_certificate(&authority), trust_pem).unwrap();
        let peers = Arc::new(Mutex::new(Vec::new()));
        let hub = Hub {
            authority,
            peers: Arc::clone(&peers),
        };
        // Ends with the test's runtime.
        tokio::spawn(serve(
            listener,
            tls.clone(),
            admission,
            hub,
            std::future::pending(),
        ));
        Self {
            address,
            tls,
            peers,
        }
    }

    pub(super) fn dialer(&self, trust_pem: &str) -> Dialer {
        Dialer::new(&self.address.to_string(), "localhost", trust_pem).unwrap()
    }
}

pub(super) async fn enroll(
    client: &mut FleetClient<Channel>,
    token: &str,
    certificate_request: Bytes,
) -> Result<String, Status> {
    let request = v1::EnrollRequest {
        token: token.to_owned(),
        certificate_request,
        cluster_uid: "cluster".to_owned(),
    };
    Ok(client.enroll(request).await?.into_inner().certificate_pem)
}

/// An open session: what is sent comes back with the serial number that the hub saw.
pub(super) struct Session {
    sender: mpsc::Sender<AgentMessage>,
    answers: Streaming<HubMessage>,
}

impl Session {
    pub(super) async fn open(client: &mut FleetClient<Channel>) -> Result<Self, Status> {
        let (sender, receiver) = mpsc::channel(1);
        let answers = client
            .session(ReceiverStream::new(receiver))
            .await?
            .into_inner();
        Ok(Self { sender, answers })
    }

    pub(super) async fn serial_seen(&mut self) -> String {
        self.send().await;
        self.answer().await
    }

    pub(super) async fn send(&self) {
        let message = AgentMessage {
            session: 1,
            body: None,
        };
        self.sender.send(message).await.unwrap();
    }

    pub(super) async fn answer(&mut self) -> String {
        match self.answers.message().await.unwrap().unwrap().body {
            Some(Body::Welcome(welcome)) => welcome.hub_version,
            other => panic!("{other:?}"),
        }
    }
}
