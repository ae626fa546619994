//! What the hub's Gateway says of the discovery route, and whose word on it counts.

use std::sync::Arc;

use crds::condition::State;
use hub_plan::routes::verdict;
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time},
    jiff::SignedDuration,
};
use serde_json::{Value, json};

use crate::given::{Given, condition, healthy, judged, now, server};

fn told(given: &Given) -> String {
    let found = verdict(&given.facts(), given.now).verdict;
    format!(
        "{} {}: {}",
        found.state.as_str(),
        found.reason,
        found.message
    )
}

/// The route has this as its Gateway's verdict, but for what `change` does to the entry.
fn changed(accepted: &str, resolved: &str, change: impl FnOnce(&mut Value)) -> Given {
    let mut given = healthy();
    let mut route = judged(&given.observed.routes[0], accepted, resolved);
    let mut status = serde_json::to_value(&route.status).unwrap();
    change(&mut status["parents"][0]);
    route.status = serde_json::from_value(status).unwrap();
    given.observed.routes = vec![Arc::new(route)];
    given
}

fn said(accepted: &str, resolved: &str) -> String {
    told(&changed(accepted, resolved, |_| ()))
}

const ACCEPTED: &str = "True Provisioned: Gateway infra/public accepts HTTPRoute llama-discovery-0";
const WAITS: &str = "Unknown RoutePending: Gateway infra/public has not judged HTTPRoute llama-discovery-0: does a controller run for it?";

#[test]
fn an_accepted_route_names_its_gateway() {
    assert_eq!(told(&healthy()), ACCEPTED);
}

#[test]
fn a_missing_gateway_api_is_told_with_what_to_install() {
    let mut given = healthy();
    given.gateway_api = false;
    assert_eq!(
        told(&given),
        "False GatewayAPIMissing: the hub's cluster has no Gateway API: install its CRDs (standard channel, 1.1 or later)"
    );
}

#[test]
fn a_gateway_that_is_not_set_is_told_with_the_values_that_set_it() {
    let mut given = healthy();
    given.gateway = None;
    assert_eq!(
        told(&given),
        "False GatewayNotSet: the hub has no Gateway: set `gateway.namespace` and `gateway.name` in its chart's values, or spec.routing.parentRefs"
    );
}

#[test]
fn a_route_that_does_not_exist_yet_is_pending() {
    let mut given = healthy();
    given.observed.routes.clear();
    assert_eq!(
        told(&given),
        "Unknown RoutePending: HTTPRoute llama-discovery-0 is not written yet"
    );
}

#[test]
fn a_route_of_another_name_says_nothing_of_ours() {
    let mut given = healthy();
    Arc::make_mut(&mut given.observed.routes[0]).metadata.name = Some("llama-other-0".to_owned());
    assert_eq!(
        told(&given),
        "Unknown RoutePending: HTTPRoute llama-discovery-0 is not written yet"
    );
}

#[test]
fn a_route_that_nobody_has_judged_waits_for_its_gateway() {
    let mut given = healthy();
    Arc::make_mut(&mut given.observed.routes[0]).status = None;
    assert_eq!(told(&given), WAITS);
}

#[test]
fn a_refused_route_is_told_in_its_gateways_words() {
    assert_eq!(
        said("False", "True"),
        "False RouteNotAccepted: Gateway infra/public refuses HTTPRoute llama-discovery-0: Because: of this"
    );
}

#[test]
fn references_that_cannot_be_resolved_are_told_in_the_gateways_words() {
    assert_eq!(
        said("True", "False"),
        "False RefsNotResolved: Gateway infra/public refuses HTTPRoute llama-discovery-0: Because: of this"
    );
}

#[test]
fn what_a_gateway_has_not_said_is_named() {
    assert_eq!(
        said("Unknown", "True"),
        "Unknown RoutePending: Gateway infra/public has not said Accepted of HTTPRoute llama-discovery-0"
    );
    assert_eq!(
        said("True", "Unknown"),
        "Unknown RoutePending: Gateway infra/public has not said ResolvedRefs of HTTPRoute llama-discovery-0"
    );
}

#[test]
fn an_accepted_route_waits_for_the_verdict_on_its_references() {
    let given = changed("True", "True", |entry| {
        entry["conditions"].as_array_mut().unwrap().pop();
    });
    assert_eq!(
        told(&given),
        "Unknown RoutePending: Gateway infra/public has not said ResolvedRefs of HTTPRoute llama-discovery-0"
    );
}

#[test]
fn what_is_said_of_another_gateway_says_nothing_of_ours() {
    for (field, value) in [("name", "private"), ("namespace", "elsewhere")] {
        let given = changed("True", "True", |entry| {
            entry["parentRef"][field] = json!(value);
        });
        assert_eq!(told(&given), WAITS, "{field}");
    }
}

#[test]
fn what_is_said_of_one_listener_says_nothing_of_the_whole_gateway() {
    let given = changed("True", "True", |entry| {
        entry["parentRef"]["sectionName"] = json!("http");
    });
    assert_eq!(told(&given), WAITS);
}

#[test]
fn a_parent_without_a_namespace_is_in_the_servers_own() {
    let mut given = changed("True", "True", |entry| {
        entry["parentRef"]["namespace"] = Value::Null;
    });
    assert_eq!(told(&given), WAITS);
    given.gateway.as_mut().unwrap().namespace = "team".to_owned();
    given
        .gateways
        .insert(("team".to_owned(), "public".to_owned()));
    assert_eq!(
        told(&given),
        "True Provisioned: Gateway team/public accepts HTTPRoute llama-discovery-0"
    );
}

