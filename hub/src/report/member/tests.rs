//! What becomes of the record of a cluster that leaves.

use axum::http::{Method, StatusCode};
use bytes::Bytes;
use proto::{SessionId, session::Removal, v1};
use serde_json::{Value, json};

use super::*;
use crate::{
    apply::Applier,
    endpoints::DiscoverySlices,
    fake::{FakeApi, Log, MEMBERS},
    metrics::Metrics,
    models::SpecifiedModel,
};

/// A cluster that joined, whose record is being deleted.
struct World {
    api: FakeApi,
    reconciler: Arc<MemberReconciler>,
    member: Arc<Member>,
}

impl World {
    fn new() -> Self {
        Self::of(&json!({}))
    }

    /// Its status says this as well.
    fn of(status: &Value) -> Self {
        let api = FakeApi::default();
        let leaving = json!({
            "finalizers": [labels::LEAVE], "deletionTimestamp": "2026-01-01T00:00:00Z",
        });
        api.put_member("east", &leaving);
        let mut record = api.get("east").unwrap();
        for (field, value) in status.as_object().unwrap() {
            record["status"][field] = value.clone();
        }
        api.put(&format!("{MEMBERS}/east"), record);
        let (caches, clock) = (api.caches(), Clock::start());
        let metrics = Arc::new(Metrics::new(clock));
        let applier = Arc::new(Applier::new(api.client(), clock, metrics));
        let publisher = Arc::new(DiscoverySlices::new(caches.clone(), applier, clock));
        let models = Arc::new(SpecifiedModel);
        let placer = Arc::new(Placer::new(caches.clone(), clock, publisher, models));
        let member = placer.member("east").unwrap();
        let wakeups = Arc::new(Wakeups::default());
        let members = caches.members;
        let reconciler = MemberReconciler::new(api.client(), members, placer, wakeups, clock);
        Self {
            api,
            reconciler: Arc::new(reconciler),
            member,
        }
    }

    /// Its agent was last heard when the clocks began.
    fn long_away(self) -> Self {
        self.member.lock().silent_since = Timestamp::UNIX_EPOCH;
        self
    }

    fn told(&self, name: &str) {
        let key = PlacementKey::new("team", name).unwrap();
        let body = Bytes::from_static(b"{}");
        self.member
            .lock()
            .want(&key, &format!("uid-of-{name}"), body);
    }

    async fn reconcile(&self) -> Next {
        Arc::clone(&self.reconciler)
            .reconcile("east".to_owned())
            .await
    }

    fn is_held(&self) -> bool {
        let record = self.api.get("east").unwrap();
        record["metadata"]["finalizers"] != Value::Array(Vec::new())
    }

    /// The notes of the events of that reason.
    fn notes(&self, reason: &str) -> Vec<String> {
        let events = self.api.events().into_iter();
        let of = events.filter(|(of, _)| of == reason);
        of.map(|(_, note)| note).collect()
    }
}

#[tokio::test]
async fn an_agent_that_has_been_away_is_not_waited_for_and_the_event_lists_what_is_left() {
    let world = World::new().long_away();
    world.told("a");
    world.told("b");
    let going = PlacementKey::new("other", "c").unwrap();
    world
        .member
        .lock()
        .remove(&going, "uid-of-c", Removal::Delete);
    assert_eq!(world.reconcile().await, Next::Rest);
    assert!(!world.is_held());
    let note = "its agent can't be heard. Left there: other/c, team/a, team/b";
    assert_eq!(world.notes("LeftBehind"), [note]);
}

#[tokio::test]
async fn what_is_left_is_told_once_though_the_record_can_not_be_let_go_at_first() {
    let world = World::new().long_away();
    world.told("a");
    let code = StatusCode::INTERNAL_SERVER_ERROR;
    world.api.refuse(Method::PATCH, "memberclusters/east", code);
    for _ in 0..2 {
        assert_eq!(world.reconcile().await, Next::Retry);
        assert!(world.is_held());
        assert_eq!(world.notes("LeftBehind"), [""; 0]);
    }
    world.api.relent();
    assert_eq!(world.reconcile().await, Next::Rest);
    assert!(!world.is_held());
    assert_eq!(world.notes("LeftBehind").len(), 1);
}

#[tokio::test]
async fn a_cluster_in_which_nothing_is_left_leaves_without_an_event() {
    let world = World::new().long_away();
    world.reconcile().await;
    assert!(!world.is_held());
    assert_eq!(world.notes("LeftBehind"), [""; 0]);
}

