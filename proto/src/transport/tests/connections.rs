//! Who gets in, who doesn't, and what a reload changes.

use std::time::Duration;

use futures::FutureExt;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use super::fleet::{
    Serving, Session, authority, client_certificate, enroll, expired, member, server_certificate,
    valid,
};
use crate::transport::TransportError;
use crate::transport::authority::{Authority, KeyedCertificate};
use crate::transport::client::Dialer;
use crate::transport::identity::AgentKey;
use crate::transport::server::Admission;

#[tokio::test]
async fn an_agent_enrols_then_opens_its_session() {
    let (authority, trust) = authority();
    let hub = Serving::start(authority, &trust, Admission::default()).await;
    let dialer = hub.dialer(&trust);
    let key = AgentKey::generate().unwrap();
    let mut client = dialer.dial().await.unwrap();
    let certificate_pem = enroll(&mut client, "token", key.certificate_request().unwrap())
        .await
        .unwrap();

    dialer
        .present(&KeyedCertificate {
            certificate_pem,
            key_pem: key.pem(),
        })
        .unwrap();
    let mut session = Session::open(&mut dialer.dial().await.unwrap())
        .await
        .unwrap();
    let serial = session.serial_seen().await;
    let peers = hub.peers.lock().unwrap();
    assert_eq!(
        (peers.len(), &peers[0].member, &peers[0].serial),
        (1, &member(), &serial)
    );
    assert_eq!(peers[0].not_after, valid().not_after);
}

