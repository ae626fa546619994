//! The control cluster as a member of its own fleet.

use std::collections::BTreeSet;

use crds::v1alpha1::{InferenceServer, MemberCluster, ServerPlacement};
use gateway_api::apis::standard::httproutes::HttpRoute;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};

use super::shares::pods;
use super::{SOON, alone, answer, namespace, server, servers};

/// The names of all objects of ours in the control cluster's namespace, its own and its part as a member.
async fn ours(hub: &e2e::Cluster, namespace: &str) -> Vec<String> {
    let client = hub.client().await.unwrap();
    let all = ListParams::default().labels("inferfleet.io/server=hello");
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let routes: Api<HttpRoute> = Api::namespaced(client.clone(), namespace);
    let placements: Api<ServerPlacement> = Api::namespaced(client, namespace);
    let mut names: Vec<_> = Vec::new();
    let found = services.list(&all).await.unwrap();
    names.extend(found.items.iter().map(ResourceExt::name_any));
    let found = deployments.list(&all).await.unwrap();
    names.extend(found.items.iter().map(ResourceExt::name_any));
    let found = routes.list(&all).await.unwrap();
    names.extend(found.items.iter().map(ResourceExt::name_any));
    let found = placements.list(&ListParams::default()).await.unwrap();
    names.extend(found.items.iter().map(ResourceExt::name_any));
    names.sort_unstable();
    names
}

#[tokio::test]
async fn the_control_cluster_is_a_member_like_any_other() {
    let fleet = alone().await;
    let hub = fleet.hub();
    fleet.join("control", hub).await.unwrap();
    namespace(&fleet, "self").await;
    fleet
        .apply(&server("self", &["control", "east"]))
        .await
        .unwrap();
    fleet.ready("self", "hello").await.unwrap();
    // Discovery Service and route; Service, Deployment, route and placement.
    assert_eq!(
        ours(hub, "self").await,
        [
            "hello",
            "hello",
            "hello",
            "hello-discovery-0",
            "hello-endpoints",
            "hello-traffic-0"
        ]
    );
    let east = pods(fleet.member("east").unwrap(), "self").await;
    let both: BTreeSet<_> = pods(hub, "self").await.into_iter().chain(east).collect();
    assert_eq!(both.len(), 2);
    let both_answer = || async {
        let mut seen = BTreeSet::new();
        for _ in 0..20 {
            seen.insert(answer(&fleet, "self").await?);
        }
        anyhow::ensure!(seen == both, "{seen:?} of {both:?}");
        Ok(())
    };
    e2e::wait::eventually("answers of both", SOON, both_answer)
        .await
        .unwrap();

    // Its agent lives where the hub does, and goes through the same restarts.
    hub.restart_api_server().await.unwrap();
    let mut changed = server("self", &["control", "east"]);
    changed.spec.replicas = 2;
    fleet.apply(&changed).await.unwrap();
    let ready = fleet.ready("self", "hello").await.unwrap();
    assert_eq!(ready.status.unwrap().summary.replicas.text, "4/4");

    let api = servers(&fleet, "self").await;
    api.delete("hello", &DeleteParams::default()).await.unwrap();
    let gone = |server: Option<&InferenceServer>| server.is_none();
    e2e::wait::until(api, "hello", SOON, gone).await.unwrap();
    let nothing = || async {
        let left = ours(hub, "self").await;
        anyhow::ensure!(left.is_empty(), "{left:?}");
        Ok(())
    };
    e2e::wait::eventually("nothing", SOON, nothing)
        .await
        .unwrap();
    fleet.inferfleet(&["leave", "control"]).await.unwrap();
    let records: Api<MemberCluster> = Api::all(hub.client().await.unwrap());
    assert!(records.get_opt("control").await.unwrap().is_none());
    let helm = [
        "uninstall",
        "inferfleet-agent",
        "-n",
        e2e::installed::NAMESPACE,
    ];
    hub.helm(&helm).await.unwrap();
}