#[tokio::test]
async fn an_agent_that_was_heard_a_moment_ago_may_come_back() {
    let world = World::new();
    world.told("a");
    let Next::After(wait) = world.reconcile().await else {
        panic!("it is waited for");
    };
    assert!(
        wait <= LEAVE_PATIENCE && wait > LEAVE_PATIENCE / 2,
        "{wait:?}"
    );
    assert!(world.is_held());
    assert_eq!(world.notes("LeftBehind"), [""; 0]);
}

#[tokio::test]
async fn an_agent_that_is_there_is_waited_for_also_while_what_it_holds_drains() {
    let world = World::new();
    let key = PlacementKey::new("team", "a").unwrap();
    let held = v1::Held {
        key: Some(key.to_wire()),
        uid: "uid-of-a".to_owned(),
        generation: 1,
        hash: vec![0; 32].into(),
    };
    let hello = v1::Hello {
        protocol_min: 1,
        protocol_max: 1,
        held: vec![held],
        ..v1::Hello::default()
    };
    let (id, now) = (SessionId(1), Duration::from_secs(1));
    // As after a restart of the hub: of what drains nothing is told.
    world.member.lock().keep(&key);
    world.member.lock().machine.open(id, &hello, now).unwrap();
    world
        .member
        .lock()
        .opened(id, &hello, Timestamp::UNIX_EPOCH);
    world.reconcile().await;
    assert!(world.is_held());
    let record = world.api.get("east").unwrap();
    assert_eq!(record["status"]["placementsLeft"], 1);
}

#[tokio::test]
async fn what_is_left_is_told_by_a_hub_that_has_just_started_too() {
    let part = |name| json!({"namespace": "team", "name": name, "uid": "u", "policy": "Orphan"});
    let world = World::of(&json!({"released": [part("a"), part("b")]})).long_away();
    world.told("b");
    world.told("c");
    let logged = Log::default();
    let guard = logged.follow();
    assert_eq!(world.reconcile().await, Next::Rest);
    drop(guard);
    let note = "its agent can't be heard. Left there: team/a, team/b, team/c";
    assert_eq!(world.notes("LeftBehind"), [note]);
    let lines = logged.lines();
    let named = r#""left":"team/a, team/b, team/c""#;
    assert!(lines.iter().any(|line| line.contains(named)), "{lines:?}");
}

#[tokio::test]
async fn what_its_agent_has_confirmed_is_not_left_though_the_record_still_names_it() {
    let part = json!({"namespace": "team", "name": "a", "uid": "u", "policy": "Delete"});
    let world = World::of(&json!({"released": [part]})).long_away();
    let key = PlacementKey::new("team", "a").unwrap();
    let (id, now) = (SessionId(1), Duration::from_secs(1));
    let hello = v1::Hello {
        protocol_min: 1,
        protocol_max: 1,
        ..v1::Hello::default()
    };
    let removed = v1::AgentMessage {
        session: 1,
        body: Some(v1::agent_message::Body::Removed(v1::Removed {
            key: Some(key.to_wire()),
            uid: "u".to_owned(),
        })),
    };
    {
        let mut state = world.member.lock();
        state.remove(&key, "u", Removal::Delete);
        state.machine.open(id, &hello, now).unwrap();
        while state.machine.transmit(id, now).is_some() {}
        state.machine.receive(id, removed, now).unwrap();
    }
    assert_eq!(world.reconcile().await, Next::Rest);
    assert_eq!(world.notes("LeftBehind"), [""; 0]);
}

#[test]
fn a_note_lists_what_it_has_room_for_and_says_how_many_more_there_are() {
    let keys: Vec<_> = (0..100)
        .map(|index| format!("team/server-{index:03}"))
        .collect();
    let note = left_behind(&keys);
    assert!(
        note.len() <= NOTE_MAX && note.len() > NOTE_MAX - 40,
        "{}",
        note.len()
    );
    let named = note.matches("team/").count();
    assert!(
        note.ends_with(&format!(" and {} more", 100 - named)),
        "{note}"
    );
    for count in 1..=named + 2 {
        assert!(left_behind(&keys[..count]).len() <= NOTE_MAX);
    }
    assert_eq!(
        left_behind(&keys[..1]),
        "its agent can't be heard. Left there: team/server-000"
    );
}
