//! The traffic route: what it says, and what its gateway says of it.

use agent_plan::Kind;
use serde_json::{Value, json};

use crate::given::{World, entry};

/// The rules of the planned route: the probe's, the traffic's.
fn rules(world: &World) -> [Value; 2] {
    let rules = &world.rendered(Kind::HttpRoute)["spec"]["rules"];
    [rules[0].clone(), rules[1].clone()]
}

/// A world whose route has this in its status.
fn with_parents(parents: Value) -> World {
    let mut world = World::well();
    world.route.as_mut().unwrap()["status"]["parents"] = parents;
    world
}

/// An entry that accepts the route, but for what `change` does to it.
fn changed(change: impl FnOnce(&mut Value)) -> World {
    let mut entry = entry("http", 5, "True", "True");
    change(&mut entry);
    with_parents(json!([entry]))
}

const WAITS: &str = "Unknown RoutePending: HTTPRoute llama-traffic-0 waits for Gateway infra/public to accept it: is its controller running?";
const ACCEPTED: &str = "True Provisioned: Gateway infra/public accepts HTTPRoute llama-traffic-0";

#[test]
fn the_route_hangs_on_the_chosen_listener_alone() {
    assert_eq!(
        World::well().rendered(Kind::HttpRoute)["spec"]["parentRefs"],
        json!([{"namespace": "infra", "name": "public", "sectionName": "http"}])
    );
}

#[test]
fn the_route_is_for_every_host() {
    let route = World::well().rendered(Kind::HttpRoute);
    assert_eq!(route["spec"].get("hostnames"), None);
}

#[test]
fn what_is_below_the_servers_path_reaches_the_runtime_without_that_path() {
    let [_, traffic] = rules(&World::well());
    assert_eq!(
        traffic["matches"],
        json!([{"path": {"type": "PathPrefix", "value": "/cluster/team-a/llama"}}])
    );
    assert_eq!(
        traffic["filters"],
        json!([{
            "type": "URLRewrite",
            "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}},
        }])
    );
}

#[test]
fn servers_of_one_name_in_two_namespaces_have_two_paths() {
    let mut world = World::well();
    world.placement["metadata"]["namespace"] = json!("team-b");
    let [probe, traffic] = rules(&world);
    assert_eq!(
        probe["matches"][0]["path"]["value"],
        "/cluster/team-b/llama/-/ready"
    );
    assert_eq!(
        traffic["matches"][0]["path"]["value"],
        "/cluster/team-b/llama"
    );
}

#[test]
fn the_probes_path_and_nothing_below_it_leads_to_the_readiness_probes() {
    let mut world = World::well();
    world.content()["probes"]["readiness"]["path"] = json!("/healthz");
    let [probe, _] = rules(&world);
    assert_eq!(
        probe["matches"],
        json!([{"path": {"type": "Exact", "value": "/cluster/team-a/llama/-/ready"}}])
    );
    assert_eq!(
        probe["filters"][0],
        json!({
            "type": "URLRewrite",
            "urlRewrite": {"path": {"type": "ReplaceFullPath", "replaceFullPath": "/healthz"}},
        })
    );
}

#[test]
fn the_answer_to_a_probe_names_the_server_by_its_uid() {
    let mut world = World::well();
    world.placement["metadata"]["annotations"]["inferfleet.io/server-uid"] = json!("other-uid");
    let [probe, _] = rules(&world);
    assert_eq!(
        probe["filters"][1],
        json!({
            "type": "ResponseHeaderModifier",
            "responseHeaderModifier": {"set": [{"name": "inferfleet-placement", "value": "other-uid"}]},
        })
    );
}

#[test]
fn both_rules_send_to_the_servers_service_by_its_port() {
    let world = World::well();
    let service = world.rendered(Kind::Service);
    for rule in rules(&world) {
        assert_eq!(
            rule["backendRefs"],
            json!([{"name": service["metadata"]["name"], "port": service["spec"]["ports"][0]["port"]}])
        );
    }
}

#[test]
fn a_route_that_nobody_has_judged_waits_for_its_gateways_controller() {
    assert_eq!(with_parents(json!([])).route_verdict(), WAITS);
    let mut world = World::well();
    world.route.as_mut().unwrap()["status"] = Value::Null;
    assert_eq!(world.route_verdict(), WAITS);
}

