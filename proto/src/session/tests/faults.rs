//! A peer that breaks the rules ends its session and changes nothing.

use bytes::Bytes;

use super::wire::{Wire, body, held, hello, info, key, said};
use crate::identifiers::{Hash, Malformed, SessionId};
use crate::session::{
    AgentEvent, AgentMachine, HASH_MISMATCH, HubEvent, HubMachine, Limits, Rejection, Violation,
};
use crate::v1::hub_message::Body;
use crate::v1::{AgentMessage, HubMessage, agent_message};
use crate::{session, v1};

fn desired(uid: &str, generation: u64, text: &str) -> v1::Desired {
    v1::Desired {
        key: Some(key("a").to_wire()),
        uid: uid.to_owned(),
        generation,
        hash: Hash::of(text.as_bytes()).to_wire(),
        body: body(text),
    }
}

/// A session after an empty snapshot.
fn open() -> Wire {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.round();
    wire
}

#[test]
fn a_fenced_session_changes_nothing() {
    let mut wire = Wire::new([]);
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.connect();
    let messages = wire.hub_says();
    wire.agent_hears(messages);
    wire.agent.applied(&key("a"), 1);
    let old = (wire.id, wire.agent_says());
    wire.connect();
    let before = wire.hub.clone();
    for message in old.1 {
        assert_eq!(
            wire.hub.receive(old.0, message, wire.now),
            Err(Violation::Fenced(old.0))
        );
    }
    assert_eq!(wire.hub.transmit(old.0, wire.now), None);
    wire.hub.certificate(old.0, "pem".to_owned());
    wire.hub.close(old.0);
    assert_eq!(wire.hub, before);
    assert!(wire.hub.is_current(wire.id) && !wire.hub.is_current(old.0));
    assert!(
        wire.hub.expired(old.0, wire.now),
        "its stream is to be ended"
    );
    wire.hub.close(wire.id);
    assert!(!wire.hub.is_current(wire.id));
}

#[test]
fn opening_a_session_says_which_one_it_fenced() {
    let mut wire = Wire::new([]);
    wire.connect();
    let hello = hello(wire.agent.connect(&info(), wire.now));
    assert_eq!(
        wire.hub.open(SessionId(9), &hello, wire.now),
        Ok(Some(SessionId(1)))
    );
}

#[test]
fn a_message_of_another_session_is_a_violation() {
    let mut wire = open();
    let beat = HubMessage {
        session: 9,
        body: Some(Body::Heartbeat(v1::Heartbeat {})),
    };
    let foreign = Violation::Foreign {
        session: SessionId(1),
        got: 9,
    };
    assert_eq!(wire.agent.receive(beat, wire.now), Err(foreign.clone()));
    let beat = AgentMessage {
        session: 9,
        body: Some(agent_message::Body::Heartbeat(v1::Heartbeat {})),
    };
    assert_eq!(wire.hub.receive(SessionId(1), beat, wire.now), Err(foreign));
}

#[test]
fn a_body_that_is_not_what_its_hash_says_is_refused_and_removes_nothing() {
    let mut wire = Wire::new([held("a", "u1", 1, "v1")]);
    wire.hub.want(key("a"), "u1", body("v2"));
    wire.connect();
    let mut messages = wire.hub_says();
    for message in &mut messages {
        if let Some(Body::Desired(desired)) = &mut message.body {
            desired.body = body("tampered");
        }
    }
    let events = wire.agent_hears(messages);
    assert!(
        matches!(&events[..], [AgentEvent::Welcomed { .. }]),
        "{events:?}"
    );
    let answers = wire.agent_says();
    let hub = wire.hub_hears(answers);
    assert!(
        matches!(&hub[..], [HubEvent::Refused { refusal, .. }] if refusal.reason == HASH_MISMATCH),
        "{hub:?}"
    );
}

#[test]
fn an_older_value_is_ignored_and_the_held_one_acknowledged() {
    let mut wire = open();
    wire.forge(Body::Desired(desired("u1", 5, "v5"))).unwrap();
    wire.agent.applied(&key("a"), 5);
    wire.agent_says();
    assert_eq!(
        wire.forge(Body::Desired(desired("u1", 4, "v4"))),
        Ok(Vec::new())
    );
    let answers = wire.agent_says();
    assert!(
        matches!(&answers[..], [AgentMessage { body: Some(agent_message::Body::Applied(applied)), .. }] if applied.generation == 5),
        "{answers:?}"
    );
}

