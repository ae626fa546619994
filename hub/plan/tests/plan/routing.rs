//! What the specification says of routes: parents, hosts, paths, headers, timeouts.

use std::sync::Arc;

use crds::v1alpha1::{Header, HeaderFilter, RouteParent, RouteTimeouts, RoutingRule};
use gateway_api::httproutes::HttpRoute;
use serde_json::{Value, json};

use crate::given::{Given, Planned, condition, healthy, judged};

pub(crate) const CONDITION: &str = "DiscoveryRouteProvision";

pub(crate) fn rule(path: &str, to: &str) -> RoutingRule {
    RoutingRule {
        path: path.to_owned(),
        to: to.to_owned(),
        timeouts: None,
    }
}

/// `name [hosts]: path → to, ...` of each route.
fn routes(plan: &Planned) -> Vec<String> {
    plan.routes.iter().map(line).collect()
}

fn line(route: &HttpRoute) -> String {
    let route = serde_json::to_value(route).unwrap();
    let rules = route["spec"]["rules"].as_array().unwrap().iter();
    let rules = rules.map(|rule| {
        let path = rule["matches"][0]["path"]["value"].as_str().unwrap();
        let to = &rule["filters"][0]["urlRewrite"]["path"]["replacePrefixMatch"];
        format!("{path} → {}", to.as_str().unwrap())
    });
    let hosts = &route["spec"]["hostnames"];
    let hosts = if hosts.is_null() {
        String::new()
    } else {
        format!(" {hosts}")
    };
    let name = route["metadata"]["name"].as_str().unwrap();
    format!("{name}{hosts}: {}", rules.collect::<Vec<_>>().join(", "))
}

fn spec(plan: &Planned, index: usize) -> Value {
    serde_json::to_value(&plan.routes[index].spec).unwrap()
}

#[test]
fn own_hostnames_serve_the_server_at_the_root_and_leave_its_path_to_every_host() {
    let mut given = healthy();
    given.server.spec.routing.hostnames = vec!["llama.example.com".to_owned()];
    assert_eq!(
        routes(&given.plan()),
        [
            "llama-discovery-0: /team/llama → /cluster/team/llama",
            "llama-discovery-hostnames-0 [\"llama.example.com\"]: / → /cluster/team/llama/, /team/llama → /cluster/team/llama",
        ]
    );
}

#[test]
fn a_rule_below_the_servers_path_is_for_every_host() {
    let mut given = healthy();
    given.server.spec.routing.rules = vec![rule("/team/llama/chat", "/v1/chat")];
    assert_eq!(
        routes(&given.plan()),
        [
            "llama-discovery-0: /team/llama → /cluster/team/llama, /team/llama/chat → /cluster/team/llama/v1/chat"
        ]
    );
}

#[test]
fn a_rule_to_the_root_leads_to_the_runtimes_root() {
    let mut given = healthy();
    given.server.spec.routing.rules = vec![rule("/team/llama/all", "/")];
    assert!(
        routes(&given.plan())[0].ends_with("/team/llama/all → /cluster/team/llama"),
        "{:?}",
        routes(&given.plan())
    );
}

#[test]
fn a_rule_elsewhere_needs_hostnames_and_the_others_are_served() {
    let mut given = healthy();
    given.server.spec.routing.rules = vec![rule("/chat", "/v1"), rule("/team/llama/a", "/a")];
    let plan = given.plan();
    assert_eq!(
        routes(&plan),
        [
            "llama-discovery-0: /team/llama → /cluster/team/llama, /team/llama/a → /cluster/team/llama/a"
        ]
    );
    assert_eq!(condition(&plan.status, CONDITION), "False RuleRefused");
    given.server.spec.routing.hostnames = vec!["llama.example.com".to_owned()];
    given.apply();
    let plan = given.plan();
    assert!(routes(&plan)[1].contains("/chat → /cluster/team/llama/v1"));
    assert!(!routes(&plan)[0].contains("/chat"), "not on other hosts");
    assert_eq!(condition(&plan.status, CONDITION), "True Provisioned");
}

#[test]
fn no_rule_takes_another_servers_path_or_one_that_only_looks_like_its_own() {
    for path in [
        "/team/other",
        "/team/llama2",
        "/team",
        "/other/llama/x",
        "/",
    ] {
        let mut given = healthy();
        given.server.spec.routing.rules = vec![rule(path, "/")];
        let plan = given.plan();
        assert_eq!(
            plan.routes[0].spec.rules.as_ref().unwrap().len(),
            1,
            "{path}"
        );
        assert_eq!(
            condition(&plan.status, CONDITION),
            "False RuleRefused",
            "{path}"
        );
    }
}