#[test]
fn an_entry_without_a_verdict_on_the_route_is_not_the_gateways() {
    let mut foreign = entry("http", 5, "True", "True");
    foreign["conditions"] = json!([]);
    let accepts = entry("http", 5, "True", "True");
    assert_eq!(with_parents(json!([foreign])).route_verdict(), WAITS);
    assert_eq!(
        with_parents(json!([foreign, accepts])).route_verdict(),
        ACCEPTED
    );
}

#[test]
fn what_is_said_of_another_listener_says_nothing_of_ours() {
    let world = with_parents(json!([entry("other", 5, "True", "True")]));
    assert_eq!(world.route_verdict(), WAITS);
}

#[test]
fn what_is_said_of_a_whole_gateway_says_nothing_of_our_listener() {
    let world = changed(|entry| entry["parentRef"]["sectionName"] = Value::Null);
    assert_eq!(world.route_verdict(), WAITS);
}

#[test]
fn what_is_said_of_another_gateway_says_nothing_of_ours() {
    let world = changed(|entry| entry["parentRef"]["name"] = json!("private"));
    assert_eq!(world.route_verdict(), WAITS);
    let world = changed(|entry| entry["parentRef"]["namespace"] = json!("elsewhere"));
    assert_eq!(world.route_verdict(), WAITS);
}

#[test]
fn what_is_said_of_a_service_of_the_gateways_name_says_nothing_of_it() {
    let world = changed(|entry| entry["parentRef"]["kind"] = json!("Service"));
    assert_eq!(world.route_verdict(), WAITS);
    let world = changed(|entry| entry["parentRef"]["kind"] = json!("Gateway"));
    assert_eq!(world.route_verdict(), ACCEPTED);
}

#[test]
fn a_parent_without_a_namespace_is_in_the_routes_own() {
    let mut world = changed(|entry| entry["parentRef"]["namespace"] = Value::Null);
    assert_eq!(world.route_verdict(), WAITS);
    world.default_gateway.as_mut().unwrap().namespace = "team-a".to_owned();
    assert_eq!(
        world.route_verdict(),
        "True Provisioned: Gateway team-a/public accepts HTTPRoute llama-traffic-0"
    );
}

#[test]
fn of_several_controllers_the_one_that_accepts_counts() {
    let (refuses, accepts) = (
        entry("http", 5, "False", "True"),
        entry("http", 5, "True", "True"),
    );
    for parents in [json!([refuses, accepts]), json!([accepts, refuses])] {
        assert_eq!(with_parents(parents).route_verdict(), ACCEPTED);
    }
}

#[test]
fn a_refused_route_is_told_in_its_gateways_words() {
    let world = with_parents(json!([entry("http", 5, "False", "True")]));
    assert_eq!(
        world.route_verdict(),
        "False RouteNotAccepted: Gateway infra/public does not accept HTTPRoute llama-traffic-0: Accepted said (AcceptedReason)"
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
        let world = changed(|entry| {
            entry["conditions"][0]["status"] = json!("False");
            entry["conditions"][0]["reason"] = json!(theirs);
        });
        let said = world.route_verdict();
        assert!(said.starts_with(&format!("False {ours}: ")), "{said}");
    }
}

#[test]
fn references_that_cannot_be_resolved_are_told_in_the_gateways_words() {
    let world = with_parents(json!([entry("http", 5, "True", "False")]));
    assert_eq!(
        world.route_verdict(),
        "False RefsNotResolved: Gateway infra/public can't resolve what is named by HTTPRoute llama-traffic-0: ResolvedRefs said (ResolvedRefsReason)"
    );
}

#[test]
fn a_route_that_is_refused_is_not_told_by_its_references() {
    let world = with_parents(json!([entry("http", 5, "False", "False")]));
    assert!(world.route_verdict().starts_with("False RouteNotAccepted"));
}

#[test]
fn a_refusal_of_an_older_generation_is_none_of_this_one() {
    let world = with_parents(json!([entry("http", 4, "False", "True")]));
    assert_eq!(
        world.route_verdict(),
        "Unknown RoutePending: HTTPRoute llama-traffic-0 waits for Gateway infra/public: no Accepted yet for its generation 5"
    );
}

#[test]
fn a_refusal_without_a_generation_counts() {
    let world = changed(|entry| {
        entry["conditions"][0]["status"] = json!("False");
        entry["conditions"][0]["observedGeneration"] = Value::Null;
    });
    assert!(world.route_verdict().starts_with("False RouteNotAccepted"));
}

