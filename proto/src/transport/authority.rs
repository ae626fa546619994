//! The hub's certificate authority: ECDSA P-256, kept as PEM by the caller.
//!
//! Takes nothing from a certificate request but its public key. Must not decide who gets a certificate.

use std::time::SystemTime;

use aws_lc_rs::rand;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber, SubjectPublicKeyInfo,
};

use super::identity::{CertificateRequest, MemberUri};
use super::{CertificateError, read_chain};

/// From when until when a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Not before this; a little in the past, so that a clock behind takes it.
    pub not_before: SystemTime,
    /// Not after this.
    pub not_after: SystemTime,
}

/// A certificate chain and its private key, both PEM.
#[derive(Clone)]
pub struct KeyedCertificate {
    /// The certificate, and what lies between it and the authority.
    pub certificate_pem: String,
    /// PKCS#8.
    pub key_pem: String,
}

impl std::fmt::Debug for KeyedCertificate {
    /// Never shows the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("KeyedCertificate")
            .field("certificate_pem", &self.certificate_pem)
            .finish_non_exhaustive()
    }
}

/// Signs the certificates of one hub and its agents.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a new authority, to be kept by the caller and loaded again.
    pub fn create(hub_id: &str, validity: Validity) -> Result<KeyedCertificate, CertificateError> {
        const WHAT: &str = "authority";
        let key = KeyPair::generate().map_err(sign(WHAT))?;
        let mut params = params(validity)?;
        params.distinguished_name = common_name(format!("Inferfleet hub {hub_id}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(sign(WHAT))?;
        Ok(KeyedCertificate {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        })
    }

    /// Loads what [`Self::create`] made. The key must be the certificate's own.
    pub fn load(kept: &KeyedCertificate) -> Result<Self, CertificateError> {
        const WHAT: &str = "authority";
        let failed = |reason: String| CertificateError::Read { what: WHAT, reason };
        let key = KeyPair::from_pem(&kept.key_pem).map_err(|error| failed(error.to_string()))?;
        let chain = read_chain(WHAT, &kept.certificate_pem)?;
        let first = chain
            .first()
            .ok_or_else(|| failed("no certificate in it".to_owned()))?;
        let (_, certificate) = x509_parser::parse_x509_certificate(first)
            .map_err(|error| failed(error.to_string()))?;
        if certificate.public_key().raw != key.subject_public_key_info() {
            return Err(failed(
                "the key is another one than the certificate's".to_owned(),
            ));
        }
        if !certificate.is_ca() {
            return Err(failed("the certificate is no authority's".to_owned()));
        }
        let issuer = Issuer::from_ca_cert_der(first, key).map_err(sign(WHAT))?;
        Ok(Self { issuer })
    }

    /// A client certificate for the agent of one member cluster, PEM. Its only name is the URI of
    /// [`MemberUri`]; it can sign nothing and serve nothing.
    pub fn issue_client(
        &self,
        request: &CertificateRequest,
        member: &MemberUri,
        validity: Validity,
    ) -> Result<String, CertificateError> {
        const WHAT: &str = "client certificate";
        let uri = member.to_string();
        let name = uri
            .as_str()
            .try_into()
            .map_err(|_error| CertificateError::Name(uri.clone()))?;
        let mut params = leaf(validity, ExtendedKeyUsagePurpose::ClientAuth)?;
        params.distinguished_name = common_name(member.member_uid().to_owned());
        params.subject_alt_names = vec![SanType::URI(name)];
        let key = SubjectPublicKeyInfo::from_der(request.public_key()).map_err(sign(WHAT))?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(sign(WHAT))?;
        Ok(certificate.pem())
    }

    /// A certificate and key for the hub's server. Each name is a DNS name or an IP address; the first stands in the subject.
    pub fn issue_server(
        &self,
        names: &[String],
        validity: Validity,
    ) -> Result<KeyedCertificate, CertificateError> {
        const WHAT: &str = "server certificate";
        let first = names
            .first()
            .ok_or_else(|| CertificateError::Name(String::new()))?;
        let mut params = leaf(validity, ExtendedKeyUsagePurpose::ServerAuth)?;
        params.distinguished_name = common_name(first.clone());
        params.subject_alt_names = CertificateParams::new(names)
            .map_err(sign(WHAT))?
            .subject_alt_names;
        let key = KeyPair::generate().map_err(sign(WHAT))?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(sign(WHAT))?;
        Ok(KeyedCertificate {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        })
    }
}

fn sign(what: &'static str) -> impl Fn(rcgen::Error) -> CertificateError {
    move |source| CertificateError::Sign { what, source }
}

fn common_name(name: String) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject
}

fn leaf(
    validity: Validity,
    usage: ExtendedKeyUsagePurpose,
) -> Result<CertificateParams, CertificateError> {
    let mut params = params(validity)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// What all certificates have: a time and a random serial number (RFC 5280 4.1.2.2: positive, at most 20 bytes).
fn params(validity: Validity) -> Result<CertificateParams, CertificateError> {
    let mut serial = [0_u8; 16];
    rand::fill(&mut serial)
        .map_err(|_unspecified| sign("serial number")(rcgen::Error::RingUnspecified))?;
    if let Some(first) = serial.first_mut() {
        // Positive, and never shortened for a leading zero.
        *first = *first & 0x7f | 0x40;
    }
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.not_before = validity.not_before.into();
    params.not_after = validity.not_after.into();
    Ok(params)
}
