//! Tokens, keys and certificates.

use std::collections::BTreeMap;

use crds::v1alpha1::MemberCluster;
use e2e::installed::NAMESPACE;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DeleteParams;
use proto::transport::client::Dialer;
use proto::transport::identity::AgentKey;
use proto::v1::EnrollRequest;
use serde::Deserialize;
use serde_json::Value;
use tonic::Code;

use super::shared;

/// What `kubectl inferfleet join` prints.
#[derive(Deserialize)]
pub(crate) struct Printed {
    pub(crate) hub: PrintedHub,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrintedHub {
    pub(crate) address: String,
    pub(crate) server_name: String,
    pub(crate) ca: String,
    pub(crate) token: String,
}

/// Asks to be enrolled from outside of any cluster.
async fn enroll(
    fleet: &e2e::Installed,
    invitation: &PrintedHub,
    key: &AgentKey,
) -> Result<String, tonic::Status> {
    let forward = fleet
        .hub()
        .forward(invitation.address.parse().unwrap())
        .unwrap();
    let dialer = Dialer::new(
        &forward.address().to_string(),
        &invitation.server_name,
        &invitation.ca,
    )
    .unwrap();
    let mut client = dialer.dial().await.unwrap();
    let request = EnrollRequest {
        token: invitation.token.clone(),
        certificate_request: key.certificate_request().unwrap(),
        cluster_uid: "a-cluster".to_owned(),
    };
    Ok(client.enroll(request).await?.into_inner().certificate_pem)
}

#[tokio::test]
async fn a_token_opens_for_one_key_and_only_its_hash_is_kept() {
    let fleet = shared().await;
    let printed: Printed = serde_saphyr::from_str(&fleet.invite("invited").await.unwrap()).unwrap();
    let invitation = printed.hub;
    let members: Api<MemberCluster> = Api::all(fleet.hub().client().await.unwrap());
    let record: Value = serde_json::to_value(members.get("invited").await.unwrap()).unwrap();
    assert!(
        !record.to_string().contains(&invitation.token),
        "the token itself is in the MemberCluster"
    );
    assert_eq!(
        record["spec"]["joinToken"]["sha256"]
            .as_str()
            .unwrap()
            .len(),
        64
    );

    let (first, second) = (AgentKey::generate().unwrap(), AgentKey::generate().unwrap());
    let certificate = enroll(&fleet, &invitation, &first).await.unwrap();
    assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----"));
    let refused = enroll(&fleet, &invitation, &second).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(
        refused.message().contains("was used by another key"),
        "{refused}"
    );
    // An answer that got lost can be asked for again, by the same key.
    enroll(&fleet, &invitation, &first).await.unwrap();
    let wrong = PrintedHub {
        token: "guessed".to_owned(),
        ..invitation
    };
    let refused = enroll(&fleet, &wrong, &first).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    members
        .delete("invited", &DeleteParams::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn joining_again_makes_a_new_token_and_ends_the_old_one() {
    let fleet = shared().await;
    let old: Printed = serde_saphyr::from_str(&fleet.invite("again").await.unwrap()).unwrap();
    let new: Printed = serde_saphyr::from_str(&fleet.invite("again").await.unwrap()).unwrap();
    assert_ne!(old.hub.token, new.hub.token);
    let key = AgentKey::generate().unwrap();
    // The hub hears of the new token by its watch.
    let ended = || async {
        match enroll(&fleet, &old.hub, &key).await {
            Err(refused) if refused.code() == Code::PermissionDenied => Ok(()),
            other => anyhow::bail!("{other:?}"),
        }
    };
    e2e::wait::eventually("the old token's end", super::SOON, ended)
        .await
        .unwrap();
    let members: Api<MemberCluster> = Api::all(fleet.hub().client().await.unwrap());
    members
        .delete("again", &DeleteParams::default())
        .await
        .unwrap();
}

/// The Secret with the key and certificate of east's agent.
pub(crate) async fn easts_identity(fleet: &e2e::Installed) -> BTreeMap<String, ByteString> {
    let client = fleet.member("east").unwrap().client().await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    let secret = secrets.get("inferfleet-agent-identity").await.unwrap();
    secret.data.unwrap()
}

#[tokio::test]
async fn an_agents_key_stays_in_its_cluster_and_its_name_is_the_hubs_to_give() {
    let fleet = shared().await;
    let data = easts_identity(&fleet).await;
    assert!(
        data["tls.key"]
            .0
            .starts_with(b"-----BEGIN PRIVATE KEY-----")
    );
    let members: Api<MemberCluster> = Api::all(fleet.hub().client().await.unwrap());
    let record = members.get("east").await.unwrap();
    let named = super::attacks::peer(&data["tls.crt"].0);
    assert_eq!(
        Some(named.member.member_uid()),
        record.metadata.uid.as_deref()
    );
}

#[tokio::test]
async fn a_cluster_name_that_can_not_be_is_refused_before_anything_is_written() {
    let fleet = shared().await;
    let refused = fleet.invite("Not_A_Name").await.unwrap_err();
    assert!(
        format!("{refused:#}").contains("is not a cluster name"),
        "{refused:#}"
    );
}