#[test]
fn an_accepted_route_waits_for_the_verdict_on_its_references() {
    let pending = "Unknown RoutePending: HTTPRoute llama-traffic-0 waits for Gateway infra/public: no ResolvedRefs yet for its generation 5";
    let world = changed(|entry| {
        entry["conditions"].as_array_mut().unwrap().pop();
    });
    assert_eq!(world.route_verdict(), pending);
    let world = with_parents(json!([entry("http", 5, "True", "Unknown")]));
    assert_eq!(world.route_verdict(), pending);
}

#[test]
fn only_an_accepted_route_with_resolved_references_admits_traffic() {
    for (accepted, resolved, admits) in [
        ("True", "True", true),
        ("False", "True", false),
        ("Unknown", "True", false),
        ("True", "False", false),
        ("True", "Unknown", false),
    ] {
        let world = with_parents(json!([entry("http", 5, accepted, resolved)]));
        assert_eq!(
            world.report().route_accepted,
            admits,
            "{accepted} {resolved}"
        );
    }
}

#[test]
fn a_route_that_another_listener_takes_admits_nothing_at_the_endpoint() {
    let mut world = World::well();
    world.listen(json!([{"name": "new", "port": 81, "protocol": "HTTP"}]));
    assert!(!world.report().route_accepted);
}

#[test]
fn a_route_without_its_gateway_admits_nothing() {
    let mut world = World::well();
    world.gateway = None;
    assert!(!world.report().route_accepted);
}

/// The Gateway has accepted generation 5 of the route, and we wrote the next at that time.
fn rewritten(at: &str) -> World {
    let mut world = World::well();
    let metadata = &mut world.route.as_mut().unwrap()["metadata"];
    metadata["generation"] = json!(6);
    metadata["managedFields"] = json!([
        {"manager": "inferfleet-agent", "operation": "Apply", "time": at},
        {"manager": "controller", "operation": "Update", "subresource": "status", "time": "2026-01-01T00:09:59Z"},
    ]);
    world
}

#[test]
fn a_verdict_on_an_older_generation_stands_for_a_minute_and_the_report_is_due_then() {
    let world = rewritten("2026-01-01T00:09:01Z");
    assert_eq!(world.route_verdict(), ACCEPTED);
    assert_eq!(
        world.report().due,
        Some("2026-01-01T00:10:01Z".parse().unwrap())
    );
}

#[test]
fn a_gateway_that_says_nothing_of_a_rewritten_route_is_doubted_after_a_minute_and_admits_as_before()
{
    let world = rewritten("2026-01-01T00:09:00Z");
    assert_eq!(
        world.route_verdict(),
        "Unknown RoutePending: Gateway infra/public accepts HTTPRoute llama-traffic-0 as of generation 5, and its controller example.com/gateway has said nothing of generation 6 for 60 s: does it run, and what does its log say?"
    );
    let report = world.report();
    assert!(report.route_accepted);
    assert_eq!(report.due, None);
}

#[test]
fn a_minute_is_counted_from_the_last_write_whoever_made_it() {
    let mut world = rewritten("2026-01-01T00:00:00Z");
    let route = world.route.as_mut().unwrap();
    let entries = route["metadata"]["managedFields"].as_array_mut().unwrap();
    entries.push(
        json!({"manager": "somebody", "operation": "Update", "time": "2026-01-01T00:09:01Z"}),
    );
    assert_eq!(world.route_verdict(), ACCEPTED);
    assert_eq!(
        world.report().due,
        Some("2026-01-01T00:10:01Z".parse().unwrap())
    );
}

#[test]
fn only_what_is_accepted_by_an_older_generation_is_doubted() {
    let mut current = rewritten("2026-01-01T00:00:00Z");
    current.route.as_mut().unwrap()["metadata"]["generation"] = json!(5);
    assert_eq!(current.route_verdict(), ACCEPTED);
    assert_eq!(current.report().due, None);
    let mut refused = rewritten("2026-01-01T00:09:30Z");
    refused.route.as_mut().unwrap()["status"]["parents"] =
        json!([entry("http", 5, "False", "True")]);
    assert!(
        refused
            .route_verdict()
            .ends_with("no Accepted yet for its generation 6")
    );
    assert_eq!(refused.report().due, None);
}