#[test]
fn an_entry_without_a_verdict_on_the_route_is_not_the_gateways() {
    let mut given = changed("True", "True", |_| ());
    let mut route = given.observed.routes[0].as_ref().clone();
    let parents = &mut route.status.as_mut().unwrap().parents;
    let mut foreign = parents[0].clone();
    foreign
        .conditions
        .retain(|condition| condition.type_ != "Accepted");
    parents.insert(0, foreign);
    given.observed.routes = vec![Arc::new(route)];
    assert_eq!(told(&given), ACCEPTED);
}

#[test]
fn a_refusal_of_an_older_generation_is_none_of_this_one() {
    let mut given = changed("False", "True", |_| ());
    Arc::make_mut(&mut given.observed.routes[0])
        .metadata
        .generation = Some(2);
    assert_eq!(
        verdict(&given.facts(), given.now).verdict.state,
        State::Unknown
    );
}

#[test]
fn a_refusal_without_a_generation_counts() {
    let given = changed("False", "True", |entry| {
        let conditions = &mut entry["conditions"];
        conditions[0]["observedGeneration"] = Value::Null;
    });
    assert_eq!(
        verdict(&given.facts(), given.now).verdict.reason,
        "RouteNotAccepted"
    );
}

#[test]
fn of_several_controllers_the_one_that_accepts_counts() {
    let mut given = changed("False", "True", |_| ());
    let mut route = given.observed.routes[0].as_ref().clone();
    let accepted = healthy().observed.routes[0].status.clone().unwrap();
    route
        .status
        .as_mut()
        .unwrap()
        .parents
        .extend(accepted.parents);
    for _ in 0..2 {
        route.status.as_mut().unwrap().parents.reverse();
        given.observed.routes = vec![Arc::new(route.clone())];
        assert_eq!(told(&given), ACCEPTED);
    }
}

#[test]
fn a_server_of_which_every_target_weighs_nothing_is_not_ready() {
    let mut given = healthy();
    given.server = server(&[("east", 0), ("west", 0)]);
    given.apply();
    assert_eq!(
        told(&given),
        "False NoTraffic: every target has weight 0, so the route leads nowhere: give one of spec.clusterTargets a weight above 0"
    );
    let status = given.plan().status;
    assert_eq!(condition(&status, "Ready"), "False NoTraffic");
    assert_eq!(condition(&status, "Available"), "True Serving");
}

#[test]
fn what_its_gateway_refuses_is_told_before_that_nobody_has_a_weight() {
    let mut given = changed("False", "True", |_| ());
    given.server = server(&[("east", 0), ("west", 0)]);
    assert!(told(&given).starts_with("False RouteNotAccepted"));
}

/// The Gateway has accepted the first generation of the route, and the hub wrote the second that many seconds ago.
fn rewritten(seconds: i64) -> Given {
    let mut given = healthy();
    let route = Arc::make_mut(&mut given.observed.routes[0]);
    route.metadata.generation = Some(2);
    let of_status = ManagedFieldsEntry {
        subresource: Some("status".to_owned()),
        ..entry("controller", "Update", 0)
    };
    let ours = entry("inferfleet-hub", "Apply", seconds);
    route.metadata.managed_fields = Some(vec![ours, of_status]);
    given
}

/// Somebody's write, that many seconds ago.
fn entry(manager: &str, operation: &str, seconds: i64) -> ManagedFieldsEntry {
    ManagedFieldsEntry {
        manager: Some(manager.to_owned()),
        operation: Some(operation.to_owned()),
        time: Some(Time(now() - SignedDuration::from_secs(seconds))),
        ..ManagedFieldsEntry::default()
    }
}

#[test]
fn a_verdict_on_an_older_generation_stands_for_a_minute_and_the_plan_is_due_then() {
    let given = rewritten(59);
    assert_eq!(told(&given), ACCEPTED);
    assert_eq!(given.plan().due, Some(now() + SignedDuration::from_secs(1)));
}

#[test]
fn a_gateway_that_says_nothing_of_a_rewritten_route_is_doubted_after_a_minute() {
    let (given, before) = (rewritten(60), rewritten(59).plan());
    assert_eq!(
        told(&given),
        "Unknown RoutePending: Gateway infra/public accepts HTTPRoute llama-discovery-0 as of generation 1, and its controller example.com/gateway has said nothing of generation 2 for 60 s: does it run, and what does its log say?"
    );
    let plan = given.plan();
    assert_eq!(plan.due, None);
    assert_eq!(condition(&plan.status, "Ready"), "Unknown RoutePending");
    // A slow controller takes nobody out of the traffic.
    assert_eq!(condition(&plan.status, "Available"), "True Serving");
    assert_eq!((plan.slices, plan.routes), (before.slices, before.routes));
}

#[test]
fn a_minute_is_counted_from_the_last_write_whoever_made_it() {
    let mut given = rewritten(600);
    let route = Arc::make_mut(&mut given.observed.routes[0]);
    let entries = route.metadata.managed_fields.as_mut().unwrap();
    entries.push(entry("somebody", "Update", 59));
    assert_eq!(told(&given), ACCEPTED);
    assert_eq!(given.plan().due, Some(now() + SignedDuration::from_secs(1)));
}

#[test]
fn a_verdict_on_the_current_generation_stands_for_ever() {
    let mut given = rewritten(600);
    Arc::make_mut(&mut given.observed.routes[0])
        .metadata
        .generation = Some(1);
    assert_eq!(told(&given), ACCEPTED);
    assert_eq!(given.plan().due, None);
}

#[test]
fn a_server_on_its_way_out_waits_for_no_verdict() {
    let mut given = rewritten(59);
    given.server.metadata.deletion_timestamp = Some(Time(now()));
    assert_eq!(given.plan().due, None);
}
