//! Tombstones, snapshots, and what is removed by them.

use super::wire::{Wire, body, held, key, said};
use crate::session::{AgentEvent, HubEvent, Removal, Violation};
use crate::v1;
use crate::v1::AgentMessage;
use crate::v1::agent_message::Body as Said;
use crate::v1::hub_message::Body;

fn tombstone(name: &str, uid: &str) -> AgentEvent {
    AgentEvent::Tombstone {
        key: key(name),
        uid: uid.to_owned(),
        removal: Removal::Delete,
    }
}

fn removed(name: &str, uid: &str) -> HubEvent {
    HubEvent::Removed {
        key: key(name),
        uid: uid.to_owned(),
    }
}

#[test]
fn a_tombstone_is_repeated_in_each_session_until_removed_is_heard() {
    let mut wire = Wire::new([held("a", "u1", 1, "v1")]);
    wire.hub.remove(&key("a"), "u1", Removal::Delete);
    wire.connect();
    assert_eq!(wire.round().0.last(), Some(&tombstone("a", "u1")));
    wire.connect();
    let messages = wire.hub_says();
    assert_eq!(
        said(&messages),
        ["welcome", "begin", "a of u1 goes", "end 1"]
    );
    let events = wire.agent_hears(messages);
    assert_eq!(
        events.len(),
        1,
        "the removal goes on, it isn't asked for again: {events:?}"
    );

    assert_eq!(wire.agent.removed(&key("a"), "u1"), None);
    assert!(!wire.hub.is_removed(&key("a"), "u1"));
    assert!(wire.round().1.contains(&removed("a", "u1")));
    assert!(wire.hub.is_removed(&key("a"), "u1"));
    wire.hub.remove(&key("a"), "u1", Removal::Delete);
    assert_eq!(
        said(&wire.hub_says()),
        Vec::<String>::new(),
        "it is gone already"
    );
}

#[test]
fn a_tombstone_of_what_is_not_held_is_answered_at_once() {
    let mut wire = Wire::new([held("a", "u2", 1, "v1")]);
    wire.hub.want(key("a"), "u2", body("v1"));
    wire.hub.remove(&key("a"), "u1", Removal::Delete);
    wire.connect();
    let (agent, hub) = wire.round();
    assert!(!agent.iter().any(|event| matches!(
        event,
        AgentEvent::Tombstone { .. } | AgentEvent::Absent { .. }
    )));
    assert!(hub.contains(&removed("a", "u1")), "{hub:?}");
}

#[test]
fn a_removal_may_leave_what_runs_and_may_change_its_mind() {
    let mut wire = Wire::new([held("a", "u1", 1, "v1")]);
    let goes = |removal| AgentEvent::Tombstone {
        key: key("a"),
        uid: "u1".to_owned(),
        removal,
    };
    wire.hub.remove(&key("a"), "u1", Removal::Orphan);
    wire.connect();
    assert_eq!(wire.round().0.last(), Some(&goes(Removal::Orphan)));
    assert!(wire.hub.is_going(&key("a"), "u1", Removal::Orphan));
    wire.hub.remove(&key("a"), "u1", Removal::Delete);
    assert_eq!(wire.round().0, [goes(Removal::Delete)]);
    assert!(!wire.hub.is_going(&key("a"), "u1", Removal::Orphan));
    wire.hub.remove(&key("a"), "u1", Removal::Delete);
    assert!(wire.round().0.is_empty(), "said once");
    wire.agent.removed(&key("a"), "u1");
    assert_eq!(wire.round().1.first(), Some(&removed("a", "u1")));
}

#[test]
fn a_recreated_key_is_removed_before_it_is_sent_anew() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.round();
    wire.hub.want(key("a"), "u2", body("v2"));
    let messages = wire.hub_says();
    assert_eq!(said(&messages), ["a of u1 goes"]);
    assert_eq!(wire.agent_hears(messages), [tombstone("a", "u1")]);
    assert_eq!(wire.agent.removed(&key("a"), "u1"), None);
    let (_, hub) = wire.round();
    assert_eq!(hub, [removed("a", "u1")]);
    assert_eq!(said(&wire.hub_says()), ["a of u2 is 2"]);
}

