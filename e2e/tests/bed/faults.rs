//! API servers that stop, freeze and come back. Member 2 is theirs.

use std::time::Duration;

use gateway_api::apis::standard::gateways::Gateway;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Api;

use super::traffic::announces;
use super::{SOON, ask, cluster_ip, fleet, namespace, web};

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
    e2e::wait::eventually("an answer", SOON, look)
        .await
        .unwrap();

    // Everything else of the cluster has lived through it: controllers, scheduler, node and gateway.
    let service = web(member, "after-faults", 1, "ClusterIP").await;
    let answer = || ask(member, cluster_ip(&service), "/");
    e2e::wait::eventually("an answer", SOON, answer)
        .await
        .unwrap();
    let other = member.other_gateway_address(1).unwrap().ip();
    member.set_gateway_address(other).await.unwrap();
    let gateways = Api::<Gateway>::namespaced(member.client().await.unwrap(), "infra");
    let announces = move |gateway: Option<&Gateway>| announces(gateway, other);
    e2e::wait::until(gateways, "public", SOON, announces)
        .await
        .unwrap();

    // Whoever is to have a ServiceAccount gets it only when the controller manager goes on.
    let accounts =
        || async { Api::<ServiceAccount>::namespaced(member.client().await.unwrap(), "frozen") };
    let exists = |account: Option<&ServiceAccount>| account.is_some();
    member.pause_controller_manager().await.unwrap();
    namespace(&member.client().await.unwrap(), "frozen").await;
    let silent = e2e::wait::until(accounts().await, "default", Duration::from_secs(1), exists);
    assert!(silent.await.is_err(), "a frozen controller manager worked");
    member.resume_controller_manager().await.unwrap();
    e2e::wait::until(accounts().await, "default", SOON, exists)
        .await
        .unwrap();
}
