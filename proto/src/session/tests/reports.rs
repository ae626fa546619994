//! What the agent reports, in which order, and when it has reported all.

use std::time::Duration;

use super::wire::{Wire, body, held, key};
use crate::session::{HubEvent, Refusal};
use crate::v1;

fn endpoint(uid: &str, address: &str) -> v1::EndpointReport {
    v1::EndpointReport {
        uid: uid.to_owned(),
        addresses: vec![address.to_owned()],
        port: 80,
        ..v1::EndpointReport::default()
    }
}

fn placement(uid: &str, replicas_ready: u32) -> v1::PlacementReport {
    v1::PlacementReport {
        uid: uid.to_owned(),
        replicas_ready,
        ..v1::PlacementReport::default()
    }
}

fn kinds(events: &[HubEvent]) -> Vec<&'static str> {
    let kind = |event: &HubEvent| match event {
        HubEvent::Received { .. } => "received",
        HubEvent::Applied { .. } => "applied",
        HubEvent::Refused { .. } => "refused",
        HubEvent::Removed { .. } => "removed",
        HubEvent::Placement { .. } => "placement",
        HubEvent::Endpoint { .. } => "endpoint",
        HubEvent::ReportsComplete => "complete",
        HubEvent::Renew { .. } => "renew",
    };
    events.iter().map(kind).collect()
}

#[test]
fn all_is_reported_after_welcome_endpoints_first_and_completeness_last() {
    let mut wire = Wire::new([held("a", "u1", 1, "v1"), held("b", "u2", 1, "v1")]);
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.hub.want(key("b"), "u2", body("v1"));
    for name in ["a", "b"] {
        let uid = if name == "a" { "u1" } else { "u2" };
        wire.agent.report(key(name), placement(uid, 1), wire.now);
        wire.agent
            .endpoint(key(name), endpoint(uid, "192.0.2.1"), wire.now);
    }
    let expected = [
        "applied",
        "applied",
        "endpoint",
        "endpoint",
        "placement",
        "placement",
        "complete",
    ];
    for _ in 0..2 {
        wire.connect();
        let (_, hub) = wire.round();
        assert_eq!(kinds(&hub), expected);
    }
    let report = wire.agent_says();
    assert_eq!(report, [], "once a session");
}

#[test]
fn a_report_names_its_key_and_only_a_changed_one_is_sent() {
    let mut wire = Wire::new([held("a", "u1", 1, "v1")]);
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.connect();
    wire.round();
    wire.agent
        .endpoint(key("a"), endpoint("u1", "192.0.2.1"), wire.now);
    let (_, hub) = wire.round();
    let report = v1::EndpointReport {
        key: Some(key("a").to_wire()),
        age_us: Some(0),
        ..endpoint("u1", "192.0.2.1")
    };
    assert_eq!(
        hub,
        [HubEvent::Endpoint {
            key: key("a"),
            report
        }]
    );
    wire.agent
        .endpoint(key("a"), endpoint("u1", "192.0.2.2"), wire.now);
    wire.agent
        .endpoint(key("a"), endpoint("u1", "192.0.2.1"), wire.now);
    assert_eq!(wire.agent_says(), [], "it is what was sent");
    wire.agent
        .endpoint(key("a"), endpoint("u1", "192.0.2.2"), wire.now);
    wire.agent
        .endpoint(key("a"), endpoint("u1", "192.0.2.3"), wire.now);
    assert_eq!(wire.agent_says().len(), 1, "the newest only");
}

#[test]
fn completeness_waits_for_both_reports_of_what_was_held() {
    let mut wire = Wire::new([held("a", "u1", 1, "v1")]);
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.connect();
    assert_eq!(kinds(&wire.round().1), ["applied"]);
    wire.agent
        .endpoint(key("a"), endpoint("u1", "192.0.2.1"), wire.now);
    assert_eq!(kinds(&wire.round().1), ["endpoint"]);
    wire.agent.report(key("a"), placement("u1", 1), wire.now);
    assert_eq!(kinds(&wire.round().1), ["placement", "complete"]);
}

#[test]
fn completeness_does_not_wait_for_what_is_gone_or_refused() {
    let mut wire = Wire::new([held("a", "u1", 1, "v1"), held("b", "u2", 1, "v1")]);
    wire.hub.want(key("a"), "u1", body("v2"));
    wire.connect();
    wire.round();
    wire.agent.removed(&key("b"), "u2");
    assert_eq!(kinds(&wire.round().1), Vec::<&str>::new());
    let refusal = Refusal {
        reason: "R".to_owned(),
        field: String::new(),
        message: String::new(),
    };
    wire.agent.refused(&key("a"), 2, refusal);
    assert_eq!(kinds(&wire.round().1), ["refused", "complete"]);
}

#[test]
fn completeness_does_not_wait_for_what_was_never_applied() {
    let mut wire = Wire::new([]);
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.connect();
    wire.round();
    wire.connect();
    assert_eq!(kinds(&wire.round().1), ["received", "complete"]);

    // An older value that is held is waited for.
    wire.agent.applied(&key("a"), 1);
    wire.hub.want(key("a"), "u1", body("v2"));
    wire.connect();
    assert_eq!(kinds(&wire.round().1), ["received"]);
    wire.connect();
    assert_eq!(kinds(&wire.round().1), ["received"]);
}

#[test]
fn nothing_is_reported_of_what_is_not_held() {
    let mut wire = Wire::new([held("a", "u1", 1, "v1")]);
    wire.connect();
    wire.round();
    wire.agent.report(key("a"), placement("u2", 1), wire.now);
    wire.agent.report(key("b"), placement("u1", 1), wire.now);
    assert_eq!(wire.agent_says(), []);
    wire.agent.report(key("a"), placement("u1", 1), wire.now);
    wire.agent.removed(&key("a"), "u1");
    wire.agent.report(key("a"), placement("u1", 2), wire.now);
    assert_eq!(kinds(&wire.round().1), ["complete"]);
}

#[test]
fn a_report_says_how_long_ago_it_was_seen_first_and_an_old_one_does_not() {
    let age = |wire: &mut Wire| {
        let (_, hub) = wire.round();
        hub.iter().find_map(|event| {
            let HubEvent::Endpoint { report, .. } = event else {
                return None;
            };
            Some(report.age_us)
        })
    };
    let mut wire = Wire::new([held("a", "u1", 1, "v1")]);
    wire.hub.want(key("a"), "u1", body("v1"));
    let seen = |wire: &mut Wire, address| {
        let now = wire.now;
        wire.agent.endpoint(key("a"), endpoint("u1", address), now);
        wire.now += Duration::from_millis(3);
    };
    seen(&mut wire, "192.0.2.1");
    seen(&mut wire, "192.0.2.1");
    wire.connect();
    assert_eq!(age(&mut wire), Some(Some(6_000)));
    wire.connect();
    assert_eq!(age(&mut wire), Some(None), "said before");
    seen(&mut wire, "192.0.2.2");
    wire.connect();
    assert_eq!(age(&mut wire), Some(Some(3_000)));
}
