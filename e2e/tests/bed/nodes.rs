//! Pods on process nodes and on fake ones.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{SOON, ask, cluster_ip, create, fleet, namespace, pods, web};

fn is_ready(pod: Option<&Pod>) -> bool {
    let status = pod.and_then(|pod| pod.status.as_ref());
    let mut conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn address(pod: &Pod) -> std::net::SocketAddr {
    format!("{}:8080", pod.status.as_ref().unwrap().pod_ip.as_ref().unwrap()).parse().unwrap()
}

#[tokio::test]
async fn a_pod_is_known_to_the_api_server_by_its_own_token() {
    let member = &fleet().await.members()[0];
    let service = web(member, "token", 1, "ClusterIP").await;
    let answer = ask(member, cluster_ip(&service), "/whoami").await.unwrap();
    assert_eq!(answer["text"], "system:serviceaccount:token:default");
}

#[tokio::test]
async fn a_pod_finds_its_environment_and_volumes() {
    let member = &fleet().await.members()[0];
    let client = member.client().await.unwrap();
    namespace(&client, "volumes").await;
    // The Pod comes first: it waits for what it refers to.
    let pod = json!({
        "metadata": {"name": "full", "labels": {"color": "blue"}},
        "spec": {
            "initContainers": [{
                "name": "first", "image": "inferfleet/bed-http", "command": ["/bin/sh", "-c", "echo done > /work/init"],
                "volumeMounts": [{"name": "work", "mountPath": "/work"}],
            }],
            "containers": [{
                "name": "main", "image": "inferfleet/bed-http",
                "env": [
                    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "key"}}},
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "BOTH", "value": "$(KEY) at $(NODE)"},
                ],
                "envFrom": [{"prefix": "MAP_", "configMapRef": {"name": "map"}}],
                "volumeMounts": [
                    {"name": "secret", "mountPath": "/etc/deep/secret", "readOnly": true},
                    {"name": "work", "mountPath": "/var/run/work"},
                    {"name": "about", "mountPath": "/about"},
                ],
                "securityContext": {"readOnlyRootFilesystem": true},
            }],
            "volumes": [
                {"name": "secret", "secret": {"secretName": "secret", "items": [{"key": "key", "path": "a/b"}]}},
                {"name": "work", "emptyDir": {}},
                {"name": "about", "downwardAPI": {"items": [
                    {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                ]}},
            ],
        },
    });
    let pod = create::<Pod>(&client, "volumes", pod).await;
    create::<Secret>(&client, "volumes", json!({"metadata": {"name": "secret"}, "stringData": {"key": "value"}})).await;
    create::<ConfigMap>(&client, "volumes", json!({"metadata": {"name": "map"}, "data": {"word": "hello"}})).await;
    let api = Api::<Pod>::namespaced(client, "volumes");
    let pod = e2e::wait::until(api, &pod.name_any(), SOON, is_ready).await.unwrap().unwrap();
    let look = async |path: &str| {
        let answer = || ask(member, address(&pod), path);
        e2e::wait::eventually("an answer", SOON, answer).await.unwrap()
    };
    let env = look("/").await["env"].clone();
    assert_eq!(env["BOTH"], "value at process");
    assert_eq!(env["MAP_word"], "hello");
    assert_eq!(env["HOSTNAME"], "full");
    assert_eq!(look("/file?/etc/deep/secret/a/b").await["text"], "value");
    assert_eq!(look("/file?/var/run/work/init").await["text"], "done\n");
    assert_eq!(look("/file?/about/labels").await["text"], "color=\"blue\"");
}

#[tokio::test]
async fn a_killed_process_is_started_again_and_the_pod_stays() {
    let member = &fleet().await.members()[0];
    let service = web(member, "killed", 1, "ClusterIP").await;
    let before = pods(member, "killed").await.remove(0);
    assert_eq!(member.kill_pod_process("killed", &[("app", "web")]).await.unwrap(), 1);
    let restarted = |pod: Option<&Pod>| {
        let status = pod.and_then(|pod| pod.status.as_ref());
        let container = status.and_then(|status| status.container_statuses.as_ref()?.first());
        container.is_some_and(|container| container.restart_count == 1 && container.ready)
    };
    let api = Api::<Pod>::namespaced(member.client().await.unwrap(), "killed");
    let after = e2e::wait::until(api, &before.name_any(), SOON, restarted).await.unwrap().unwrap();
    assert_eq!(after.uid(), before.uid());
    let last = after.status.unwrap().container_statuses.unwrap().remove(0).last_state.unwrap();
    assert_eq!(last.terminated.unwrap().exit_code, 137);
    let answer = || ask(member, cluster_ip(&service), "/");
    e2e::wait::eventually("an answer", SOON, answer).await.unwrap();
}

#[tokio::test]
async fn a_deleted_pod_leaves_its_service_and_then_the_api_server() {
    let member = &fleet().await.members()[0];
    let service = web(member, "deleted", 1, "ClusterIP").await;
    let client = member.client().await.unwrap();
    let deployments = Api::<k8s_openapi::api::apps::v1::Deployment>::namespaced(client.clone(), "deleted");
    let pod = pods(member, "deleted").await.remove(0);
    deployments.delete("web", &DeleteParams::default()).await.unwrap();
    let gone = |pod: Option<&Pod>| pod.is_none();
    let api = Api::<Pod>::namespaced(client, "deleted");
    e2e::wait::until(api, &pod.name_any(), SOON, gone).await.unwrap();
    let refused = || async {
        match member.connect(cluster_ip(&service)).await {
            Ok(_) => anyhow::bail!("somebody listens"),
            Err(_) => Ok(()),
        }
    };
    e2e::wait::eventually("a refusal", SOON, refused).await.unwrap();
}

#[tokio::test]
async fn a_pod_that_needs_an_accelerator_runs_on_a_fake_node() {
    let member = &fleet().await.members()[0];
    let client = member.client().await.unwrap();
    namespace(&client, "gpu").await;
    let pod = json!({
        "metadata": {"name": "server"},
        "spec": {"containers": [{
            "name": "server", "image": "example.org/server",
            "resources": {"limits": {"nvidia.com/gpu": "2"}},
        }]},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let api = Api::<Pod>::namespaced(client, "gpu");
    api.create(&PostParams::default(), &pod).await.unwrap();
    let pod = e2e::wait::until(api, "server", SOON, is_ready).await.unwrap().unwrap();
    assert!(pod.spec.unwrap().node_name.unwrap().starts_with("fake-"));
}

#[tokio::test]
async fn an_image_without_a_program_says_so() {
    let member = &fleet().await.members()[0];
    let client = member.client().await.unwrap();
    namespace(&client, "unknown").await;
    let pod = json!({
        "metadata": {"name": "unknown"},
        "spec": {
            "nodeName": "process",
            "containers": [{"name": "c", "image": "example.org/unknown:1"}],
        },
    });
    create::<Pod>(&client, "unknown", pod).await;
    let waits = |pod: Option<&Pod>| {
        let status = pod.and_then(|pod| pod.status.as_ref());
        let container = status.and_then(|status| status.container_statuses.as_ref()?.first());
        let waiting = container.and_then(|container| container.state.as_ref()?.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("ErrImagePull"))
    };
    e2e::wait::until(Api::<Pod>::namespaced(client, "unknown"), "unknown", SOON, waits).await.unwrap();
}
