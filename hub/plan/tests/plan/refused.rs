//! What the API server would refuse in a route, with all that the route has, is not in it. The definition of InferenceServers
//! refuses most of this, but may be younger than an object.

use crds::v1alpha1::RoutingRule;
use serde_json::Value;

use crate::given::{Given, condition, healthy};

const CONDITION: &str = "DiscoveryRouteProvision";

fn rule(path: &str, to: &str) -> RoutingRule {
    RoutingRule {
        path: path.to_owned(),
        to: to.to_owned(),
        timeouts: None,
    }
}

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