#[test]
fn no_rule_takes_the_paths_between_hub_and_members_or_one_that_is_there_already() {
    for path in ["/cluster", "/cluster/team/llama", "/team/llama", "/"] {
        let mut given = healthy();
        given.server.spec.routing.hostnames = vec!["llama.example.com".to_owned()];
        given.server.spec.routing.rules = vec![rule(path, "/v1")];
        let status = given.plan().status;
        assert_eq!(condition(&status, CONDITION), "False RuleRefused", "{path}");
    }
}

#[test]
fn a_route_attaches_to_the_servers_parents_in_any_namespace() {
    let mut given = healthy();
    let parent = |namespace: Option<&str>, name: &str, section: Option<&str>| RouteParent {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        section_name: section.map(str::to_owned),
    };
    given.server.spec.routing.parent_refs = vec![
        parent(Some("edge"), "private", Some("https")),
        parent(None, "own", None),
    ];
    assert_eq!(
        spec(&given.plan(), 0)["parentRefs"],
        json!([
            {"namespace": "edge", "name": "private", "sectionName": "https"},
            {"namespace": "team", "name": "own"},
        ])
    );
}

#[test]
fn a_server_with_parents_of_its_own_needs_no_gateway_of_the_hub() {
    let mut given = healthy();
    given.server.spec.routing.parent_refs = vec![RouteParent {
        namespace: Some("infra".to_owned()),
        name: "public".to_owned(),
        section_name: None,
    }];
    given.gateway = None;
    given.apply();
    assert_eq!(
        condition(&given.plan().status, CONDITION),
        "True Provisioned"
    );
}

#[test]
fn a_gateway_that_does_not_exist_is_named() {
    let mut given = healthy();
    given.gateways.clear();
    let status = given.plan().status;
    assert_eq!(condition(&status, CONDITION), "False GatewayNotFound");
}

#[test]
fn one_parent_that_refuses_is_worse_than_one_that_accepts() {
    let mut given = healthy();
    for name in ["public", "private"] {
        given.server.spec.routing.parent_refs.push(RouteParent {
            namespace: Some("infra".to_owned()),
            name: name.to_owned(),
            section_name: None,
        });
        given.gateways.insert(("infra".to_owned(), name.to_owned()));
    }
    assert_eq!(
        condition(&given.plan().status, CONDITION),
        "Unknown RoutePending",
        "private has said nothing"
    );
}

#[test]
fn each_refusal_of_a_gateway_has_a_reason_of_its_own() {
    for (theirs, ours) in [
        ("NotAllowedByListeners", "RouteNotAllowed"),
        ("NoMatchingListenerHostname", "ListenerHostnameMismatch"),
        ("NoMatchingParent", "ListenerNotFound"),
        ("UnsupportedValue", "RouteNotAccepted"),
    ] {
        let mut given = healthy();
        let mut route = judged(&given.observed.routes[0], "False", "True");
        let mut status = serde_json::to_value(&route.status).unwrap();
        status["parents"][0]["conditions"][0]["reason"] = json!(theirs);
        route.status = serde_json::from_value(status).unwrap();
        given.observed.routes = vec![Arc::new(route)];
        assert_eq!(
            condition(&given.plan().status, CONDITION),
            format!("False {ours}")
        );
    }
}

