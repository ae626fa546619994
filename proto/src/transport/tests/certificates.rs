//! What the authority signs, and what a certificate says.

use bytes::Bytes;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SanType,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::extensions::GeneralName;

use super::fleet::{authority, client_certificate, member, server_certificate, valid};
use crate::identifiers::Hash;
use crate::transport::CertificateError;
use crate::transport::authority::{Authority, KeyedCertificate};
use crate::transport::identity::{AgentKey, CertificateRequest, MemberUri, PeerIdentity, validity};

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

/// A request with everything that a greedy agent could ask for.
fn greedy_request(key: &KeyPair) -> Bytes {
    let mut params = CertificateParams::new(["hub.example.com".to_owned()]).unwrap();
    params
        .subject_alt_names
        .push(uri("spiffe://hub-1/membercluster/other"));
    params.distinguished_name.push(DnType::CommonName, "other");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Bytes::copy_from_slice(params.serialize_request(key).unwrap().der())
}

#[test]
fn a_greedy_request_gets_only_what_the_hub_gives() {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let request = CertificateRequest::from_der(&greedy_request(&key)).unwrap();
    let pem = authority()
        .0
        .issue_client(&request, &member(), valid())
        .unwrap();
    let der = der(&pem);
    let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    assert_eq!(
        names.value.general_names,
        [GeneralName::URI("spiffe://hub-1/membercluster/uid-1")]
    );
    assert_eq!(certificate.subject().to_string(), "CN=uid-1");
    assert!(!certificate.is_ca());
    let usage = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && !usage.server_auth && !usage.any);
    assert_eq!(validity(&pem).unwrap(), valid());
}

#[test]
fn a_request_must_be_signed_by_its_key() {
    let key = AgentKey::generate().unwrap();
    let request = key.certificate_request().unwrap();
    assert_eq!(
        CertificateRequest::from_der(&request)
            .unwrap()
            .key_fingerprint(),
        key.fingerprint()
    );
    let mut forged = request.to_vec();
    *forged.last_mut().unwrap() ^= 1;
    let refused = CertificateRequest::from_der(&forged).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "refused the certificate request: its key did not sign it"
    );
    forged = request.to_vec();
    forged.push(0);
    assert!(CertificateRequest::from_der(&forged).is_err());
}

#[test]
fn a_request_is_not_read_beyond_a_limit() {
    let key = KeyPair::generate().unwrap();
    let names: Vec<_> = (0..500)
        .map(|name| format!("{name}.hub.example.com"))
        .collect();
    let params = CertificateParams::new(names).unwrap();
    let request = params.serialize_request(&key).unwrap();
    let refused = CertificateRequest::from_der(request.der()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "refused the certificate request: it is too large"
    );
}

#[test]
fn other_kinds_of_keys_are_refused() {
    for kind in [&PKCS_ED25519, &PKCS_ECDSA_P384_SHA384] {
        let key = KeyPair::generate_for(kind).unwrap();
        let refused = CertificateRequest::from_der(&greedy_request(&key)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "refused the certificate request: its key is not ECDSA P-256"
        );
    }
}

#[test]
fn each_certificate_has_a_serial_number_of_its_own() {
    let (authority, _) = authority();
    let key = AgentKey::generate().unwrap();
    let request = CertificateRequest::from_der(&key.certificate_request().unwrap()).unwrap();
    let serial = || {
        let pem = authority
            .issue_client(&request, &member(), valid())
            .unwrap();
        PeerIdentity::of(&der(&pem)).unwrap().serial
    };
    assert_ne!(serial(), serial());
}

#[test]
fn a_peer_has_exactly_one_name_of_the_right_shape() {
    let key = KeyPair::generate().unwrap();
    let identity = |names: Vec<SanType>| {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        let certificate = params.self_signed(&key).unwrap();
        PeerIdentity::of(certificate.der()).map(|peer| peer.member)
    };
    let ours = "spiffe://hub-1/membercluster/uid-1";
    assert_eq!(identity(vec![uri(ours)]).unwrap(), member());
    let dns = SanType::DnsName("hub.example.com".try_into().unwrap());
    let wrong = [
        vec![],
        vec![dns.clone()],
        vec![uri(ours), dns],
        vec![uri(ours), uri("spiffe://hub-1/membercluster/uid-2")],
        vec![uri("spiffe://hub-1/cluster/uid-1")],
        vec![uri("spiffe://hub-1/membercluster/")],
        vec![uri("spiffe://hub-1/membercluster/uid-1/x")],
        vec![uri("spiffe:///membercluster/uid-1")],
        vec![uri("https://hub-1/membercluster/uid-1")],
    ];
    for names in wrong {
        let refused = identity(names.clone());
        assert!(
            matches!(refused, Err(CertificateError::Identity(_))),
            "{names:?}: {refused:?}"
        );
    }
}

#[test]
fn a_member_cannot_name_itself_into_another_path() {
    for (hub_id, member_uid) in [
        ("hub-1", "a/b"),
        ("hub/1", "a"),
        ("", "a"),
        ("hub-1", ""),
        ("Hub", "a"),
        ("hub-1", "a?b"),
    ] {
        assert!(
            MemberUri::new(hub_id, member_uid).is_err(),
            "{hub_id} {member_uid}"
        );
    }
}

#[test]
fn an_authority_is_loaded_with_its_own_key_and_certificate_only() {
    let one = Authority::create("hub-1", valid()).unwrap();
    let two = Authority::create("hub-1", valid()).unwrap();
    Authority::load(&one).unwrap();
    let mixed = KeyedCertificate {
        key_pem: two.key_pem,
        ..one.clone()
    };
    let refused = Authority::load(&mixed).unwrap_err();
    assert!(refused.to_string().contains("another one"), "{refused}");
    let leaf = server_certificate(&Authority::load(&one).unwrap());
    let refused = Authority::load(&leaf).unwrap_err();
    assert!(refused.to_string().contains("no authority"), "{refused}");
}

#[test]
fn a_server_certificate_needs_a_name() {
    let (authority, _) = authority();
    assert!(matches!(
        authority.issue_server(&[], valid()),
        Err(CertificateError::Name(_))
    ));
}

#[test]
fn an_agents_key_survives_its_pem_and_is_never_shown() {
    let key = AgentKey::generate().unwrap();
    let again = AgentKey::from_pem(&key.pem()).unwrap();
    assert_eq!(again.fingerprint(), key.fingerprint());
    assert!(AgentKey::from_pem("no key").is_err());
    let certificate = client_certificate(&authority().0, valid());
    let shown = format!("{key:?} {certificate:?}");
    assert!(
        !shown.contains("PRIVATE") && shown.contains(&key.fingerprint().to_string()),
        "{shown}"
    );
    assert_ne!(Hash::of(b""), key.fingerprint());
}
