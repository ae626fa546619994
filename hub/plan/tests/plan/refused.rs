//! What the API server would refuse in a route, with all that the route has, is not in it. The definition of InferenceServers
//! refuses most of this, but may be younger than an object.

use crds::v1alpha1::{RouteParent, RouteTimeouts};
use serde_json::{Value, json};

use crate::{
    given::{Given, condition, healthy},
    routing::{CONDITION, rule},
};

fn specs(given: &Given) -> Vec<Value> {
    let routes = given.plan().routes;
    let specs = routes.iter();
    let specs = specs.map(|route| serde_json::to_value(&route.spec).unwrap());
    specs.collect()
}

#[test]
fn a_rule_with_a_dot_for_an_element_is_not_served_and_the_others_are() {
    for (path, to, field) in [
        ("/team/llama/a/../../other", "/", "path"),
        ("/team/llama/a/./b", "/", "path"),
        ("/team/llama/..", "/", "path"),
        ("/team/llama/.", "/", "path"),
        ("/../cluster/team/other", "/", "path"),
        ("/team/llama/a", "/../../other/llama", "to"),
        ("/team/llama/a", "/v1/..", "to"),
        ("/team/llama/a", "/.", "to"),
        ("/team/llama/a", "/./v1", "to"),
    ] {
        for hostnames in [Vec::new(), vec!["llama.example.com".to_owned()]] {
            let mut given = healthy();
            given.server.spec.routing.hostnames = hostnames;
            given.server.spec.routing.rules = vec![rule("/team/llama/good", "/v1")];
            let served = specs(&given);
            given.server.spec.routing.rules.push(rule(path, to));
            assert_eq!(specs(&given), served, "{path} to {to}");
            let status = given.plan().status;
            assert_eq!(condition(&status, CONDITION), "False RuleRefused");
            let said = format!(
                "spec.routing.rules: {path} is not served: its {field} has . or .. as an element"
            );
            let mut conditions = status.conditions.iter();
            let found = conditions.find(|condition| condition.type_ == CONDITION);
            assert_eq!(found.unwrap().message, said);
        }
    }
}

#[test]
fn dots_that_are_not_all_of_an_element_are_served() {
    let mut given = healthy();
    given.server.spec.routing.rules = vec![rule("/team/llama/.well-known/a..b", "/.../..v1./x.")];
    let rules = &specs(&given)[0]["rules"];
    assert_eq!(
        rules[1]["filters"][0]["urlRewrite"]["path"]["replacePrefixMatch"],
        "/cluster/team/llama/.../..v1./x."
    );
}

#[test]
fn an_attempt_that_may_take_longer_than_its_request_takes_as_long() {
    for (request, attempt, written) in [
        (Some("10s"), Some("20s"), json!("10s")),
        (Some("1m"), Some("60001ms"), json!("1m")),
        (Some("1m"), Some("60s"), json!("60s")),
        (Some("1h1m"), Some("1m1h"), json!("1m1h")),
        (Some("20s"), Some("10s"), json!("10s")),
        (Some("20s"), Some("0s"), json!("0s")),
        (Some("20s"), Some("99999h99999h"), json!("20s")),
        (Some("0s"), Some("20s"), json!("20s")),
        (Some("0h0ms"), Some("20s"), json!("20s")),
        (None, Some("20s"), json!("20s")),
        (Some("20s"), None, Value::Null),
    ] {
        let mut given = healthy();
        given.server.spec.routing.timeouts = Some(RouteTimeouts {
            request: request.map(str::to_owned),
            backend_request: attempt.map(str::to_owned),
        });
        let timeouts = &specs(&given)[0]["rules"][0]["timeouts"];
        assert_eq!(timeouts["request"], json!(request));
        assert_eq!(
            timeouts["backendRequest"], written,
            "{request:?} {attempt:?}"
        );
    }
}

fn parent(namespace: Option<&str>, name: &str, listener: Option<&str>) -> RouteParent {
    RouteParent {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        section_name: listener.map(str::to_owned),
    }
}

#[test]
fn a_gateway_is_named_once_and_as_a_whole_or_by_its_listeners() {
    let mut given = healthy();
    given.server.spec.routing.parent_refs = vec![
        parent(None, "own", Some("b")),
        parent(None, "own", Some("a")),
        parent(Some("team"), "own", Some("b")),
        parent(Some("infra"), "public", Some("http")),
        parent(Some("infra"), "public", None),
        parent(Some("infra"), "public", None),
        parent(Some("team"), "public", Some("http")),
    ];
    assert_eq!(
        specs(&given)[0]["parentRefs"],
        json!([
            {"namespace": "team", "name": "own", "sectionName": "b"},
            {"namespace": "team", "name": "own", "sectionName": "a"},
            {"namespace": "infra", "name": "public"},
            {"namespace": "team", "name": "public", "sectionName": "http"},
        ])
    );
}

#[test]
fn a_gateway_or_listener_that_can_not_be_is_said_and_the_others_are_attached_to() {
    for (parent, reason) in [
        (parent(Some("Infra"), "public", None), "GatewayNotFound"),
        (parent(Some("in.fra"), "public", None), "GatewayNotFound"),
        (
            parent(Some("infra"), "public", Some("HTTP")),
            "ListenerNotFound",
        ),
        (
            parent(Some("infra"), "public", Some("a..b")),
            "ListenerNotFound",
        ),
        (
            parent(Some("infra"), "public", Some("-a")),
            "ListenerNotFound",
        ),
        (
            parent(Some("infra"), "public", Some("a-")),
            "ListenerNotFound",
        ),
    ] {
        let mut given = healthy();
        let good = self::parent(Some("infra"), "public", Some("http-1.a"));
        given.server.spec.routing.parent_refs = vec![good, parent.clone()];
        given.apply();
        assert_eq!(
            specs(&given)[0]["parentRefs"],
            json!([{"namespace": "infra", "name": "public", "sectionName": "http-1.a"}])
        );
        let status = given.plan().status;
        assert_eq!(condition(&status, CONDITION), format!("False {reason}"));
        given.server.spec.routing.parent_refs = vec![parent];
        assert!(specs(&given).is_empty(), "a route without parents");
        let status = given.plan().status;
        assert_eq!(condition(&status, CONDITION), format!("False {reason}"));
    }
}
