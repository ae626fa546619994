//! The hub's authority: kept in a Secret, made at the first start; and the server's certificate that it signs.

use std::{collections::BTreeMap, time::Duration};

use crds::labels;
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Namespace, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use operator::{apply, ownership::Desired};
use proto::transport::{
    CertificateError, TransportError,
    authority::{Authority, KeyedCertificate},
    server::ServerTls,
};

use super::validity;

/// The Secret with the authority: `tls.crt`, `tls.key`.
const SECRET: &str = "inferfleet-hub-ca";
/// What `kubectl inferfleet join` reads: `ca.crt`, `serverName`.
const PUBLISHED: &str = "inferfleet-hub";
const AUTHORITY_LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);
const SERVER_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// Why the hub has no authority.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not give or take an object.
    #[error("{0}")]
    Api(&'static str, #[source] Box<kube::Error>),
    /// The API server did not take what the CLI reads.
    #[error("publish the authority")]
    Publish(#[source] Box<apply::Error>),
    /// An object can't be written as JSON.
    #[error("encode an object")]
    Encode(#[from] serde_json::Error),
    /// The Secret holds no authority.
    #[error("read the authority from Secret {SECRET}: {0}")]
    Secret(String),
    /// A certificate can't be made.
    #[error("make a certificate")]
    Certificate(#[from] CertificateError),
    /// TLS does not take the certificate.
    #[error("serve with the certificate")]
    Tls(#[from] TransportError),
}

/// UID of the kube-system namespace: the name of a cluster that no other has.
///
/// # Errors
/// When it can't be read.
pub async fn cluster_uid(client: &Client) -> Result<String, Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let system = namespaces.get_metadata("kube-system").await;
    let system =
        system.map_err(|source| Error::Api("read namespace kube-system", Box::new(source)))?;
    Ok(system.uid().unwrap_or_default())
}

/// Reads the authority, or makes it. Of two hubs that start at once, one makes it and the other reads it.
///
/// # Errors
/// When the Secret can be neither read nor made, or holds something else.
pub async fn load(
    client: &Client,
    namespace: &str,
    hub_id: &str,
) -> Result<KeyedCertificate, Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let read = || async {
        let secret = secrets.get_opt(SECRET).await;
        secret.map_err(|source| Error::Api("read Secret inferfleet-hub-ca", Box::new(source)))
    };
    if let Some(secret) = read().await? {
        return keyed(&secret);
    }
    let made = Authority::create(hub_id, validity(AUTHORITY_LIFETIME))?;
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(SECRET.to_owned()),
            namespace: Some(namespace.to_owned()),
            // Created, or refused with 409: never merged into another's.
            resource_version: Some("1".to_owned()),
            labels: Some([(labels::MANAGED_BY.to_owned(), labels::HUB.to_owned())].into()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(BTreeMap::from([
            (
                "tls.crt".to_owned(),
                ByteString(made.certificate_pem.clone().into_bytes()),
            ),
            (
                "tls.key".to_owned(),
                ByteString(made.key_pem.clone().into_bytes()),
            ),
        ])),
        ..Secret::default()
    };
    match secrets
        .patch(
            SECRET,
            &PatchParams::apply(labels::HUB),
            &Patch::Apply(&secret),
        )
        .await
    {
        Ok(_) => {
            tracing::info!(secret = SECRET, "made the hub's authority");
            Ok(made)
        }
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let secret = read().await?;
            keyed(&secret.ok_or_else(|| Error::Secret("it was deleted".to_owned()))?)
        }
        Err(source) => Err(Error::Api(
            "create Secret inferfleet-hub-ca",
            Box::new(source),
        )),
    }
}

fn keyed(secret: &Secret) -> Result<KeyedCertificate, Error> {
    let text = |name: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(name));
        let bytes = bytes.ok_or_else(|| Error::Secret(format!("it has no {name}")))?;
        String::from_utf8(bytes.0.clone())
            .map_err(|error| Error::Secret(format!("{name} is no text: {error}")))
    };
    Ok(KeyedCertificate {
        certificate_pem: text("tls.crt")?,
        key_pem: text("tls.key")?,
    })
}

/// Publishes what the CLI puts into an agent's values: the authority's certificate and the server's name.
///
/// # Errors
/// When the API server does not take it.
pub async fn publish(
    client: &Client,
    namespace: &str,
    server_name: &str,
    ca_pem: &str,
) -> Result<(), Error> {
    let config = ConfigMap {
        metadata: ObjectMeta {
            name: Some(PUBLISHED.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([(labels::MANAGED_BY.to_owned(), labels::HUB.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([
            ("ca.crt".to_owned(), ca_pem.to_owned()),
            ("serverName".to_owned(), server_name.to_owned()),
        ])),
        ..ConfigMap::default()
    };
    let desired = Desired::new(&config)?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let live = api.get_opt(PUBLISHED).await;
    let live =
        live.map_err(|source| Error::Api("read ConfigMap inferfleet-hub", Box::new(source)))?;
    if live
        .as_ref()
        .is_some_and(|live| !desired.differs_from(&live.metadata, labels::HUB))
    {
        return Ok(());
    }
    let written = apply::apply(
        client,
        labels::HUB,
        &desired,
        live.as_ref().map(|live| &live.metadata),
    )
    .await;
    written
        .map(|_| ())
        .map_err(|source| Error::Publish(Box::new(source)))
}

/// The server's TLS, with a certificate of the authority's.
///
/// # Errors
/// When no certificate can be made.
pub fn serve_as(
    authority: &Authority,
    ca_pem: &str,
    server_name: &str,
) -> Result<ServerTls, Error> {
    let certificate =
        authority.issue_server(&[server_name.to_owned()], validity(SERVER_LIFETIME))?;
    Ok(ServerTls::new(&certificate, ca_pem)?)
}

/// Renews the server's certificate at two thirds of its life, for the connections to come. Ends only with an error.
pub async fn keep_serving(
    authority: Authority,
    ca_pem: String,
    server_name: String,
    tls: ServerTls,
) -> Error {
    loop {
        tokio::time::sleep(SERVER_LIFETIME * 2 / 3).await;
        let renewed = authority.issue_server(
            std::slice::from_ref(&server_name),
            validity(SERVER_LIFETIME),
        );
        let reloaded = renewed
            .map_err(Error::from)
            .and_then(|renewed| Ok(tls.reload(&renewed, &ca_pem)?));
        if let Err(error) = reloaded {
            return error;
        }
        tracing::info!("renewed the server's certificate");
    }
}
