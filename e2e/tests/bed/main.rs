//! The test bed's own tests. One fleet for all of them: a hub and two members, of which member 2 is
//! only for faults. Each test works in a namespace of its own.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod endings;
mod faults;
mod links;
mod nodes;
mod traffic;

use std::path::PathBuf;
use std::time::Duration;

use e2e::{Cluster, Fleet, ImageProgram};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Long enough for a busy machine; nothing waits this long when all is well.
const SOON: Duration = Duration::from_mins(1);

fn this_program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_e2e"))
}

async fn fleet() -> &'static Fleet {
    // A failure is kept as well: no second test tries again.
    static FLEET: OnceCell<Result<Fleet, String>> = OnceCell::const_new();
    let http = ImageProgram {
        path: this_program(),
        args: vec!["bed-http".to_owned()],
    };
    let start = || async {
        let fleet = Fleet::builder()
            .members(2)
            .audit(true)
            .fake_nodes(2)
            .fake_capacity("nvidia.com/gpu", "8")
            .image("inferfleet/bed-http", http)
            .supervisor(this_program())
            .start();
        fleet.await.map_err(|error| format!("{error:#}"))
    };
    FLEET.get_or_init(start).await.as_ref().unwrap()
}

/// A new namespace of this name.
async fn namespace(client: &Client, name: &str) {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
}

async fn create<K>(client: &Client, namespace: &str, object: Value) -> K
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let object: K = serde_json::from_value(object).unwrap();
    Api::namespaced(client.clone(), namespace)
        .create(&PostParams::default(), &object)
        .await
        .unwrap()
}

/// A Deployment `web` of the bed's HTTP program, and its Service of the given type, on port 80.
async fn web(cluster: &Cluster, namespace: &str, replicas: i32, service_type: &str) -> Service {
    let client = cluster.client().await.unwrap();
    self::namespace(&client, namespace).await;
    let service = json!({
        "metadata": {"name": "web"},
        "spec": {
            "type": service_type, "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    });
    let service = create::<Service>(&client, namespace, service).await;
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"note": "hello"}},
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "containers": [{
                        "name": "web", "image": "registry.example/inferfleet/bed-http:1.2",
                        "args": ["--port=$(PORT)"],
                        "env": [
                            {"name": "PORT", "value": "8080"},
                            {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                        ],
                        "ports": [{"name": "http", "containerPort": 8080}],
                        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
                    }],
                },
            },
        },
    });
    create::<Deployment>(&client, namespace, deployment).await;
    let ready = move |deployment: Option<&Deployment>| {
        let status = deployment.and_then(|deployment| deployment.status.as_ref());
        status.and_then(|status| status.ready_replicas) == Some(replicas)
    };
    let deployments = Api::<Deployment>::namespaced(client, namespace);
    e2e::wait::until(deployments, "web", SOON, ready)
        .await
        .unwrap();
    service
}

async fn pods(cluster: &Cluster, namespace: &str) -> Vec<Pod> {
    let pods = Api::<Pod>::namespaced(cluster.client().await.unwrap(), namespace);
    pods.list(&ListParams::default()).await.unwrap().items
}

fn cluster_ip(service: &Service) -> std::net::SocketAddr {
    let ip = service.spec.as_ref().unwrap().cluster_ip.as_ref().unwrap();
    format!("{ip}:80").parse().unwrap()
}

/// What the bed's HTTP program answers at an address to a request for `path`.
async fn ask(
    cluster: &Cluster,
    address: std::net::SocketAddr,
    path: &str,
) -> anyhow::Result<Value> {
    let answer = cluster.get(address, path).await?;
    anyhow::ensure!(
        answer.status() == 200,
        "{}: {}",
        answer.status(),
        answer.body()
    );
    Ok(serde_json::from_str(answer.body())?)
}

#[tokio::test]
async fn every_cluster_is_a_real_one_with_rbac() {
    for cluster in fleet().await.clusters() {
        let client = cluster.client().await.unwrap();
        assert_eq!(client.apiserver_version().await.unwrap().major, "1");
        let somebody = cluster
            .client_as(Some("system:serviceaccount:default:default"))
            .await
            .unwrap();
        let pods = Api::<Pod>::namespaced(somebody, "kube-system");
        match pods.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) => assert_eq!(status.code, 403, "{}", cluster.name()),
            other => panic!("a service account without a role reads Pods: {other:?}"),
        }
        let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(client);
        let is_ready = |node: Option<&k8s_openapi::api::core::v1::Node>| {
            let status = node.and_then(|node| node.status.as_ref());
            let mut conditions = status
                .and_then(|status| status.conditions.as_ref())
                .into_iter()
                .flatten();
            conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        for node in ["process", "fake-0", "fake-1"] {
            e2e::wait::until(nodes.clone(), node, SOON, is_ready)
                .await
                .unwrap();
        }
    }
}

#[tokio::test]
async fn a_direct_client_reaches_the_same_cluster() {
    for cluster in fleet().await.clusters() {
        let uid = async |client: Client| {
            let found = Api::<Namespace>::all(client).get("kube-system").await;
            found.unwrap().metadata.uid.unwrap()
        };
        let relayed = uid(cluster.client().await.unwrap()).await;
        let direct = uid(cluster.direct_client().await.unwrap()).await;
        assert_eq!(direct, relayed, "{}", cluster.name());
    }
}

#[tokio::test]
async fn the_audit_log_has_every_request() {
    let hub = fleet().await.hub();
    let client = hub.client().await.unwrap();
    namespace(&client, "audited").await;
    let planted = Api::<Pod>::namespaced(client, "audited")
        .get_opt("planted-get")
        .await
        .unwrap();
    assert!(planted.is_none());
    let log = hub.audit_log();
    let found = || async {
        let text = std::fs::read_to_string(&log)?;
        let mut lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let found =
            lines.find(|line| line["verb"] == "get" && line["objectRef"]["name"] == "planted-get");
        found.ok_or_else(|| anyhow::anyhow!("no such line"))
    };
    let line = e2e::wait::eventually("the planted get", SOON, found)
        .await
        .unwrap();
    assert_eq!(line["user"]["username"], "bed:admin");
}

#[tokio::test]
async fn a_chart_is_installed_by_helm_itself() {
    let member = &fleet().await.members()[0];
    let chart = tempfile::tempdir().unwrap();
    std::fs::create_dir(chart.path().join("templates")).unwrap();
    std::fs::write(
        chart.path().join("Chart.yaml"),
        "{apiVersion: v2, name: little, version: 1.0.0}",
    )
    .unwrap();
    let template = "{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Release.Name }}}, data: {word: {{ .Values.word }}}}";
    std::fs::write(chart.path().join("templates/map.yaml"), template).unwrap();
    member
        .helm_install("first", "charted", chart.path(), "word: given\n")
        .await
        .unwrap();
    let maps = Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(
        member.client().await.unwrap(),
        "charted",
    );
    assert_eq!(
        maps.get("first").await.unwrap().data.unwrap()["word"],
        "given"
    );
    member
        .helm_install("first", "charted", chart.path(), "word: changed\n")
        .await
        .unwrap();
    assert_eq!(
        maps.get("first").await.unwrap().data.unwrap()["word"],
        "changed"
    );
    let listed = member
        .kubectl(&["-n", "charted", "get", "configmap", "first", "-o", "name"])
        .await
        .unwrap();
    assert_eq!(listed.trim(), "configmap/first");
    assert_eq!(maps.get("first").await.unwrap().name_any(), "first");
}
