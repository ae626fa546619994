//! What an agent is told first.

use proto::{
    transport::{
        authority::{Authority, Validity},
        identity::MemberUri,
    },
    v1::{Tombstone, hub_message::Body},
};
use serde_json::json;

use super::*;
use crate::{
    fake::{FakeApi, MEMBERS},
    place::tests::ready_placer,
};

/// A hub that has just started, for the certificates of `hub-1`.
fn fleet(api: &FakeApi) -> Arc<Fleet> {
    let (placer, clock) = (ready_placer(api), Clock::start());
    let validity = Validity {
        not_before: SystemTime::UNIX_EPOCH,
        not_after: SystemTime::UNIX_EPOCH + Duration::from_hours(1),
    };
    let authority = Authority::create("hub-1", validity).unwrap();
    let authority = Authority::load(&authority).unwrap();
    let enrollment = Enrollment::new(api.client(), authority, "hub-1".to_owned());
    Arc::new(Fleet {
        caches: api.caches(),
        wakeups: Arc::default(),
        enrollment: Arc::new(enrollment),
        placer: Arc::new(placer),
        metrics: Arc::new(Metrics::new(clock)),
        clock,
        sessions: AtomicU64::new(1),
    })
}

/// What a session says before the agent has said anything.
fn first_words(stream: &Stream) -> Vec<Body> {
    let now = stream.fleet.clock.elapsed();
    let mut state = stream.member.lock();
    let next = || state.machine.transmit(stream.session, now);
    std::iter::from_fn(next)
        .filter_map(|message| message.body)
        .collect()
}

#[tokio::test]
async fn after_a_restart_of_the_hub_the_first_snapshot_says_what_is_to_be_let_go() {
    let api = FakeApi::default();
    api.put_member("east", &json!({"uid": "uid-of-east"}));
    let mut record = api.get("east").unwrap();
    record["status"]["released"] =
        json!([{"namespace": "team", "name": "llama", "uid": "uid-of-llama", "policy": "Orphan"}]);
    api.put(&format!("{MEMBERS}/east"), record);
    let peer = PeerIdentity {
        member: MemberUri::new("hub-1", "uid-of-east").unwrap(),
        serial: String::new(),
        not_after: SystemTime::UNIX_EPOCH,
    };
    let key = proto::PlacementKey::new("team", "llama").unwrap().to_wire();
    let held = proto::v1::Held {
        key: Some(key.clone()),
        uid: "uid-of-llama".to_owned(),
        generation: 1,
        hash: vec![0; 32].into(),
    };
    let hello = Hello {
        protocol_min: 1,
        protocol_max: 1,
        cluster_uid: "u".to_owned(),
        held: vec![held],
        ..Hello::default()
    };
    let stream = fleet(&api).open(&peer, None, &hello).ok().unwrap();
    let said = first_words(&stream);
    let tombstone = Body::Tombstone(Tombstone {
        key: Some(key),
        uid: "uid-of-llama".to_owned(),
        orphan: true,
    });
    let [_, Body::SnapshotBegin(_), first, Body::SnapshotEnd(_)] = said.as_slice() else {
        panic!("{said:?}");
    };
    assert_eq!(*first, tombstone);
}
