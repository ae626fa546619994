//! Bytes of anybody's making end in an error or in a machine that goes on, never in a panic.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;

use super::wire::{Wire, body, held, key};
use crate::identifiers::{Hash, PlacementKey};
use crate::session::Removal;
use crate::transport::identity::{CertificateRequest, PeerIdentity, validity};
use crate::v1::{AgentMessage, HubMessage};

/// What each side says in a session with a bit of everything.
fn transcript() -> (Vec<AgentMessage>, Vec<HubMessage>) {
    let mut wire = Wire::new([held("a", "u1", 1, "v1"), held("b", "u2", 1, "v1")]);
    wire.hub.want(key("a"), "u1", body("v2"));
    wire.hub.want(key("c"), "u3", body("v1"));
    wire.hub.remove(&key("b"), "u2", Removal::Delete);
    wire.agent.renew(Bytes::from_static(b"request"));
    wire.connect();
    wire.hub.certificate(wire.id, "pem".to_owned());
    let from_hub = wire.hub_says();
    wire.agent_hears(from_hub.clone());
    wire.agent.applied(&key("a"), 2);
    wire.agent.removed(&key("b"), "u2");
    (wire.agent_says(), from_hub)
}

fn damage(mut encoded: Vec<u8>, at: prop::sample::Index, byte: u8, cut: bool) -> Vec<u8> {
    let at = at.index(encoded.len());
    encoded[at] = byte;
    if cut {
        encoded.truncate(at);
    }
    encoded
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic_a_decoder(bytes in prop::collection::vec(any::<u8>(), 0..512), text in ".*") {
        let _ = AgentMessage::decode(&bytes[..]).is_ok();
        let _ = HubMessage::decode(&bytes[..]).is_ok();
        prop_assert!(CertificateRequest::from_der(&bytes).is_err());
        prop_assert!(PeerIdentity::of(&bytes.as_slice().into()).is_err());
        prop_assert!(validity(&text).is_err());
        let hash = Hash::from_hex(&text);
        prop_assert!(hash.is_none_or(|hash| hash.to_string().eq_ignore_ascii_case(&text)));
        let shown = format!("{text}/{text}");
        let key = PlacementKey::new(text.as_str(), text.as_str());
        prop_assert!(key.is_err() || key.is_ok_and(|key| key.to_string() == shown));
    }

    #[test]
    fn a_damaged_message_never_panics_a_machine(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let (from_agent, from_hub) = transcript();
        let mut wire = Wire::new([held("a", "u1", 1, "v1")]);
        wire.connect();
        let message = damage(which.get(&from_agent).encode_to_vec(), at, byte, cut);
        if let Ok(message) = AgentMessage::decode(&message[..]) {
            let _ = wire.hub.receive(wire.id, message, Duration::ZERO).is_ok();
        }
        let message = damage(which.get(&from_hub).encode_to_vec(), at, byte, cut);
        if let Ok(message) = HubMessage::decode(&message[..]) {
            let _ = wire.agent.receive(message, Duration::ZERO).is_ok();
        }
        // Whatever it took, it still has something to say, and an end of it.
        wire.hub_says();
        wire.agent_says();
    }
}
