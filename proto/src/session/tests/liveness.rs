//! Heartbeats, silence, and what goes before all else.

use std::time::Duration;

use bytes::Bytes;

use super::wire::{Wire, body, key, said};
use crate::session::{AgentEvent, HubEvent, Limits};
use crate::v1::agent_message::Body;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn both_sides_beat_at_each_interval_whatever_else_they_say() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.round();
    assert_eq!(wire.hub.deadline(wire.id), Some(10 * SECOND));
    assert_eq!(wire.agent.deadline(), Some(10 * SECOND));
    wire.now = 9 * SECOND;
    wire.hub.want(key("a"), "u1", body("v1"));
    let (agent, hub) = wire.round();
    assert_eq!((agent.len(), hub.len()), (1, 1));
    wire.now = 10 * SECOND;
    wire.hub.want(key("a"), "u1", body("v2"));
    let messages = wire.hub_says();
    assert_eq!(said(&messages), ["heartbeat", "a of u1 is 2"]);
    wire.agent_hears(messages);
    let answers = wire.agent_says();
    assert!(
        matches!(answers[0].body, Some(Body::Heartbeat(_))),
        "{answers:?}"
    );
    assert!(
        matches!(answers[1].body, Some(Body::Received(_))),
        "{answers:?}"
    );
    assert_eq!(wire.agent.deadline(), Some(20 * SECOND));
    assert_eq!(wire.agent.silence_ends(), Some(50 * SECOND));
}

#[test]
fn silence_ends_a_session_and_any_message_breaks_it() {
    let mut wire = Wire::new([]);
    wire.connect();
    wire.round();
    assert!(!wire.hub.expired(wire.id, 39 * SECOND) && wire.hub.expired(wire.id, 40 * SECOND));
    assert!(!wire.agent.expired(39 * SECOND) && wire.agent.expired(40 * SECOND));
    wire.now = 39 * SECOND;
    wire.round();
    assert!(!wire.hub.expired(wire.id, 78 * SECOND) && wire.hub.expired(wire.id, 79 * SECOND));
    assert!(!wire.agent.expired(78 * SECOND) && wire.agent.expired(79 * SECOND));
    wire.agent.disconnect();
    assert!(wire.agent.expired(wire.now));
    assert_eq!(wire.agent.deadline(), None);
}

#[test]
fn an_agent_without_welcome_waits_for_silence_only() {
    let mut wire = Wire::new([]);
    wire.connect();
    assert_eq!(wire.agent.deadline(), Some(40 * SECOND));
}

#[test]
fn the_agent_takes_its_limits_from_the_hub() {
    let mut wire = Wire::new([]);
    let limits = Limits {
        heartbeat: SECOND,
        silence: 3 * SECOND,
    };
    wire.hub = crate::session::HubMachine::new(limits);
    wire.connect();
    let (agent, _) = wire.round();
    assert!(matches!(&agent[..], [AgentEvent::Welcomed { .. }]));
    assert_eq!(wire.agent.deadline(), Some(SECOND));
    assert_eq!(wire.agent.silence_ends(), Some(3 * SECOND));
}

#[test]
fn a_renewal_is_asked_for_in_each_session_until_a_certificate_comes() {
    let mut wire = Wire::new([]);
    let request = Bytes::from_static(b"request");
    wire.agent.renew(request.clone());
    for _ in 0..2 {
        wire.connect();
        let (_, hub) = wire.round();
        assert!(
            hub.contains(&HubEvent::Renew {
                certificate_request: request.clone()
            }),
            "{hub:?}"
        );
        assert_eq!(wire.agent_says(), []);
    }
    wire.hub.certificate(wire.id, "pem".to_owned());
    wire.hub.want(key("a"), "u1", body("v1"));
    let messages = wire.hub_says();
    assert_eq!(said(&messages), ["certificate", "a of u1 is 1"]);
    let certificate = AgentEvent::Certificate {
        certificate_pem: "pem".to_owned(),
    };
    assert_eq!(wire.agent_hears(messages)[0], certificate);
    wire.connect();
    assert!(
        !wire
            .round()
            .1
            .iter()
            .any(|event| matches!(event, HubEvent::Renew { .. }))
    );
}
