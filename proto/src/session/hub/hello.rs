//! Reads a Hello and answers it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Rejection;
use crate::identifiers::{Hash, Malformed, PlacementKey};
use crate::session::{Limits, PROTOCOL};
use crate::v1;
use crate::v1::hub_message::Body;

pub(super) fn welcome(limits: Limits, protocol: u32) -> Body {
    let milliseconds = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    Body::Welcome(v1::Welcome {
        protocol,
        heartbeat_ms: milliseconds(limits.heartbeat),
        silence_ms: milliseconds(limits.silence),
        hub_version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// The highest version that both sides speak.
pub(super) fn common_version(hello: &v1::Hello) -> Result<u32, Rejection> {
    let (lowest, highest) = PROTOCOL;
    let common = highest.min(hello.protocol_max);
    if common < lowest.max(hello.protocol_min) {
        return Err(Rejection::Version {
            ours: PROTOCOL,
            theirs: (hello.protocol_min, hello.protocol_max),
        });
    }
    Ok(common)
}

pub(super) fn read_held(
    hello: &v1::Hello,
) -> Result<BTreeMap<PlacementKey, (&str, u64, Hash)>, Malformed> {
    let mut held = BTreeMap::new();
    for v1::Held {
        key,
        uid,
        generation,
        hash,
    } in &hello.held
    {
        let key = PlacementKey::from_wire(key.as_ref())?;
        if uid.is_empty() {
            return Err(Malformed::NoUid(key));
        }
        held.insert(key, (uid.as_str(), *generation, Hash::from_wire(hash)?));
    }
    Ok(held)
}
