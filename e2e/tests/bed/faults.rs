//! API servers that stop, freeze and come back. Member 2 is theirs.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use super::{SOON, fleet, namespace};

#[tokio::test]
async fn an_api_server_is_stopped_paused_and_brought_back() {
    let member = &fleet().await.members()[1];
    let client = member.client().await.unwrap();
    namespace(&client, "kept").await;
    let namespaces = Api::<Namespace>::all(client);
    assert!(namespaces.get("kept").await.is_ok());

    member.stop_api_server().await.unwrap();
    assert!(namespaces.get("kept").await.is_err());
    member.restart_api_server().await.unwrap();
    assert!(namespaces.get("kept").await.is_ok());

    member.pause_api_server().await.unwrap();
    let silent = tokio::time::timeout(Duration::from_secs(1), namespaces.get("kept")).await;
    assert!(silent.is_err(), "a frozen API server answered: {silent:?}");
    member.resume_api_server().await.unwrap();
    let look = || async { Ok(namespaces.get("kept").await?) };
    e2e::wait::eventually("an answer", SOON, look).await.unwrap();

    member.restart_api_server().await.unwrap();
    e2e::wait::eventually("an answer", SOON, look).await.unwrap();
}
