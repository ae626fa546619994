//! Hosts, paths, headers and parents as the specification says, through real gateways.

use crds::v1alpha1::{
    Header, HeaderFilter, InferenceServer, RouteParent, RouteTimeouts, RoutingRule,
};
use e2e::Installed;
use http::{Request, Response};

use super::{SOON, namespace, server, serving, shared};

/// Asks the hub's gateway for a path of a host.
async fn ask_host(fleet: &Installed, host: &str, path: &str) -> anyhow::Result<Response<String>> {
    let request = Request::get(path)
        .header("host", host)
        .body(String::new())?;
    let hub = fleet.hub();
    hub.send(hub.gateway_address(), request).await
}

/// Returns the answer once it has this status: the gateway's data plane may be a moment behind its word.
async fn answered(fleet: &Installed, host: &str, path: &str, status: u16) -> Response<String> {
    let ask = || async {
        let answer = ask_host(fleet, host, path).await?;
        anyhow::ensure!(answer.status() == status, "{}", answer.status());
        Ok(answer)
    };
    e2e::wait::eventually(path, SOON, ask).await.unwrap()
}

#[tokio::test]
async fn a_server_is_reached_by_its_own_host_and_paths() {
    let fleet = shared().await;
    namespace(&fleet, "hosted").await;
    let mut wanted = server("hosted", &["east", "west"]);
    let routing = &mut wanted.spec.routing;
    routing.hostnames = vec!["hosted.example.com".to_owned()];
    routing.rules = vec![RoutingRule {
        path: "/models-of".to_owned(),
        to: "/v1/models".to_owned(),
        timeouts: None,
    }];
    routing.timeouts = Some(RouteTimeouts {
        request: Some("0s".to_owned()),
        backend_request: None,
    });
    routing.response_headers = Some(HeaderFilter {
        set: vec![Header {
            name: "x-fleet".to_owned(),
            value: "ours".to_owned(),
        }],
        ..HeaderFilter::default()
    });
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("hosted", "hello").await.unwrap();

    let own = "hosted.example.com";
    let answer = answered(&fleet, own, "/v1/models", 200).await;
    assert_eq!(answer.headers()["x-fleet"], "ours");
    assert!(answer.body().contains("hello"), "{}", answer.body());
    let answer = answered(&fleet, own, "/models-of", 200).await;
    assert!(answer.body().contains("hello"), "{}", answer.body());
    answered(&fleet, own, "/hosted/hello/v1/models", 200).await;
    answered(&fleet, "other.example.com", "/hosted/hello/v1/models", 200).await;
    answered(&fleet, "other.example.com", "/models-of", 404).await;
    answered(&fleet, "other.example.com", "/v1/models", 404).await;
}

#[tokio::test]
async fn a_rule_that_may_not_be_is_said_and_the_rest_is_served() {
    let fleet = shared().await;
    serving(&fleet, "ruled", &["east"]).await;
    let mut wanted = server("ruled", &["east"]);
    wanted.spec.routing.rules = vec![RoutingRule {
        path: "/answers/hello".to_owned(),
        to: "/".to_owned(),
        timeouts: None,
    }];
    fleet.apply(&wanted).await.unwrap();
    let refused = |server: &InferenceServer| {
        let status = server.status.as_ref();
        status.is_some_and(|status| status.summary.reason == "RuleRefused")
    };
    fleet.server_until("ruled", "hello", refused).await.unwrap();
    answered(&fleet, "any.example.com", "/ruled/hello/v1/models", 200).await;
    wanted.spec.routing.rules.clear();
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("ruled", "hello").await.unwrap();
}

#[tokio::test]
async fn a_gateway_that_does_not_exist_is_a_reason_of_its_own() {
    let fleet = shared().await;
    serving(&fleet, "parents", &["east"]).await;
    let mut wanted = server("parents", &["east"]);
    let parent = |name: &str| RouteParent {
        namespace: Some("infra".to_owned()),
        name: name.to_owned(),
        section_name: None,
    };
    wanted.spec.routing.parent_refs = vec![parent("public"), parent("missing")];
    fleet.apply(&wanted).await.unwrap();
    let missing = |server: &InferenceServer| {
        let status = server.status.as_ref();
        status.is_some_and(|status| status.summary.reason == "GatewayNotFound")
    };
    fleet
        .server_until("parents", "hello", missing)
        .await
        .unwrap();
    wanted.spec.routing.parent_refs.pop();
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("parents", "hello").await.unwrap();
}
