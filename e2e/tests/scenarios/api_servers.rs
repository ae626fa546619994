//! A member whose API server stops, freezes or is far away while a server is created, changed and deleted.

use std::time::Duration;

use crds::v1alpha1::{InferenceServer, ServerPlacement};
use e2e::{Cluster, Installed};
use gateway_api::apis::standard::httproutes::HttpRoute;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{DeleteParams, ListParams};

use super::record::Record;
use super::{
    LATER, MEMBERS, SOON, alone, namespace, serve, server, servers, status_of, until_server,
};

/// The members that are well.
const OTHERS: [&str; 2] = ["east", "north"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Stopped,
    Frozen,
    Far,
}

impl Fault {
    async fn begin(self, member: &Cluster) {
        match self {
            Self::Stopped => member.stop_api_server().await,
            Self::Frozen => member.pause_api_server().await,
            Self::Far => member.delay_api_server(Duration::from_secs(1)).await,
        }
        .unwrap();
    }

    async fn end(self, member: &Cluster) {
        match self {
            Self::Stopped => member.restart_api_server().await,
            Self::Frozen => member.resume_api_server().await,
            Self::Far => member.delay_api_server(Duration::ZERO).await,
        }
        .unwrap();
    }

    /// Does nothing come about there until it ends?
    fn is_total(self) -> bool {
        self != Self::Far
    }
}

/// What of ours is in a member's namespace.
async fn parts(cluster: &Cluster, namespace: &str) -> usize {
    let client = cluster.client().await.unwrap();
    let all = ListParams::default();
    let placements: Api<ServerPlacement> = Api::namespaced(client.clone(), namespace);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let routes: Api<HttpRoute> = Api::namespaced(client, namespace);
    placements.list(&all).await.unwrap().items.len()
        + deployments.list(&all).await.unwrap().items.len()
        + routes.list(&all).await.unwrap().items.len()
}

async fn until_empty(cluster: &Cluster, namespace: &str) {
    let look = || async {
        let left = parts(cluster, namespace).await;
        anyhow::ensure!(left == 0, "{left} objects are left in {}", cluster.name());
        Ok(())
    };
    e2e::wait::eventually("nothing", SOON, look).await.unwrap();
}

/// Waits for the members that are well, and ends the fault; the last one follows then.
async fn until_all_serve(fleet: &Installed, namespace: &str, fault: Fault, replicas: u32) {
    let west = fleet.member("west").unwrap();
    let others = |server: &InferenceServer| serve(server, &OTHERS, replicas);
    let seen = until_server(fleet, namespace, others).await;
    if fault.is_total() {
        assert!(!serve(&seen, &["west"], replicas), "west is dead");
    } else {
        fleet.ready(namespace, "hello").await.unwrap();
    }
    fault.end(west).await;
    let seen = fleet.ready(namespace, "hello").await.unwrap();
    assert!(serve(&seen, &MEMBERS, replicas));
}

async fn is_created(fleet: &Installed, namespace: &str, fault: Fault) {
    let west = fleet.member("west").unwrap();
    let record = Record::start(fleet.hub(), namespace).await;
    fault.begin(west).await;
    fleet.apply(&server(namespace, &MEMBERS)).await.unwrap();
    until_all_serve(fleet, namespace, fault, 1).await;
    // Each comes once, and stays.
    let mut ready: Vec<_> = record.changes();
    ready.retain(super::record::Change::all_ready);
    let mut clusters: Vec<_> = ready.iter().map(|change| &change.cluster).collect();
    clusters.sort_unstable();
    assert_eq!(clusters, MEMBERS, "{:?}", record.changes());
}

async fn is_changed(fleet: &Installed, namespace: &str, fault: Fault) {
    let west = fleet.member("west").unwrap();
    let record = Record::start(fleet.hub(), namespace).await;
    fault.begin(west).await;
    let mut changed = server(namespace, &MEMBERS);
    changed.spec.replicas = 2;
    fleet.apply(&changed).await.unwrap();
    until_all_serve(fleet, namespace, fault, 2).await;
    assert_eq!(record.changes(), [], "all have served all the while");
}

async fn is_deleted(fleet: &Installed, namespace: &str, fault: Fault) {
    let west = fleet.member("west").unwrap();
    fault.begin(west).await;
    let api = servers(fleet, namespace).await;
    api.delete("hello", &DeleteParams::default()).await.unwrap();
    for name in OTHERS {
        until_empty(fleet.member(name).unwrap(), namespace).await;
    }
    if fault.is_total() {
        let left = |server: &InferenceServer| {
            OTHERS.iter().all(|name| status_of(server, name).is_none())
                && status_of(server, "west").is_some()
        };
        until_server(fleet, namespace, left).await;
        fault.end(west).await;
    }
    // The garbage collector there looks again at a pace of its own.
    let gone = |server: Option<&InferenceServer>| server.is_none();
    e2e::wait::until(api, "hello", LATER, gone).await.unwrap();
    assert_eq!(parts(west, namespace).await, 0);
    if !fault.is_total() {
        fault.end(west).await;
    }
}

async fn disturbs_no_other_at_any_phase(name: &str, fault: Fault) {
    let fleet = alone().await;
    namespace(&fleet, name).await;
    is_created(&fleet, name, fault).await;
    is_changed(&fleet, name, fault).await;
    is_deleted(&fleet, name, fault).await;
}

#[tokio::test]
async fn an_api_server_that_stops_disturbs_no_other_member_at_any_phase() {
    disturbs_no_other_at_any_phase("stopped", Fault::Stopped).await;
}

#[tokio::test]
async fn an_api_server_that_freezes_disturbs_no_other_member_at_any_phase() {
    disturbs_no_other_at_any_phase("frozen", Fault::Frozen).await;
}

#[tokio::test]
async fn an_api_server_that_is_far_away_is_only_slow() {
    disturbs_no_other_at_any_phase("far", Fault::Far).await;
}