#[test]
fn a_tombstone_takes_the_answer_that_its_value_owed() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.round();
    wire.hub.want(key("a"), "u1", body("v1"));
    let mut messages = wire.hub_says();
    wire.hub.want(key("a"), "u2", body("v2"));
    messages.extend(wire.hub_says());
    assert_eq!(said(&messages), ["a of u1 is 1", "a of u1 goes"]);
    wire.agent_hears(messages);
    assert_eq!(wire.agent_says(), []);
    wire.agent.removed(&key("a"), "u1");
    assert_eq!(wire.round().1, [removed("a", "u1")]);
    assert_eq!(said(&wire.hub_says()), ["a of u2 is 2"]);
}

#[test]
fn the_agent_holds_a_new_uid_back_until_the_old_one_is_gone() {
    let mut wire = Wire::new([held("a", "u1", 5, "v1")]);
    wire.hub.want(key("a"), "u2", body("v2"));
    wire.connect();
    let (agent, hub) = wire.round();
    assert_eq!(agent[1..], [tombstone("a", "u1")]);
    assert_eq!(
        hub[0],
        HubEvent::Received {
            key: key("a"),
            generation: 6
        }
    );
    let next = wire.agent.removed(&key("a"), "u1");
    assert!(
        matches!(next, Some(AgentEvent::Desired { generation: 6, .. })),
        "{next:?}"
    );
}

#[test]
fn a_late_removed_does_not_take_what_is_wanted_again() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.round();
    wire.hub.remove(&key("a"), "u1", Removal::Delete);
    wire.round();
    // The session is lost while the agent removes, and the UID is wanted again and given up again.
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.connect();
    wire.round();
    let next = wire.agent.removed(&key("a"), "u1");
    assert!(matches!(next, Some(AgentEvent::Desired { .. })), "{next:?}");
    wire.hub.remove(&key("a"), "u1", Removal::Delete);
    let late = wire.agent_says();
    assert!(!wire.hub_hears(late).contains(&removed("a", "u1")));
    assert_eq!(wire.round().0, [tombstone("a", "u1")]);
    assert!(!wire.hub.is_removed(&key("a"), "u1"));
}

#[test]
fn a_uid_that_is_wanted_again_after_its_tombstone_waits_for_removed() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.round();
    wire.hub.remove(&key("a"), "u1", Removal::Delete);
    let tombstone = wire.hub_says();
    wire.hub.want(key("a"), "u1", body("v1"));
    assert_eq!(said(&wire.hub_says()), Vec::<String>::new());
    wire.agent_hears(tombstone);
    wire.agent.removed(&key("a"), "u1");
    wire.round();
    assert_eq!(said(&wire.hub_says()), ["a of u1 is 2"]);
}

#[test]
fn a_tombstone_that_was_not_sent_yet_is_dropped_when_its_uid_is_wanted_again() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.round();
    wire.hub.remove(&key("a"), "u1", Removal::Delete);
    wire.hub.want(key("a"), "u1", body("v1"));
    assert_eq!(said(&wire.hub_says()), Vec::<String>::new());
}

#[test]
fn removed_is_said_to_a_tombstone_only_and_heard_after_a_tombstone_only() {
    let mut wire = Wire::new([held("a", "u1", 1, "v1")]);
    wire.connect();
    let (agent, _) = wire.round();
    assert!(
        matches!(agent.last(), Some(AgentEvent::Absent { .. })),
        "{agent:?}"
    );
    wire.agent.removed(&key("a"), "u1");
    let answers = wire.agent_says();
    let answered = |answer: &AgentMessage| matches!(answer.body, Some(Said::Removed(_)));
    assert!(!answers.iter().any(answered), "{answers:?}");

    wire.hub.remove(&key("a"), "u1", Removal::Delete);
    let early = AgentMessage {
        session: wire.id.0,
        body: Some(Said::Removed(v1::Removed {
            key: Some(key("a").to_wire()),
            uid: "u1".to_owned(),
        })),
    };
    assert_eq!(wire.hub_hears(vec![early]), []);
    assert!(!wire.hub.is_removed(&key("a"), "u1"));
}

#[test]
fn what_nobody_asked_to_remove_stays_wanted() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.round();
    assert_eq!(wire.agent.removed(&key("a"), "u1"), None);
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
fn a_value_that_waits_for_a_removal_goes_by_its_own_tombstone() {
    let mut wire = Wire::new([held("a", "u1", 5, "v1")]);
    wire.hub.want(key("a"), "u2", body("v2"));
    wire.connect();
    wire.round();
    wire.hub.remove(&key("a"), "u2", Removal::Delete);
    assert_eq!(wire.round().1, [removed("a", "u2")]);
    assert_eq!(wire.agent.removed(&key("a"), "u1"), None);
}

