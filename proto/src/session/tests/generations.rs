//! What is sent, in which number, and when the next one goes.

use super::wire::{Wire, body, held, key, said};
use crate::session::{AgentEvent, HubEvent, Refusal};

#[test]
fn a_value_is_received_then_applied() {
    let mut wire = Wire::new([]);
    assert!(wire.hub.want(key("a"), "u1", body("v1")));
    wire.connect();
    assert_eq!(wire.hub.wanted_generation(&key("a")), None);
    let (agent, hub) = wire.round();
    assert!(
        matches!(&agent[..], [AgentEvent::Welcomed { .. }, AgentEvent::Desired { generation: 1, body: b, .. }] if b == "v1")
    );
    assert!(matches!(
        &hub[..],
        [HubEvent::Received { generation: 1, .. }, ..]
    ));
    let applied = hub
        .iter()
        .any(|event| matches!(event, HubEvent::Applied { .. }));
    assert!(!applied, "{hub:?}");
    assert_eq!(wire.hub.wanted_generation(&key("a")), Some(1));

    wire.agent.applied(&key("a"), 1);
    wire.agent.applied(&key("a"), 1);
    let (_, hub) = wire.round();
    assert_eq!(
        hub,
        [HubEvent::Applied {
            key: key("a"),
            generation: 1
        }]
    );
}

#[test]
fn an_equal_value_is_not_sent_again() {
    let mut wire = Wire::new([]);
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.connect();
    wire.round();
    assert!(!wire.hub.want(key("a"), "u1", body("v1")));
    assert_eq!(said(&wire.hub_says()), Vec::<String>::new());
}

#[test]
fn only_the_newest_value_follows_the_one_in_flight() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.round();
    wire.hub.want(key("a"), "u1", body("v1"));
    let first = wire.hub_says();
    assert_eq!(said(&first), ["a of u1 is 1"]);
    wire.hub.want(key("a"), "u1", body("v2"));
    wire.hub.want(key("a"), "u1", body("v3"));
    assert_eq!(
        said(&wire.hub_says()),
        Vec::<String>::new(),
        "one is in flight"
    );
    wire.agent_hears(first);
    let answers = wire.agent_says();
    wire.hub_hears(answers);
    let second = wire.hub_says();
    assert_eq!(said(&second), ["a of u1 is 2"]);
    let events = wire.agent_hears(second);
    assert!(matches!(&events[..], [AgentEvent::Desired { body: b, .. }] if b == "v3"));
}

#[test]
fn a_value_that_comes_back_before_its_change_was_sent_is_not_sent() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.round();
    wire.hub.want(key("a"), "u1", body("v2"));
    wire.hub.want(key("a"), "u1", body("v1"));
    assert_eq!(said(&wire.hub_says()), Vec::<String>::new());
}

#[test]
fn a_refused_value_parks_only_its_key_until_its_value_changes() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.round();
    let refusal = Refusal {
        reason: "NamespaceMissing".to_owned(),
        field: String::new(),
        message: "There is no namespace team.".to_owned(),
    };
    wire.agent.refused(&key("a"), 1, refusal);
    let (_, hub) = wire.round();
    assert!(
        matches!(&hub[..], [HubEvent::Refused { refusal, .. }] if refusal.reason == "NamespaceMissing")
    );
    assert_eq!(said(&wire.hub_says()), Vec::<String>::new());

    wire.hub.want(key("b"), "u2", body("v1"));
    wire.hub.want(key("a"), "u1", body("v2"));
    assert_eq!(said(&wire.hub_says()), ["b of u2 is 1", "a of u1 is 2"]);
}

#[test]
fn a_refused_value_may_still_be_applied() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.round();
    let refusal = Refusal {
        reason: "R".to_owned(),
        field: String::new(),
        message: String::new(),
    };
    wire.agent.refused(&key("a"), 1, refusal);
    wire.round();
    wire.agent.applied(&key("a"), 1);
    let (_, hub) = wire.round();
    assert_eq!(
        hub,
        [HubEvent::Applied {
            key: key("a"),
            generation: 1
        }]
    );
}

#[test]
fn generations_go_on_from_what_the_agent_holds() {
    let mut wire = Wire::new([held("same", "u1", 7, "v1"), held("other", "u2", 7, "v1")]);
    wire.hub.want(key("same"), "u1", body("v1"));
    wire.hub.want(key("other"), "u2", body("v2"));
    wire.connect();
    let messages = wire.hub_says();
    let expected = [
        "welcome",
        "begin",
        "other of u2 is 8",
        "same of u1 is 7",
        "end 2",
    ];
    assert_eq!(said(&messages), expected);
    wire.agent_hears(messages);
    let answers = wire.agent_says();
    let hub = wire.hub_hears(answers);
    assert!(
        hub.contains(&HubEvent::Applied {
            key: key("same"),
            generation: 7
        }),
        "{hub:?}"
    );
}

#[test]
fn an_older_outcome_is_not_said() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.round();
    wire.hub.want(key("a"), "u1", body("v2"));
    wire.round();
    wire.agent.applied(&key("a"), 1);
    assert_eq!(wire.agent_says(), []);
}

#[test]
fn a_busy_key_keeps_no_other_waiting() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.round();
    for name in ["a", "b", "c"] {
        wire.hub.want(key(name), "u1", body("v1"));
    }
    let mut order = Vec::new();
    for turn in 0..6 {
        let message = wire.hub.transmit(wire.id, wire.now).unwrap();
        order.extend(said(std::slice::from_ref(&message)));
        wire.agent_hears(vec![message]);
        let answers = wire.agent_says();
        wire.hub_hears(answers);
        wire.hub.want(key("a"), "u1", body(&format!("turn {turn}")));
    }
    let expected = [
        "a of u1 is 1",
        "b of u1 is 1",
        "c of u1 is 1",
        "a of u1 is 2",
        "a of u1 is 3",
        "a of u1 is 4",
    ];
    assert_eq!(order, expected);
}
