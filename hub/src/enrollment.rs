//! Tokens in, certificates out. Owns the hub's authority, and the one rule of a join token: it opens one MemberCluster, for
//! the first key that uses it, until it expires.

pub mod authority;

use std::time::{Duration, SystemTime};

use crds::v1alpha1::{self, MemberCluster};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use operator::{cache::Cache, ownership::hexadecimal};
use proto::{
    transport::{
        CertificateError,
        authority::{Authority, Validity},
        identity::{CertificateRequest, MemberUri},
    },
    v1::EnrollRequest,
};
use serde_json::json;
use tonic::Status;

/// How long a client certificate is good.
const CLIENT_LIFETIME: Duration = Duration::from_hours(7 * 24);
/// A certificate is good from a little ago, for peers whose clock is behind.
const CLOCK_SKEW: Duration = Duration::from_mins(5);

/// Lets agents in.
pub struct Enrollment {
    client: Client,
    authority: Authority,
    hub_id: String,
}

/// Why a token opens nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No MemberCluster has this token.
    #[error("no MemberCluster has this join token: run `kubectl inferfleet join` for a new one")]
    Unknown,
    /// Its time is over.
    #[error(
        "the join token of MemberCluster {0} has expired: run `kubectl inferfleet join {0}` for a new one"
    )]
    Expired(String),
    /// It has been used.
    #[error(
        "the join token of MemberCluster {0} was used by another key: run `kubectl inferfleet join {0}` for a new one"
    )]
    Used(String),
    /// The request can't be signed.
    #[error("certificate request")]
    Request(#[source] CertificateError),
    /// The first use could not be recorded.
    #[error("record the enrollment of MemberCluster {0}")]
    Record(String, #[source] Box<kube::Error>),
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match &error {
            Error::Unknown | Error::Expired(_) | Error::Used(_) => {
                Self::permission_denied(error.to_string())
            }
            Error::Request(source) => Self::invalid_argument(format!("{error}: {source}")),
            // The agent asks again with the same key.
            Error::Record(..) => Self::unavailable(error.to_string()),
        }
    }
}

/// What a token may do for a key.
#[derive(Debug, PartialEq, Eq)]
enum Admission {
    /// The first use: to be recorded.
    First,
    /// The same key again, whose answer was lost.
    Again,
}

impl Enrollment {
    /// Signs with `authority` for the agents of the hub of that id.
    pub fn new(client: Client, authority: Authority, hub_id: String) -> Self {
        Self {
            client,
            authority,
            hub_id,
        }
    }

    /// The hub's name in certificates: UID of the kube-system namespace of its cluster.
    pub fn hub_id(&self) -> &str {
        &self.hub_id
    }

    /// Trades a token for a certificate.
    ///
    /// # Errors
    /// [`Error`], said so that the person who installs the agent knows what to do.
    pub async fn enroll(
        &self,
        members: &Cache<MemberCluster>,
        request: &EnrollRequest,
    ) -> Result<String, Error> {
        let csr =
            CertificateRequest::from_der(&request.certificate_request).map_err(Error::Request)?;
        let token = hexadecimal(request.token.as_bytes());
        let found = members.filter(|member| is_token_of(member, &token));
        let member = found.first().ok_or(Error::Unknown)?;
        let key = csr.key_fingerprint().to_string();
        if admission(member, &token, &key, now())? == Admission::First {
            self.record(member, members, request, token, key).await?;
        }
        tracing::info!(
            cluster = member.name_any(),
            cluster_uid = request.cluster_uid,
            "enrolled"
        );
        self.sign(&csr, &member.uid().unwrap_or_default())
            .map_err(Error::Request)
    }

    /// A certificate for an authenticated agent's new key.
    ///
    /// # Errors
    /// When the request can't be read, or its proof of possession fails.
    pub fn issue(
        &self,
        certificate_request: &[u8],
        member_uid: &str,
    ) -> Result<String, CertificateError> {
        self.sign(
            &CertificateRequest::from_der(certificate_request)?,
            member_uid,
        )
    }

    fn sign(&self, csr: &CertificateRequest, member_uid: &str) -> Result<String, CertificateError> {
        let name = MemberUri::new(&self.hub_id, member_uid)?;
        self.authority
            .issue_client(csr, &name, validity(CLIENT_LIFETIME))
    }

