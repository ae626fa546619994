//! Who the agent is: its key and certificate, in a Secret of its own. The key is stored before it is used, so that a lost
//! answer can be asked for again with the same key, which is what a join token is bound to.

use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder, ExponentialBuilder};
use crds::labels;
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client};
use operator::{apply, ownership::Desired};
use proto::{
    Hash,
    transport::{
        CertificateError, TransportError,
        authority::{KeyedCertificate, Validity},
        client::Dialer,
        identity::{AgentKey, validity},
    },
    v1,
};
use tokio::sync::watch;

use super::{LinkError, Machine};

/// The Secret.
const SECRET: &str = "inferfleet-agent-identity";
const KEY: &str = "tls.key";
const CERTIFICATE: &str = "tls.crt";
/// The key of a renewal that is under way.
const NEXT_KEY: &str = "next.key";
/// The token that the certificate was had with, hashed: another one means to join anew.
const TOKEN_HASH: &str = "token.sha256";

/// Between two attempts to store the identity while the session goes on.
const SAVE_AGAIN_FIRST: Duration = Duration::from_millis(500);
const SAVE_AGAIN_LAST: Duration = Duration::from_mins(1);

/// Tells the time of day.
pub(crate) type Clock = fn() -> SystemTime;

/// Why the agent has no identity.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    #[error("reading Secret {SECRET}: {0}")]
    Load(kube::Error),
    #[error("storing the identity: {}", .0.sentence())]
    Store(Box<apply::Error>),
    #[error("writing Secret {SECRET} as JSON: {0}")]
    Encode(serde_json::Error),
    #[error("reading {0} of Secret {SECRET}: it is no text")]
    Text(&'static str),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("the hub refuses to enrol this agent: {}", .0.message())]
    Refused(tonic::Status),
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("asking for a renewal: the session is over")]
    Ended,
}

/// What the Secret holds.
pub(crate) struct Identity {
    live: Option<ObjectMeta>,
    /// The Secret holds all that stands here.
    stored: bool,
    key: AgentKey,
    certificate_pem: Option<String>,
    next_key: Option<AgentKey>,
    token_hash: Option<String>,
}

impl Identity {
    /// Shows the certificate from the next connection of the dialer on.
    pub(super) fn present(&self, dialer: &Dialer) -> Result<(), IdentityError> {
        let certificate = self.certificate_pem.clone().unwrap_or_default();
        dialer.present(&KeyedCertificate {
            certificate_pem: certificate,
            key_pem: self.key.pem(),
        })?;
        Ok(())
    }

    fn is_valid(&self, now: SystemTime) -> bool {
        let certificate = self.certificate_pem.as_deref().map(validity);
        certificate.is_some_and(|validity| validity.is_ok_and(|validity| now < validity.not_after))
    }

    fn secret(&self, namespace: &str) -> Secret {
        let entries = [
            (KEY, Some(self.key.pem())),
            (CERTIFICATE, self.certificate_pem.clone()),
            (NEXT_KEY, self.next_key.as_ref().map(AgentKey::pem)),
            (TOKEN_HASH, self.token_hash.clone()),
        ];
        let data = entries
            .into_iter()
            .filter_map(|(name, text)| Some((name.to_owned(), ByteString(text?.into_bytes()))))
            .collect();
        Secret {
            metadata: ObjectMeta {
                name: Some(SECRET.to_owned()),
                namespace: Some(namespace.to_owned()),
                labels: Some([(labels::MANAGED_BY.to_owned(), labels::AGENT.to_owned())].into()),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..Secret::default()
        }
    }
}

/// How long to wait until two thirds of a certificate's life are over.
fn until_renewal(validity: Validity, now: SystemTime) -> Duration {
    let Validity {
        not_before,
        not_after,
    } = validity;
    let life = not_after.duration_since(not_before).unwrap_or_default();
    let due = not_before + life * 2 / 3;
    due.duration_since(now).unwrap_or_default()
}

/// Where the identity is kept.
pub(crate) struct Store {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Store {
    /// The identity as it is kept; without one, a new key, which is stored before anybody sees it.
    pub(super) async fn load(&self) -> Result<Identity, IdentityError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret = api.get_opt(SECRET).await.map_err(IdentityError::Load)?;
        let mut secret = secret.unwrap_or_default();
        let live = secret.metadata.uid.is_some().then_some(secret.metadata);
        let mut data = secret.data.take().unwrap_or_default();
        let mut text = |name: &'static str| {
            let bytes = data.remove(name);
            bytes
                .map(|bytes| String::from_utf8(bytes.0).map_err(|_error| IdentityError::Text(name)))
                .transpose()
        };
        let read = |pem: Option<String>| pem.map(|pem| AgentKey::from_pem(&pem)).transpose();
        let (key, next_key) = (read(text(KEY)?)?, read(text(NEXT_KEY)?)?);
        if let Some(key) = key {
            return Ok(Identity {
                live,
                stored: true,
                key,
                certificate_pem: text(CERTIFICATE)?,
                next_key,
                token_hash: text(TOKEN_HASH)?,
            });
        }
        let mut identity = Identity {
            live,
            stored: false,
            key: AgentKey::generate()?,
            certificate_pem: None,
            next_key: None,
            token_hash: None,
        };
        self.save(&mut identity).await?;
        Ok(identity)
    }

