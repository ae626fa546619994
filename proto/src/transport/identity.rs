//! Who a certificate names, and what an agent asks a certificate with.
//!
//! Reads certificates that TLS has verified, and requests that nobody has. Must not decide whether a member is welcome.

use std::fmt;
use std::time::{Duration, SystemTime};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use bytes::Bytes;
use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use rustls::pki_types::CertificateDer;
use x509_parser::asn1_rs::FromDer;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::{
    OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_SIG_ECDSA_WITH_SHA256,
};
use x509_parser::prelude::X509Certificate;
use x509_parser::time::ASN1Time;

use super::authority::Validity;
use super::{CertificateError, read_chain};
use crate::identifiers::Hash;

/// Far more than a request for a P-256 key needs; what is larger isn't parsed.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// The name of a member cluster in its certificate: `spiffe://<hub id>/membercluster/<uid of the MemberCluster>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberUri {
    hub_id: String,
    member_uid: String,
}

impl MemberUri {
    /// The hub's id is a SPIFFE trust domain (lowercase letters, digits, `.`, `-`, `_`), the UID one path segment of letters,
    /// digits and `-`.
    pub fn new(hub_id: &str, member_uid: &str) -> Result<Self, CertificateError> {
        let in_domain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
        let in_uid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let well = |text: &str, allowed: &dyn Fn(u8) -> bool| {
            (1..=255).contains(&text.len()) && text.bytes().all(allowed)
        };
        if !well(hub_id, &in_domain) {
            return Err(CertificateError::Name(hub_id.to_owned()));
        }
        if !well(member_uid, &in_uid) {
            return Err(CertificateError::Name(member_uid.to_owned()));
        }
        Ok(Self {
            hub_id: hub_id.to_owned(),
            member_uid: member_uid.to_owned(),
        })
    }

    fn parse(uri: &str) -> Option<Self> {
        let (hub_id, path) = uri.strip_prefix("spiffe://")?.split_once('/')?;
        Self::new(hub_id, path.strip_prefix("membercluster/")?).ok()
    }

    /// Which hub gave the certificate.
    pub fn hub_id(&self) -> &str {
        &self.hub_id
    }

    /// `metadata.uid` of the `MemberCluster`.
    pub fn member_uid(&self) -> &str {
        &self.member_uid
    }
}

impl fmt::Display for MemberUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "spiffe://{}/membercluster/{}",
            self.hub_id, self.member_uid
        )
    }
}

/// Who is at the other end of a connection, by the certificate that TLS verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Which member cluster.
    pub member: MemberUri,
    /// The certificate's serial number, in hexadecimal, its bytes separated by colons.
    pub serial: String,
    /// When the certificate ends. TLS checks it when a connection is made, and never again.
    pub not_after: SystemTime,
}

impl PeerIdentity {
    /// Reads a certificate that TLS has verified. It must have exactly one name, and that of a member cluster.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, CertificateError> {
        let certificate = parse("client certificate", certificate)?;
        let names = certificate.subject_alternative_name();
        let names =
            names.map_err(|_error| CertificateError::Identity("its names can't be read"))?;
        let names = names.map(|names| names.value.general_names.as_slice());
        let Some([GeneralName::URI(uri)]) = names else {
            return Err(CertificateError::Identity(
                "it has not exactly one name, a URI",
            ));
        };
        let member = MemberUri::parse(uri);
        Ok(Self {
            member: member.ok_or(CertificateError::Identity("its URI is of another shape"))?,
            serial: certificate.raw_serial_as_string(),
            not_after: time(certificate.validity().not_after),
        })
    }
}

/// From when to when the first certificate of a PEM chain is good.
pub fn validity(certificate_pem: &str) -> Result<Validity, CertificateError> {
    const WHAT: &str = "certificate";
    let chain = read_chain(WHAT, certificate_pem)?;
    let first = chain
        .first()
        .ok_or(CertificateError::Identity("there is none"))?;
    let certificate = parse(WHAT, first)?;
    let validity = certificate.validity();
    Ok(Validity {
        not_before: time(validity.not_before),
        not_after: time(validity.not_after),
    })
}

