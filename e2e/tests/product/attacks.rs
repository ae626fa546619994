//! An agent of one member can't act for another: `east` lies, `west` is what it lies about.

use std::time::Duration;

use crds::v1alpha1::{InferenceServer, MemberCluster, ServerPlacement};
use e2e::Installed;
use e2e::installed::NAMESPACE;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use proto::transport::authority::KeyedCertificate;
use proto::transport::client::Dialer;
use proto::transport::identity::PeerIdentity;
use proto::v1::agent_message::Body as Say;
use proto::v1::hub_message::Body as Said;
use proto::v1::{
    AgentMessage, Applied, EndpointReport, Hello, HubMessage, Key, PlacementReport, RejectReason,
    Removed, RenewRequest, ReportsComplete, Step, StepReport, Verdict,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::endpoints::{agents, without_agent};
use super::joining::{Printed, easts_identity};
use super::{alone, serving, slices};

/// Who a certificate names.
pub(crate) fn peer(pem: &[u8]) -> PeerIdentity {
    PeerIdentity::of(&CertificateDer::from_pem_slice(pem).unwrap()).unwrap()
}

/// A stream that holds east's certificate, and says what the test wants.
struct Liar {
    say: mpsc::Sender<AgentMessage>,
    heard: Streaming<HubMessage>,
    _forward: e2e::Forward,
}

impl Liar {
    async fn start(fleet: &Installed, hello: Hello) -> Self {
        let data = easts_identity(fleet).await;
        let text = |name: &str| String::from_utf8(data[name].0.clone()).unwrap();
        let identity = KeyedCertificate {
            certificate_pem: text("tls.crt"),
            key_pem: text("tls.key"),
        };
        let printed: Printed =
            serde_saphyr::from_str(&fleet.invite("unused").await.unwrap()).unwrap();
        let forward = fleet
            .hub()
            .forward(printed.hub.address.parse().unwrap())
            .unwrap();
        let address = forward.address().to_string();
        let dialer = Dialer::new(&address, &printed.hub.server_name, &printed.hub.ca).unwrap();
        dialer.present(&identity).unwrap();
        let (say, messages) = mpsc::channel(16);
        say.send(AgentMessage {
            session: 0,
            body: Some(Say::Hello(hello)),
        })
        .await
        .unwrap();
        let stream = dialer
            .dial()
            .await
            .unwrap()
            .session(ReceiverStream::new(messages))
            .await
            .unwrap();
        Self {
            say,
            heard: stream.into_inner(),
            _forward: forward,
        }
    }

    async fn hears(&mut self) -> Option<Result<HubMessage, tonic::Status>> {
        tokio::time::timeout(Duration::from_secs(20), self.heard.next())
            .await
            .unwrap()
    }

    async fn says(&self, session: u64, body: Say) {
        self.say
            .send(AgentMessage {
                session,
                body: Some(body),
            })
            .await
            .unwrap();
    }

    /// Returns what the hub said when it ended the stream. It hands out no certificate before.
    async fn hears_the_end(&mut self) -> tonic::Status {
        loop {
            match self.hears().await {
                Some(Ok(message)) => assert!(
                    !matches!(message.body, Some(Said::Certificate(_))),
                    "{message:?}"
                ),
                Some(Err(status)) => return status,
                None => panic!("the stream was closed without a word"),
            }
        }
    }

    /// Returns the id of the session that the hub opened.
    async fn welcomed(&mut self) -> u64 {
        let message = self.hears().await.unwrap().unwrap();
        assert!(
            matches!(message.body, Some(Said::Welcome(_))),
            "{message:?}"
        );
        message.session
    }
}

async fn hello(fleet: &Installed, cluster: &str) -> Hello {
    let namespaces: Api<Namespace> =
        Api::all(fleet.member(cluster).unwrap().client().await.unwrap());
    let system = namespaces.get("kube-system").await.unwrap();
    Hello {
        protocol_min: 1,
        protocol_max: 1,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        kubernetes_version: "v1.37.2".to_owned(),
        cluster_uid: system.metadata.uid.unwrap(),
        held: Vec::new(),
    }
}

/// A certificate request that asks for the name of another member.
async fn asking_for(fleet: &Installed, cluster: &str) -> bytes::Bytes {
    let hub = fleet.hub().client().await.unwrap();
    let members: Api<MemberCluster> = Api::all(hub.clone());
    let uid = members.get(cluster).await.unwrap().metadata.uid.unwrap();
    let namespaces: Api<Namespace> = Api::all(hub);
    let hub_id = namespaces
        .get("kube-system")
        .await
        .unwrap()
        .metadata
        .uid
        .unwrap();
    let name = format!("spiffe://{hub_id}/membercluster/{uid}");
    let mut params = rcgen::CertificateParams::default();
    params.subject_alt_names = vec![rcgen::SanType::URI(name.as_str().try_into().unwrap())];
    let key = rcgen::KeyPair::generate().unwrap();
    let request = params.serialize_request(&key).unwrap();
    request.der().to_vec().into()
}

/// The id of a member's live session, as the hub's log tells it together with where it came from.
async fn session_of(fleet: &Installed, cluster: &str) -> u64 {
    let pod = super::faults::hub_pod(fleet).await;
    let log = std::fs::read_to_string(fleet.hub().pod_log(NAMESPACE, &pod, "hub")).unwrap();
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut opened = lines.filter(|line| {
        let fields = &line["fields"];
        fields["message"] == "session opened" && fields["cluster"] == cluster
    });
    let last = opened.next_back().unwrap();
    let remote: std::net::SocketAddr = last["fields"]["remote"].as_str().unwrap().parse().unwrap();
    assert_ne!(remote.port(), 0, "{last}");
    last["fields"]["session"].as_str().unwrap().parse().unwrap()
}

/// The versions of everything that is west's.
async fn versions(fleet: &Installed, namespace: &str) -> Vec<(String, Option<String>)> {
    let hub = fleet.hub().client().await.unwrap();
    let servers: Api<InferenceServer> = Api::namespaced(hub.clone(), namespace);
    let members: Api<MemberCluster> = Api::all(hub);
    let west = fleet.member("west").unwrap().client().await.unwrap();
    let placements: Api<ServerPlacement> = Api::namespaced(west, namespace);
    let slice: EndpointSlice = slices(fleet.hub(), namespace)
        .await
        .get("hello-endpoints-west-ipv4-0")
        .await
        .unwrap();
    vec![
        (
            "InferenceServer".to_owned(),
            servers
                .get("hello")
                .await
                .unwrap()
                .metadata
                .resource_version,
        ),
        (
            "MemberCluster".to_owned(),
            members.get("west").await.unwrap().metadata.resource_version,
        ),
        (
            "ServerPlacement".to_owned(),
            placements
                .get("hello")
                .await
                .unwrap()
                .metadata
                .resource_version,
        ),
        ("EndpointSlice".to_owned(), slice.metadata.resource_version),
    ]
}

/// Everything that an agent can say of west's placement.
fn lies(namespace: &str, uid: &str) -> Vec<Say> {
    let key = Some(Key {
        namespace: namespace.to_owned(),
        name: "hello".to_owned(),
    });
    let failed = StepReport {
        step: Step::Health.into(),
        verdict: Verdict::False.into(),
        reason: "Lie".to_owned(),
        message: "of east".to_owned(),
    };
    vec![
        Say::Endpoint(EndpointReport {
            key: key.clone(),
            uid: uid.to_owned(),
            addresses: vec!["198.18.99.99".to_owned()],
            port: 666,
            ..EndpointReport::default()
        }),
        Say::Placement(PlacementReport {
            key: key.clone(),
            uid: uid.to_owned(),
            generation: 1,
            steps: vec![failed],
            ..PlacementReport::default()
        }),
        Say::Applied(Applied {
            key: key.clone(),
            generation: 0,
        }),
        Say::ReportsComplete(ReportsComplete {}),
        Say::Removed(Removed {
            key,
            uid: uid.to_owned(),
        }),
    ]
}

#[tokio::test]
async fn with_easts_certificate_nothing_of_wests_can_be_changed() {
    let fleet = alone().await;
    let server = serving(&fleet, "lied-about", &["west"]).await;
    let uid = server.metadata.uid.unwrap();
    // East's own agent would fence the liar's sessions, and be fenced by them, for as long as both dial.
    without_agent(&fleet, "east").await;
    let before = versions(&fleet, "lied-about").await;

    // As west: its UID in the Hello.
    let mut liar = Liar::start(&fleet, hello(&fleet, "west").await).await;
    let answer = liar.hears().await.unwrap().unwrap();
    let Some(Said::Reject(reject)) = answer.body else {
        panic!("{answer:?}")
    };
    assert_eq!(reject.reason(), RejectReason::UidMismatch);

    // On east's own session, of west's keys; then a renewal that asks for west's name.
    let mut liar = Liar::start(&fleet, hello(&fleet, "east").await).await;
    let session = liar.welcomed().await;
    for lie in lies("lied-about", &uid) {
        liar.says(session, lie).await;
    }
    let certificate_request = asking_for(&fleet, "west").await;
    liar.says(
        session,
        Say::Renew(RenewRequest {
            certificate_request,
        }),
    )
    .await;
    let certificate = loop {
        let message = liar.hears().await.unwrap().unwrap();
        if let Some(Said::Certificate(certificate)) = message.body {
            break certificate;
        }
    };
    let members: Api<MemberCluster> = Api::all(fleet.hub().client().await.unwrap());
    let east = members.get("east").await.unwrap();
    let named = peer(certificate.certificate_pem.as_bytes());
    assert_eq!(
        Some(named.member.member_uid()),
        east.metadata.uid.as_deref()
    );

    // On west's session: by its own id, on a stream of east's.
    let wests = session_of(&fleet, "west").await;
    let renewal = Say::Renew(RenewRequest {
        certificate_request: asking_for(&fleet, "west").await,
    });
    for lie in lies("lied-about", &uid).into_iter().chain([renewal]) {
        let mut liar = Liar::start(&fleet, hello(&fleet, "east").await).await;
        liar.welcomed().await;
        liar.says(wests, lie).await;
        let ended = liar.hears_the_end().await;
        assert_eq!(ended.code(), tonic::Code::FailedPrecondition, "{ended}");
    }
    assert_eq!(versions(&fleet, "lied-about").await, before);

    // East itself comes back, and a change that must arrive shows that nothing was on its way.
    agents(&fleet, "east", 1).await;
    fleet.connected("east").await.unwrap();
    serving(&fleet, "after-the-lies", &["east"]).await;
    assert_eq!(versions(&fleet, "lied-about").await, before);
    super::faults::forget_member(&fleet, "unused").await;
}

#[tokio::test]
async fn a_fenced_session_is_told_that_a_newer_one_took_over() {
    let fleet = alone().await;
    without_agent(&fleet, "east").await;
    let mut first = Liar::start(&fleet, hello(&fleet, "east").await).await;
    first.welcomed().await;
    let mut second = Liar::start(&fleet, hello(&fleet, "east").await).await;
    second.welcomed().await;
    let ended = first.hears_the_end().await;
    assert_eq!(ended.code(), tonic::Code::Aborted, "{ended}");
    assert_eq!(ended.message(), "a newer session of this cluster took over");
    // East's own agent fences the second, which says nothing.
    agents(&fleet, "east", 1).await;
    assert_eq!(second.hears_the_end().await.code(), tonic::Code::Aborted);
    fleet.connected("east").await.unwrap();
    super::faults::forget_member(&fleet, "unused").await;
}

#[tokio::test]
async fn a_session_needs_a_certificate_of_this_hub() {
    let fleet = super::shared().await;
    let printed: Printed = serde_saphyr::from_str(&fleet.invite("nobody").await.unwrap()).unwrap();
    let forward = fleet
        .hub()
        .forward(printed.hub.address.parse().unwrap())
        .unwrap();
    let dialer = Dialer::new(
        &forward.address().to_string(),
        &printed.hub.server_name,
        &printed.hub.ca,
    )
    .unwrap();
    let (_say, messages) = mpsc::channel(1);
    let refused = dialer
        .dial()
        .await
        .unwrap()
        .session(ReceiverStream::new(messages))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    let misnamed = Dialer::new(
        &forward.address().to_string(),
        "another-hub",
        &printed.hub.ca,
    )
    .unwrap();
    assert!(misnamed.dial().await.is_err());
    super::faults::forget_member(&fleet, "nobody").await;
}
