//! What a hub can't plan is to stay as it is.

use super::wire::{Wire, body, held, key, said};
use crate::session::{AgentEvent, Removal};

#[test]
fn what_is_kept_is_named_and_left_alone() {
    let mut wire = Wire::new([held("a", "u1", 4, "v1"), held("b", "u2", 1, "v1")]);
    wire.hub.keep(key("a"));
    wire.connect();
    let messages = wire.hub_says();
    assert_eq!(said(&messages), ["welcome", "begin", "a stays", "end 1"]);
    let events = wire.agent_hears(messages);
    assert_eq!(
        events.last(),
        Some(&AgentEvent::Absent {
            key: key("b"),
            uid: "u2".to_owned()
        })
    );
    assert_eq!(events.len(), 2, "Welcomed and Absent: {events:?}");
}

#[test]
fn a_value_replaces_keeping_and_keeping_replaces_no_value() {
    let mut wire = Wire::new([held("a", "u1", 4, "v1")]);
    wire.hub.keep(key("a"));
    wire.hub.want(key("a"), "u1", body("v2"));
    wire.hub.keep(key("a"));
    wire.connect();
    let messages = wire.hub_says();
    assert_eq!(
        said(&messages),
        ["welcome", "begin", "a of u1 is 5", "end 1"]
    );
}

#[test]
fn a_removal_ends_keeping() {
    let mut wire = Wire::new([held("a", "u1", 4, "v1")]);
    wire.hub.keep(key("a"));
    wire.hub.remove(&key("a"), "u1", Removal::Delete);
    wire.connect();
    assert_eq!(
        said(&wire.hub_says()),
        ["welcome", "begin", "a of u1 goes", "end 1"]
    );
}