#[test]
fn two_values_of_one_generation_are_a_violation() {
    let mut wire = open();
    wire.forge(Body::Desired(desired("u1", 5, "v5"))).unwrap();
    let conflict = Violation::Conflict {
        key: key("a"),
        generation: 5,
    };
    assert_eq!(
        wire.forge(Body::Desired(desired("u1", 5, "other"))),
        Err(conflict)
    );
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_a_violation() {
    let mut wire = open();
    wire.hub.want(key("a"), "u1", body("v1"));
    wire.hub_says();
    let applied = v1::Applied {
        key: Some(key("a").to_wire()),
        generation: 2,
    };
    let message = AgentMessage {
        session: 1,
        body: Some(agent_message::Body::Applied(applied)),
    };
    let unsent = Violation::Unsent {
        key: key("a"),
        generation: 2,
        sent: 1,
    };
    assert_eq!(wire.hub.receive(wire.id, message, wire.now), Err(unsent));
}

#[test]
fn a_malformed_key_is_a_violation() {
    let mut wire = open();
    let no_key = v1::Tombstone {
        key: None,
        uid: "u1".to_owned(),
        orphan: false,
    };
    assert_eq!(
        wire.forge(Body::Tombstone(no_key)),
        Err(Malformed::NoKey.into())
    );
    let no_uid = v1::Tombstone {
        key: Some(key("a").to_wire()),
        uid: String::new(),
        orphan: false,
    };
    assert_eq!(
        wire.forge(Body::Tombstone(no_uid)),
        Err(Malformed::NoUid(key("a")).into())
    );
}

#[test]
fn nothing_but_welcome_and_reject_is_heard_before_welcome() {
    let mut agent = AgentMachine::new([]);
    let beat = HubMessage {
        session: 1,
        body: Some(Body::Heartbeat(v1::Heartbeat {})),
    };
    let now = std::time::Duration::ZERO;
    assert_eq!(agent.receive(beat.clone(), now), Err(Violation::NoSession));
    agent.connect(&info(), now);
    assert!(matches!(
        agent.receive(beat, now),
        Err(Violation::Unexpected(_))
    ));
    assert_eq!(agent.transmit(now + Limits::default().heartbeat), None);
    let reject = v1::Reject {
        reason: v1::RejectReason::Busy.into(),
        message: "Soon.".to_owned(),
        retry_after_ms: 1500,
    };
    let events = agent
        .receive(
            HubMessage {
                session: 0,
                body: Some(Body::Reject(reject)),
            },
            now,
        )
        .unwrap();
    assert_eq!(
        events,
        [AgentEvent::Rejected {
            reason: v1::RejectReason::Busy,
            message: "Soon.".to_owned(),
            retry_after: Some(std::time::Duration::from_millis(1500)),
        }]
    );
}

#[test]
fn a_welcome_that_makes_no_sense_is_a_violation() {
    let good = v1::Welcome {
        protocol: 1,
        heartbeat_ms: 10,
        silence_ms: 40,
        hub_version: String::new(),
    };
    let cases = [
        (
            1,
            v1::Welcome {
                protocol: 2,
                ..good.clone()
            },
        ),
        (
            1,
            v1::Welcome {
                heartbeat_ms: 0,
                ..good.clone()
            },
        ),
        (
            1,
            v1::Welcome {
                silence_ms: 10,
                ..good.clone()
            },
        ),
        (0, good.clone()),
    ];
    for (session, welcome) in cases {
        let mut wire = Wire::new([]);
        wire.agent.connect(&info(), wire.now);
        let message = HubMessage {
            session,
            body: Some(Body::Welcome(welcome)),
        };
        assert!(wire.agent.receive(message, wire.now).is_err());
    }
    let mut wire = open();
    assert!(matches!(
        wire.forge(Body::Welcome(good)),
        Err(Violation::Unexpected(_))
    ));
}

#[test]
fn a_hello_without_a_common_version_or_well_formed_placements_opens_nothing() {
    let mut hub = HubMachine::new(Limits::default());
    let mut agent = AgentMachine::new([held("a", "u1", 1, "v1")]);
    let good = hello(agent.connect(&info(), std::time::Duration::ZERO));
    let newer = v1::Hello {
        protocol_min: 2,
        protocol_max: 3,
        ..good.clone()
    };
    let rejection = hub
        .open(SessionId(1), &newer, std::time::Duration::ZERO)
        .unwrap_err();
    assert_eq!(
        rejection,
        Rejection::Version {
            ours: session::PROTOCOL,
            theirs: (2, 3)
        }
    );
    let message = rejection.message();
    assert_eq!(said(std::slice::from_ref(&message)), ["reject"]);

    let mut short = good.clone();
    short.held[0].hash = Bytes::from_static(b"short");
    let rejection = hub
        .open(SessionId(1), &short, std::time::Duration::ZERO)
        .unwrap_err();
    assert_eq!(rejection, Rejection::Malformed(Malformed::Hash(5)));
    assert!(!hub.is_current(SessionId(1)));

    let wider = v1::Hello {
        protocol_min: 0,
        protocol_max: 9,
        ..good
    };
    assert_eq!(
        hub.open(SessionId(1), &wider, std::time::Duration::ZERO),
        Ok(None)
    );
}

#[test]
fn a_second_hello_is_a_violation() {
    let mut wire = open();
    let mut again = wire.agent.clone().connect(&info(), wire.now);
    again.session = wire.id.0;
    assert_eq!(
        wire.hub.receive(wire.id, again, wire.now),
        Err(Violation::Unexpected("Hello"))
    );
}