#[tokio::test]
async fn a_bad_certificate_request_is_the_clients_fault() {
    let (authority, trust) = authority();
    let hub = Serving::start(authority, &trust, Admission::default()).await;
    let mut client = hub.dialer(&trust).dial().await.unwrap();
    let refused = enroll(
        &mut client,
        "token",
        bytes::Bytes::from_static(b"no request"),
    );
    assert_eq!(refused.await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_session_without_a_certificate_is_unauthenticated() {
    let (authority, trust) = authority();
    let hub = Serving::start(authority, &trust, Admission::default()).await;
    let mut client = hub.dialer(&trust).dial().await.unwrap();
    let refused = Session::open(&mut client).await.err().unwrap();
    assert_eq!(refused.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn a_certificate_of_another_authority_an_expired_or_a_nameless_one_never_reaches_the_service()
{
    let kept = Authority::create("hub-1", valid()).unwrap();
    let first = Authority::load(&kept).unwrap();
    let trust = kept.certificate_pem.clone();
    let certificates = [
        client_certificate(&authority().0, valid()),
        client_certificate(&first, expired()),
        server_certificate(&first),
        nameless_certificate(&kept),
    ];
    let hub = Serving::start(first, &trust, Admission::default()).await;
    for certificate in certificates {
        let dialer = hub.dialer(&trust);
        dialer.present(&certificate).unwrap();
        // In TLS 1.3 the client may learn of it with its first call only.
        if let Ok(mut client) = dialer.dial().await {
            let refused = Session::open(&mut client).await.err().unwrap();
            assert_ne!(
                refused.code(),
                Code::Unauthenticated,
                "it got past the handshake"
            );
        }
    }
    assert_eq!(hub.peers.lock().unwrap().len(), 0);
}

/// For clients and of the hub's authority, but no member cluster's.
fn nameless_certificate(authority: &KeyedCertificate) -> KeyedCertificate {
    let issuer_key = KeyPair::from_pem(&authority.key_pem).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate_pem, issuer_key).unwrap();
    let mut params = CertificateParams::new(["hub.example.com".to_owned()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    KeyedCertificate {
        certificate_pem: params.signed_by(&key, &issuer).unwrap().pem(),
        key_pem: key.serialize_pem(),
    }
}

/// h2 ends a connection whose reader leaves too many small frames unread: some 14,000 with hyper's windows.
#[tokio::test]
async fn a_slow_reader_of_small_messages_keeps_its_connection() {
    let (authority, trust) = authority();
    let certificate = client_certificate(&authority, valid());
    let hub = Serving::start(authority, &trust, Admission::default()).await;
    let dialer = hub.dialer(&trust);
    dialer.present(&certificate).unwrap();
    let mut session = Session::open(&mut dialer.dial().await.unwrap())
        .await
        .unwrap();
    for _ in 0..20_000 {
        session.send().await;
    }
    for _ in 0..20_000 {
        session.answer().await;
    }
}

#[tokio::test]
async fn a_hub_of_another_authority_or_name_is_not_trusted() {
    let (authority, trust) = authority();
    let (_, other) = super::fleet::authority();
    let hub = Serving::start(authority, &trust, Admission::default()).await;
    let refused = hub.dialer(&other).dial().await.unwrap_err();
    assert!(matches!(refused, TransportError::Dial { .. }));
    assert!(
        refused.to_string().contains("invalid peer certificate"),
        "{refused}"
    );

    let address = hub.address.to_string();
    let by_other_name = Dialer::new(&address, "another", &trust).unwrap();
    assert!(by_other_name.dial().await.is_err());
    // What is verified is the name, whatever the address.
    let by_name = Dialer::new(&address, "localhost", &trust).unwrap();
    by_name.dial().await.unwrap();
}

/// A TLS 1.2 client that can do all that a TLS 1.2 server could ask for.
const CLIENT_HELLO_1_2: &[u8] = &[
    0x16, 0x03, 0x01, 0x00, 0x4b, // record: handshake, 75 bytes
    0x01, 0x00, 0x00, 0x47, // ClientHello, 71 bytes
    0x03, 0x03, // TLS 1.2
    1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7,
    8,    // random
    0x00, // no session
    0x00, 0x04, 0xc0, 0x2b, 0xc0, 0x2c, // ECDHE-ECDSA with AES-GCM
    0x01, 0x00, // no compression
    0x00, 0x1a, // extensions, 26 bytes
    0x00, 0x0a, 0x00, 0x04, 0x00, 0x02, 0x00, 0x17, // supported_groups: P-256
    0x00, 0x0b, 0x00, 0x02, 0x01, 0x00, // ec_point_formats: uncompressed
    0x00, 0x0d, 0x00, 0x04, 0x00, 0x02, 0x04,
    0x03, // signature_algorithms: ECDSA P-256 SHA-256
    0x00, 0x17, 0x00, 0x00, // extended_master_secret
];

#[tokio::test]
async fn tls_1_2_is_refused() {
    let (authority, trust) = authority();
    let hub = Serving::start(authority, &trust, Admission::default()).await;
    let mut stream = TcpStream::connect(hub.address).await.unwrap();
    stream.write_all(CLIENT_HELLO_1_2).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    // Alert, fatal, protocol_version (RFC 8446 6.2).
    assert_eq!(
        (answer[0], &answer[5..]),
        (0x15, &[2, 70][..]),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_reload_serves_the_next_connection_and_leaves_the_first_alone() {
    let (old, old_trust) = authority();
    let (new, new_trust) = authority();
    let certificate = client_certificate(&old, valid());
    let hub = Serving::start(old, &old_trust, Admission::default()).await;
    let dialer = hub.dialer(&old_trust);
    dialer.present(&certificate).unwrap();
    let mut session = Session::open(&mut dialer.dial().await.unwrap())
        .await
        .unwrap();
    let serial = session.serial_seen().await;

    let mismatched = KeyedCertificate {
        key_pem: server_certificate(&new).key_pem,
        ..server_certificate(&new)
    };
    assert!(hub.tls.reload(&mismatched, &new_trust).is_err());
    dialer.dial().await.unwrap();

    hub.tls
        .reload(&server_certificate(&new), &new_trust)
        .unwrap();
    assert_eq!(session.serial_seen().await, serial);
    assert!(
        dialer.dial().await.is_err(),
        "the old certificate is no longer shown"
    );
    let renewed = hub.dialer(&new_trust);
    renewed.present(&client_certificate(&new, valid())).unwrap();
    let mut second = Session::open(&mut renewed.dial().await.unwrap())
        .await
        .unwrap();
    assert_ne!(second.serial_seen().await, serial);
    assert_eq!(session.serial_seen().await, serial);
}

#[tokio::test]
async fn a_renewed_client_certificate_is_shown_at_the_next_dial() {
    let (authority, trust) = authority();
    let certificates = [
        client_certificate(&authority, valid()),
        client_certificate(&authority, valid()),
    ];
    let hub = Serving::start(authority, &trust, Admission::default()).await;
    let dialer = hub.dialer(&trust);
    let mut serials = Vec::new();
    for certificate in &certificates {
        dialer.present(certificate).unwrap();
        let mut session = Session::open(&mut dialer.dial().await.unwrap())
            .await
            .unwrap();
        serials.push(session.serial_seen().await);
    }
    assert_ne!(serials[0], serials[1]);
    let mismatched = KeyedCertificate {
        certificate_pem: certificates[0].certificate_pem.clone(),
        key_pem: certificates[1].key_pem.clone(),
    };
    assert!(matches!(
        dialer.present(&mismatched),
        Err(TransportError::Tls(_))
    ));
    let mut session = Session::open(&mut dialer.dial().await.unwrap())
        .await
        .unwrap();
    assert_eq!(session.serial_seen().await, serials[1]);
}

#[tokio::test]
async fn who_says_nothing_keeps_others_waiting_for_the_handshake_limit_only() {
    let (authority, trust) = authority();
    let admission = Admission {
        handshakes_max: 1,
        handshake_timeout: Duration::from_millis(200),
        ..Admission::default()
    };
    let hub = Serving::start(authority, &trust, admission).await;
    let mut silent = TcpStream::connect(hub.address).await.unwrap();
    hub.dialer(&trust).dial().await.unwrap();
    let closed = silent.read(&mut [0]).now_or_never();
    assert!(
        matches!(closed, Some(Ok(0))),
        "before the second's began: {closed:?}"
    );
}

#[tokio::test]
async fn a_connection_without_a_certificate_ends_and_one_with_it_stays() {
    let (authority, trust) = authority();
    let certificate = client_certificate(&authority, valid());
    let admission = Admission {
        anonymous_lifetime: Duration::from_millis(300),
        ..Admission::default()
    };
    let hub = Serving::start(authority, &trust, admission).await;
    let dialer = hub.dialer(&trust);
    let mut anonymous = dialer.dial().await.unwrap();
    dialer.present(&certificate).unwrap();
    let mut session = Session::open(&mut dialer.dial().await.unwrap())
        .await
        .unwrap();
    session.serial_seen().await;
    let never = enroll(&mut anonymous, "never", bytes::Bytes::new());
    let ended = tokio::time::timeout(Duration::from_secs(20), never).await;
    assert!(ended.unwrap().is_err());
    session.serial_seen().await;
}

#[test]
fn an_address_is_a_host_and_a_port() {
    let (_, trust) = authority();
    for address in ["hub.example.com:443", "192.0.2.1:443", "[2001:db8::1]:443"] {
        Dialer::new(address, "hub", &trust).unwrap();
    }
    for address in [
        "hub.example.com",
        "",
        ":443",
        "https://hub:443",
        "hub:443/path",
        "user@hub:443",
        "a b:443",
    ] {
        let refused = Dialer::new(address, "hub", &trust);
        assert!(
            matches!(refused, Err(TransportError::Address(_))),
            "{address}: {refused:?}"
        );
    }
    assert!(matches!(
        Dialer::new("hub:443", "hub", ""),
        Err(TransportError::Certificate(_))
    ));
}
