//! Bad input gets a field path and a sentence that says what would be right.

use crds::v1alpha1::InferenceServer;
use e2e::installed::example;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::shared;

/// What the API server says of the example with one thing changed; empty when it takes it.
async fn said(installed: &e2e::Installed, pointer: &str, value: Value) -> String {
    let mut server: Value = example("inferenceserver.yaml").unwrap();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = server.pointer_mut(parent).unwrap();
    match name.parse::<usize>() {
        Ok(index) => parent[index] = value,
        Err(_) => parent[name] = value,
    }
    let client = installed.hub().client().await.unwrap();
    let resource = ApiResource::erase::<InferenceServer>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match api
        .create(&parameters, &serde_json::from_value(server).unwrap())
        .await
    {
        Ok(_) => String::new(),
        Err(kube::Error::Api(status)) => status.message,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn bad_input_gets_a_field_path_and_a_sentence() {
    let fleet = shared().await;
    let target = |id: &str| json!({"clusterId": id});
    for (pointer, value, path, sentence) in [
        (
            "/spec/clusterTargets/0",
            target("East_1"),
            "spec.clusterTargets[0].clusterId",
            "must be the name of a MemberCluster: lower-case letters, digits and hyphens",
        ),
        (
            "/spec/clusterTargets",
            json!([target("a"), target("a")]),
            "spec.clusterTargets",
            "Duplicate value",
        ),
        (
            "/spec/clusterTargets",
            json!([]),
            "spec.clusterTargets",
            "should have at least 1 items",
        ),
        (
            "/spec/clusterTargets/0",
            json!({"clusterId": "a", "weight": 1001}),
            "spec.clusterTargets[0].weight",
            "should be less than or equal to 1000",
        ),
        (
            "/spec/clusterTargets/0",
            json!({"clusterId": "a", "weight": -1}),
            "spec.clusterTargets[0].weight",
            "should be greater than or equal to 0",
        ),
        (
            "/spec/resources/requests",
            json!({"cpu": "1 core"}),
            "spec.resources.requests.cpu",
            "should match '^[0-9]+([.][0-9]*)?([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$'",
        ),
        (
            "/spec/model",
            json!({"uri": "llama"}),
            "spec.model.uri",
            "must be a URI with a scheme",
        ),
        (
            "/spec/replicas",
            json!(-1),
            "spec.replicas",
            "should be greater than or equal to 0",
        ),
        (
            "/metadata/name",
            json!("1st"),
            "",
            "metadata.name must start with a letter and have at most 53",
        ),
        (
            "/metadata/name",
            json!("x".repeat(54)),
            "",
            "metadata.name must start with a letter and have at most 53",
        ),
    ] {
        is_refused(&fleet, pointer, value, path, sentence).await;
    }
}

#[tokio::test]
async fn a_bad_source_of_an_endpoint_gets_a_field_path_and_a_sentence() {
    let fleet = shared().await;
    for (source, path, sentence) in [
        (
            json!({"source": "NodePort"}),
            "",
            "source Service and source NodePort need service",
        ),
        (
            json!({"source": "Static", "addresses": ["203.0.113.9"]}),
            "",
            "source Static needs addresses and port",
        ),
        (
            json!({"source": "Static", "port": 80, "addresses": []}),
            "",
            "source Static needs addresses and port",
        ),
        (
            json!({"source": "Static", "port": 80, "addresses": ["203.0.113.256"]}),
            ".addresses[0]",
            "should match",
        ),
        (
            json!({"source": "Static", "port": 80, "addresses": ["::1", "::1"]}),
            ".addresses[1]",
            "Duplicate value",
        ),
        (
            json!({"source": "Elsewhere"}),
            ".source",
            "supported values: \"Gateway\", \"Service\", \"NodePort\", \"Static\"",
        ),
        (
            json!({"source": "Service", "service": {"namespace": "a", "name": "b", "port": 0}}),
            ".service.port",
            "should be greater than or equal to 1",
        ),
    ] {
        let target = json!({"clusterId": "a", "endpoint": source});
        let path = format!("spec.clusterTargets[0].endpoint{path}");
        is_refused(&fleet, "/spec/clusterTargets/0", target, &path, sentence).await;
    }
}

#[tokio::test]
async fn a_bad_route_gets_a_field_path_and_a_sentence() {
    let fleet = shared().await;
    for (routing, path, sentence) in [
        (
            json!({"rules": [{"path": "/default/hello/a/../../other"}]}),
            "rules[0].path",
            "must not have . or .. as an element",
        ),
        (
            json!({"rules": [{"path": "/default/hello/a", "to": "/../../default/other"}]}),
            "rules[0].to",
            "must not have . or .. as an element",
        ),
        (
            json!({"rules": [{"path": "/default/hello/%2e%2e"}]}),
            "rules[0].path",
            "must be an absolute path",
        ),
        (
            json!({"timeouts": {"request": "10s", "backendRequest": "20s"}}),
            "timeouts",
            "backendRequest must not be longer than request",
        ),
        (
            json!({"requestHeaders": {"add": [
                {"name": "x-a", "value": "v".repeat(4096)}, {"name": "x-b", "value": "v".repeat(4096)},
            ]}}),
            "requestHeaders",
            "set, add and remove must not have more than 8192 characters in all",
        ),
        (
            json!({"parentRefs": [{"namespace": "Infra", "name": "public"}]}),
            "parentRefs[0].namespace",
            "must be the name of a namespace",
        ),
        (
            json!({"parentRefs": [{"name": "public", "sectionName": "HTTP"}]}),
            "parentRefs[0].sectionName",
            "must be the name of a listener",
        ),
    ] {
        let path = format!("spec.routing.{path}");
        is_refused(&fleet, "/spec/routing", routing, &path, sentence).await;
    }
}

/// The API server refuses that value, and says where and why.
async fn is_refused(
    fleet: &e2e::Installed,
    pointer: &str,
    value: Value,
    path: &str,
    sentence: &str,
) {
    let message = said(fleet, pointer, value.clone()).await;
    assert!(
        message.contains(path) && message.contains(sentence),
        "{pointer} {value}: {message:?}"
    );
}

#[tokio::test]
async fn good_input_is_taken() {
    let fleet = shared().await;
    for (pointer, value) in [
        (
            "/spec/clusterTargets/0",
            json!({"clusterId": "not-there-yet", "weight": 0}),
        ),
        (
            "/spec/clusterTargets/0",
            json!({"clusterId": "a", "endpoint": {"source": "Static", "port": 80, "addresses": [
                "203.0.113.9", "2001:db8::9", "::ffff:203.0.113.9", "lb-1.example.com", "localhost",
            ]}}),
        ),
        (
            "/spec/clusterTargets/0",
            json!({"clusterId": "a", "endpoint": {"source": "Service",
                "service": {"namespace": "a", "name": "b", "port": "http"}}}),
        ),
        ("/spec/runtime", json!({"profile": "not-there-yet"})),
        (
            "/spec/resources/requests",
            json!({"cpu": 1, "memory": "1.5Gi", "nvidia.com/gpu": "2"}),
        ),
        (
            "/spec/routing",
            json!({"timeouts": {"request": "0s", "backendRequest": "1h"},
                "rules": [{"path": "/default/hello/.well-known/a..b", "to": "/..."}]}),
        ),
        ("/metadata/name", json!("x".repeat(53))),
        ("/spec/replicas", json!(0)),
    ] {
        let message = said(&fleet, pointer, value.clone()).await;
        assert_eq!(message, "", "{pointer} {value}");
    }
}