    async fn save(&self, identity: &mut Identity) -> Result<(), IdentityError> {
        if identity.stored {
            return Ok(());
        }
        let secret = identity.secret(&self.namespace);
        let desired = Desired::new(&secret).map_err(IdentityError::Encode)?;
        // Taken: what a failed write was based on may be what has changed.
        let live = identity.live.take();
        let written = apply::apply(&self.client, labels::AGENT, &desired, live.as_ref()).await;
        let written = written.map_err(|error| IdentityError::Store(Box::new(error)))?;
        identity.live = Some(written.metadata);
        identity.stored = true;
        Ok(())
    }

    /// Stores the identity if that is still to be done. A Secret that can't be written is no reason to leave the hub: the
    /// key of a certificate is stored before the certificate is asked for, and the session goes on trying.
    pub(super) async fn try_save(&self, identity: &mut Identity) -> Result<(), IdentityError> {
        match self.save(identity).await {
            Err(error @ IdentityError::Store(_)) => {
                tracing::warn!(%error, "the identity is not stored yet");
                Ok(())
            }
            saved => saved,
        }
    }

    /// Returns once the identity is stored.
    async fn save_at_last(&self, identity: &mut Identity) -> Result<(), IdentityError> {
        let mut delays = ExponentialBuilder::default()
            .with_min_delay(SAVE_AGAIN_FIRST)
            .with_max_delay(SAVE_AGAIN_LAST)
            .with_jitter()
            .without_max_times()
            .build();
        loop {
            self.try_save(identity).await?;
            if identity.stored {
                return Ok(());
            }
            tokio::time::sleep(delays.next().unwrap_or(SAVE_AGAIN_LAST)).await;
        }
    }

    /// Trades the token for a certificate when there is none that is good, or when the token is a new one.
    pub(super) async fn enrol_if_needed(
        &self,
        identity: &mut Identity,
        dialer: &Dialer,
        token: Result<String, LinkError>,
        cluster_uid: &str,
        clock: Clock,
    ) -> Result<(), LinkError> {
        let is_valid = identity.is_valid(clock());
        let token = match token {
            Ok(token) => token.trim().to_owned(),
            // The bundle may be taken away once it has been used.
            Err(_missing) if is_valid => return Ok(()),
            Err(error) => return Err(error),
        };
        let token_hash = Hash::of(token.as_bytes()).to_string();
        if is_valid && identity.token_hash.as_ref() == Some(&token_hash) {
            return Ok(());
        }
        match self
            .enrol(identity, dialer, token, token_hash, cluster_uid)
            .await
        {
            Err(IdentityError::Refused(status)) if is_valid => {
                tracing::warn!(
                    status = status.message(),
                    "the new token is refused: going on with the old certificate"
                );
                Ok(())
            }
            enrolled => Ok(enrolled?),
        }
    }

    async fn enrol(
        &self,
        identity: &mut Identity,
        dialer: &Dialer,
        token: String,
        token_hash: String,
        cluster_uid: &str,
    ) -> Result<(), IdentityError> {
        let certificate_request = identity.key.certificate_request()?;
        let mut client = dialer.dial().await?;
        let request = v1::EnrollRequest {
            token,
            certificate_request,
            cluster_uid: cluster_uid.to_owned(),
        };
        let answer = client
            .enroll(request)
            .await
            .map_err(IdentityError::Refused)?;
        identity.certificate_pem = Some(answer.into_inner().certificate_pem);
        identity.token_hash = Some(token_hash);
        identity.stored = false;
        tracing::info!("enrolled");
        Ok(())
    }

    /// Renews the certificate each time that two thirds of its life are over. Returns only when it can't; may be dropped
    /// at any time, since what matters is stored before it is asked for.
    pub(super) async fn renew(
        &self,
        identity: &mut Identity,
        machine: &Machine,
        mut certificates: watch::Receiver<Option<String>>,
        clock: Clock,
    ) -> IdentityError {
        loop {
            if let Err(error) = self
                .renew_once(identity, machine, &mut certificates, clock)
                .await
            {
                return error;
            }
        }
    }

    async fn renew_once(
        &self,
        identity: &mut Identity,
        machine: &Machine,
        certificates: &mut watch::Receiver<Option<String>>,
        clock: Clock,
    ) -> Result<(), IdentityError> {
        self.save_at_last(identity).await?;
        let certificate = identity.certificate_pem.as_deref().unwrap_or_default();
        let wait = until_renewal(validity(certificate)?, clock());
        tokio::time::sleep(wait).await;
        if identity.next_key.is_none() {
            identity.next_key = Some(AgentKey::generate()?);
            identity.stored = false;
            self.save_at_last(identity).await?;
        }
        let Some(next) = &identity.next_key else {
            return Err(IdentityError::Ended);
        };
        certificates.mark_unchanged();
        let request = next.certificate_request()?;
        machine.with(|machine| machine.renew(request));
        let answered = certificates.changed().await;
        answered.map_err(|_closed| IdentityError::Ended)?;
        let certificate = certificates.borrow_and_update().clone();
        if let (Some(certificate), Some(next)) = (certificate, identity.next_key.take()) {
            identity.key = next;
            identity.certificate_pem = Some(certificate);
            identity.stored = false;
            tracing::info!("certificate renewed");
            self.save_at_last(identity).await?;
        }
        Ok(())
    }
}