fn parse<'a>(
    what: &'static str,
    certificate: &'a CertificateDer<'_>,
) -> Result<X509Certificate<'a>, CertificateError> {
    let parsed = x509_parser::parse_x509_certificate(certificate);
    let (_, certificate) = parsed.map_err(|error| CertificateError::Read {
        what,
        reason: error.to_string(),
    })?;
    Ok(certificate)
}

fn time(time: ASN1Time) -> SystemTime {
    // Before 1970 is as long ago as 1970.
    let since_epoch = Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or(0));
    SystemTime::UNIX_EPOCH + since_epoch
}

/// A PKCS#10 request whose sender has the private key. Holds only the public key: nothing else of it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    /// A `SubjectPublicKeyInfo`, DER.
    public_key: Vec<u8>,
}

impl CertificateRequest {
    /// Checks the request's own signature: proof of possession. Only ECDSA P-256 keys are taken, signed with SHA-256.
    pub fn from_der(der: &[u8]) -> Result<Self, CertificateError> {
        if der.len() > REQUEST_BYTES_MAX {
            return Err(CertificateError::Request("it is too large"));
        }
        let parsed = X509CertificationRequest::from_der(der);
        let (rest, request) =
            parsed.map_err(|_error| CertificateError::Request("it is no PKCS#10 request"))?;
        if !rest.is_empty() {
            return Err(CertificateError::Request("something follows it"));
        }
        let key = &request.certification_request_info.subject_pki;
        let curve = key
            .algorithm
            .parameters
            .as_ref()
            .and_then(|curve| curve.as_oid().ok());
        if key.algorithm.algorithm != OID_KEY_TYPE_EC_PUBLIC_KEY || curve != Some(OID_EC_P256) {
            return Err(CertificateError::Request("its key is not ECDSA P-256"));
        }
        if request.signature_algorithm.algorithm != OID_SIG_ECDSA_WITH_SHA256 {
            return Err(CertificateError::Request(
                "it is not signed with ECDSA and SHA-256",
            ));
        }
        UnparsedPublicKey::new(
            &ECDSA_P256_SHA256_ASN1,
            key.subject_public_key.data.as_ref(),
        )
        .verify(
            request.certification_request_info.raw,
            request.signature_value.data.as_ref(),
        )
        .map_err(|_unspecified| CertificateError::Request("its key did not sign it"))?;
        Ok(Self {
            public_key: key.raw.to_vec(),
        })
    }

    /// SHA-256 of the public key (`SubjectPublicKeyInfo`): what a join token is bound to.
    pub fn key_fingerprint(&self) -> Hash {
        Hash::of(&self.public_key)
    }

    pub(super) fn public_key(&self) -> &[u8] {
        &self.public_key
    }
}

/// The private key of an agent: ECDSA P-256, made before it enrols and kept by the caller.
pub struct AgentKey(KeyPair);

impl fmt::Debug for AgentKey {
    /// Never shows the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AgentKey({})", self.fingerprint())
    }
}

impl AgentKey {
    /// A new key.
    pub fn generate() -> Result<Self, CertificateError> {
        let key = KeyPair::generate().map_err(|source| CertificateError::Sign {
            what: "agent's key",
            source,
        })?;
        Ok(Self(key))
    }

    /// The key that [`Self::pem`] gave.
    pub fn from_pem(pem: &str) -> Result<Self, CertificateError> {
        let key = KeyPair::from_pem(pem).map_err(|error| CertificateError::Read {
            what: "agent's key",
            reason: error.to_string(),
        })?;
        Ok(Self(key))
    }

    /// PKCS#8. A secret.
    pub fn pem(&self) -> String {
        self.0.serialize_pem()
    }

    /// As [`CertificateRequest::key_fingerprint`].
    pub fn fingerprint(&self) -> Hash {
        Hash::of(&self.0.subject_public_key_info())
    }

    /// A request for a certificate of this key, DER. It asks for no name: the hub gives it.
    pub fn certificate_request(&self) -> Result<Bytes, CertificateError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let request = params.serialize_request(&self.0);
        let request = request.map_err(|source| CertificateError::Sign {
            what: "certificate request",
            source,
        })?;
        Ok(Bytes::copy_from_slice(request.der()))
    }
}