#[test]
fn headers_are_set_added_and_removed_on_every_path() {
    let mut given = healthy();
    let header = |name: &str, value: &str| Header {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    given.server.spec.routing.request_headers = Some(HeaderFilter {
        set: vec![header("x-a", "1")],
        add: Vec::new(),
        remove: vec!["x-b".to_owned()],
    });
    given.server.spec.routing.response_headers = Some(HeaderFilter {
        add: vec![header("x-c", "2")],
        ..HeaderFilter::default()
    });
    given.server.spec.routing.rules = vec![rule("/team/llama/chat", "/v1")];
    for rule in spec(&given.plan(), 0)["rules"].as_array().unwrap() {
        let filters = rule["filters"].as_array().unwrap();
        assert_eq!(
            filters[1..],
            [
                json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x-a", "value": "1"}], "remove": ["x-b"]}}),
                json!({"type": "ResponseHeaderModifier", "responseHeaderModifier": {"add": [{"name": "x-c", "value": "2"}]}}),
            ]
        );
    }
}

#[test]
fn a_header_filter_that_does_nothing_is_no_filter() {
    let mut given = healthy();
    given.server.spec.routing.request_headers = Some(HeaderFilter::default());
    let rules = &spec(&given.plan(), 0)["rules"];
    assert_eq!(rules[0]["filters"].as_array().unwrap().len(), 1);
}

fn timeouts(request: &str) -> RouteTimeouts {
    RouteTimeouts {
        request: Some(request.to_owned()),
        backend_request: None,
    }
}

#[test]
fn timeouts_are_the_servers_unless_a_rule_has_its_own() {
    let mut given = healthy();
    given.server.spec.routing.timeouts = Some(timeouts("30s"));
    given.server.spec.routing.rules = vec![RoutingRule {
        timeouts: Some(timeouts("0s")),
        ..rule("/team/llama/chat", "/v1")
    }];
    let rules = &spec(&given.plan(), 0)["rules"];
    assert_eq!(rules[0]["timeouts"], json!({"request": "30s"}));
    assert_eq!(rules[1]["timeouts"], json!({"request": "0s"}));
}

#[test]
fn a_field_that_the_installed_gateway_api_lacks_is_not_sent_and_said() {
    let mut given = healthy();
    given.route_schema.timeouts = false;
    assert_eq!(condition(&given.plan().status, "Ready"), "True Serving");
    given.server.spec.routing.timeouts = Some(timeouts("30s"));
    let plan = given.plan();
    assert!(spec(&plan, 0)["rules"][0].get("timeouts").is_none());
    assert_eq!(
        condition(&plan.status, CONDITION),
        "False RouteFieldUnknown"
    );
}

/// So many rules below the server's path.
fn many(count: usize) -> Vec<RoutingRule> {
    (0..count)
        .map(|number| rule(&format!("/team/llama/r{number:03}"), "/v1"))
        .collect()
}

fn sizes(plan: &Planned) -> Vec<usize> {
    let rules = plan.routes.iter().map(|route| route.spec.rules.as_ref());
    rules.map(|rules| rules.unwrap().len()).collect()
}

#[test]
fn more_than_sixteen_rules_are_several_routes() {
    let mut given = healthy();
    given.server.spec.routing.rules = many(15);
    assert_eq!(sizes(&given.plan()), [16]);
    given.server.spec.routing.rules = many(16);
    assert_eq!(sizes(&given.plan()), [16, 1]);
    given.server.spec.routing.rules = many(128);
    assert_eq!(sizes(&given.plan()), [16, 16, 16, 16, 16, 16, 16, 16, 1]);
}

#[test]
fn a_rule_that_comes_or_goes_writes_one_route() {
    let mut given = healthy();
    given.server.spec.routing.rules = many(40);
    given.apply();
    let changed = |given: &Given| {
        let (before, after) = (&given.observed.routes, given.plan().routes);
        let same = |route: &HttpRoute| before.iter().any(|old| old.spec == route.spec);
        after.iter().filter(|route| !same(route)).count()
    };
    assert_eq!(changed(&given), 0);
    given.server.spec.routing.rules.remove(3);
    assert_eq!(changed(&given), 1);
    given.apply();
    given
        .server
        .spec
        .routing
        .rules
        .insert(0, rule("/team/llama/a", "/v1"));
    assert_eq!(changed(&given), 1);
}

#[test]
fn every_route_has_to_be_accepted() {
    let mut given = healthy();
    given.server.spec.routing.rules = many(20);
    given.apply();
    assert_eq!(
        condition(&given.plan().status, CONDITION),
        "True Provisioned"
    );
    let refused = judged(&given.observed.routes[1], "False", "True");
    given.observed.routes[1] = Arc::new(refused);
    assert_eq!(
        condition(&given.plan().status, CONDITION),
        "False RouteNotAccepted"
    );
}

#[test]
fn hostnames_that_go_take_their_routes_with_them() {
    let mut given = healthy();
    given.server.spec.routing.hostnames = vec!["llama.example.com".to_owned()];
    given.apply();
    given.server.spec.routing.hostnames.clear();
    let plan = given.plan();
    assert_eq!(routes(&plan).len(), 1);
    assert_eq!(plan.surplus[0].name, "llama-discovery-hostnames-0");
}