#[test]
fn a_uid_that_came_back_after_its_removal_can_be_removed_again() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.round();
    for _ in 0..2 {
        wire.hub.remove(&key("a"), "u1", Removal::Delete);
        assert_eq!(wire.round().0, [tombstone("a", "u1")]);
        wire.hub.want(key("a"), "u1", body("v1"));
        wire.agent.removed(&key("a"), "u1");
        wire.round();
        assert!(!wire.hub.is_removed(&key("a"), "u1"));
        assert!(matches!(wire.round().0[..], [AgentEvent::Desired { .. }]));
    }
}

#[test]
fn changes_made_while_a_snapshot_is_sent_keep_it_whole() {
    let mut wire = Wire::new([held("new", "u9", 1, "v1")]);
    for name in ["b", "c", "d"] {
        wire.hub.want(key(name), "u1", body("v1"));
    }
    wire.connect();
    let mut messages: Vec<_> = (0..3)
        .filter_map(|_| wire.hub.transmit(wire.id, wire.now))
        .collect();
    assert_eq!(said(&messages), ["welcome", "begin", "b of u1 is 1"]);
    wire.hub.want(key("b"), "u1", body("v2"));
    wire.hub.want(key("c"), "u1", body("v2"));
    wire.hub.remove(&key("d"), "u1", Removal::Delete);
    // Held, and wanted only now: absent from the snapshot it would be removed.
    wire.hub.want(key("new"), "u9", body("v1"));
    messages.extend(wire.hub_says());
    let expected = ["c of u1 is 1", "d of u1 goes", "new of u9 is 1", "end 4"];
    assert_eq!(said(&messages[3..]), expected);
    let events = wire.agent_hears(messages);
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, AgentEvent::Absent { .. })),
        "{events:?}"
    );
    let answers = wire.agent_says();
    wire.hub_hears(answers);
    assert_eq!(said(&wire.hub_says()), ["b of u1 is 2"]);
}

#[test]
fn what_a_complete_snapshot_does_not_name_is_absent() {
    let mut wire = Wire::new([held("a", "u1", 1, "v1"), held("b", "u2", 1, "v1")]);
    wire.hub.want(key("b"), "u2", body("v1"));
    wire.connect();
    let (agent, _) = wire.round();
    let absent = AgentEvent::Absent {
        key: key("a"),
        uid: "u1".to_owned(),
    };
    assert_eq!(agent.last(), Some(&absent));
    assert!(
        !agent
            .iter()
            .any(|event| matches!(event, AgentEvent::Absent { uid, .. } if uid == "u2"))
    );
}

#[test]
fn a_forgotten_key_is_absent_from_the_next_snapshot() {
    let mut wire = Wire::new([]);
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.connect();
    wire.round();
    wire.hub.forget(&key("a"));
    assert_eq!(said(&wire.hub_says()), Vec::<String>::new());
    wire.connect();
    let (agent, _) = wire.round();
    assert!(
        matches!(agent.last(), Some(AgentEvent::Absent { .. })),
        "{agent:?}"
    );
}

#[test]
fn an_incomplete_snapshot_removes_nothing() {
    for (id, count) in [(1, 0), (2, 1), (1, 2)] {
        let mut wire = Wire::new([held("a", "u1", 1, "v1"), held("b", "u2", 1, "v1")]);
        wire.hub.want(key("b"), "u2", body("v1"));
        wire.connect();
        let mut messages = wire.hub_says();
        messages.pop();
        wire.agent_hears(messages);
        let end = wire.forge(Body::SnapshotEnd(v1::SnapshotEnd { id, count }));
        assert!(matches!(end, Err(Violation::Incomplete { .. })), "{end:?}");
    }
}

#[test]
fn what_is_found_after_its_removal_was_said_goes_with_the_next_snapshot() {
    let mut wire = Wire::new([]);
    wire.hub.remove(&key("a"), "u1", Removal::Delete);
    wire.hub.want(key("b"), "u2", body("v1"));
    wire.connect();
    assert!(wire.round().1.contains(&removed("a", "u1")));
    wire.agent.found(&held("a", "u1", 1, "v1"));
    // What is known already says more than what is found.
    wire.agent.found(&held("b", "u9", 1, "v1"));
    wire.connect();
    let absent = AgentEvent::Absent {
        key: key("a"),
        uid: "u1".to_owned(),
    };
    let (events, _) = wire.round();
    assert!(events.contains(&absent), "{events:?}");
    assert!(!events.contains(&tombstone("b", "u9")), "{events:?}");
}