    /// Writes down who used the token. The version is a precondition: of two keys at once, one wins.
    async fn record(
        &self,
        member: &MemberCluster,
        members: &Cache<MemberCluster>,
        request: &EnrollRequest,
        token_sha256: String,
        key_sha256: String,
    ) -> Result<(), Error> {
        let enrollment = v1alpha1::Enrollment {
            cluster_uid: request.cluster_uid.clone(),
            token_sha256,
            key_sha256,
            at: Time(now()),
        };
        let patch = json!({
            "metadata": {"uid": member.uid(), "resourceVersion": member.resource_version()},
            "status": {"enrollment": enrollment},
        });
        let api: Api<MemberCluster> = Api::all(self.client.clone());
        let name = member.name_any();
        let written = api
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        members.note(written.map_err(|source| Error::Record(name, Box::new(source)))?);
        Ok(())
    }
}

/// Is the token that of this MemberCluster? What is compared is the hash of 256 random bits: its timing tells nothing.
fn is_token_of(member: &MemberCluster, token_sha256: &str) -> bool {
    member
        .spec
        .join_token
        .as_ref()
        .is_some_and(|token| token.sha256 == token_sha256)
}

/// What the token may do for the key, now.
fn admission(
    member: &MemberCluster,
    token: &str,
    key: &str,
    now: Timestamp,
) -> Result<Admission, Error> {
    let name = member.name_any();
    let expired = member
        .spec
        .join_token
        .as_ref()
        .is_none_or(|token| token.expires_at.0 <= now);
    if expired {
        return Err(Error::Expired(name));
    }
    let used = member
        .status
        .as_ref()
        .and_then(|status| status.enrollment.as_ref());
    match used.filter(|enrollment| enrollment.token_sha256 == token) {
        None => Ok(Admission::First),
        Some(enrollment) if enrollment.key_sha256 == key => Ok(Admission::Again),
        Some(_) => Err(Error::Used(name)),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "tokens expire by the wall clock, read at the edge"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

/// From a little ago until a lifetime from now.
#[expect(
    clippy::disallowed_methods,
    reason = "certificates are dated by the wall clock, read at the edge"
)]
pub(crate) fn validity(lifetime: Duration) -> Validity {
    let now = SystemTime::now();
    Validity {
        not_before: now - CLOCK_SKEW,
        not_after: now + lifetime,
    }
}

#[cfg(test)]
mod tests {
    use crds::v1alpha1::{JoinToken, MemberClusterSpec, MemberClusterStatus};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn member(used_by: Option<(&str, &str)>) -> MemberCluster {
        let token = JoinToken {
            sha256: "t".to_owned(),
            expires_at: Time(at(100)),
        };
        let mut member = MemberCluster::new(
            "east",
            MemberClusterSpec {
                join_token: Some(token),
                ..MemberClusterSpec::default()
            },
        );
        member.status = used_by.map(|(token, key)| MemberClusterStatus {
            enrollment: Some(v1alpha1::Enrollment {
                cluster_uid: String::new(),
                token_sha256: token.to_owned(),
                key_sha256: key.to_owned(),
                at: Time(at(0)),
            }),
            ..MemberClusterStatus::default()
        });
        member
    }

    #[test]
    fn a_token_opens_for_the_first_key_and_again_for_that_key_only() {
        assert_eq!(
            admission(&member(None), "t", "k", at(99)).unwrap(),
            Admission::First
        );
        assert_eq!(
            admission(&member(Some(("t", "k"))), "t", "k", at(99)).unwrap(),
            Admission::Again
        );
        assert!(matches!(
            admission(&member(Some(("t", "k"))), "t", "other", at(99)),
            Err(Error::Used(_))
        ));
    }

    #[test]
    fn a_new_token_lets_a_new_key_in() {
        assert_eq!(
            admission(&member(Some(("old", "k"))), "t", "other", at(99)).unwrap(),
            Admission::First
        );
    }

    #[test]
    fn an_expired_token_opens_nothing_even_for_its_own_key() {
        assert!(matches!(
            admission(&member(Some(("t", "k"))), "t", "k", at(100)),
            Err(Error::Expired(_))
        ));
    }
}
