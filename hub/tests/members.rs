//! What the hub believes of what an agent says.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use bytes::Bytes;
use hub::session::members::{Member, Members};
use hub_plan::facts::{ClusterFacts, Membership, PastSilence};
use k8s_openapi::jiff::Timestamp;
use proto::{PlacementKey, SessionId, session::Removal, v1};

const NOW: Duration = Duration::from_secs(1);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn key(name: &str) -> PlacementKey {
    PlacementKey::new("team", name).unwrap()
}

fn member() -> std::sync::Arc<Member> {
    Members::default().admit("uid-of-east", &"east".parse().unwrap(), at(0))
}

fn hello(held: Vec<v1::Held>) -> v1::Hello {
    v1::Hello {
        protocol_min: 1,
        protocol_max: 1,
        held,
        ..v1::Hello::default()
    }
}

fn open(member: &Member, id: u64) {
    let mut state = member.lock();
    let hello = hello(Vec::new());
    state.machine.open(SessionId(id), &hello, NOW).unwrap();
    state.opened(SessionId(id), &hello, at(1));
}

fn report(name: &str, uid: &str) -> v1::PlacementReport {
    v1::PlacementReport {
        key: Some(key(name).to_wire()),
        uid: uid.to_owned(),
        generation: 1,
        ..Default::default()
    }
}

fn endpoint(name: &str, uid: &str) -> v1::EndpointReport {
    v1::EndpointReport {
        key: Some(key(name).to_wire()),
        uid: uid.to_owned(),
        addresses: vec!["203.0.113.1".to_owned()],
        port: 80,
        ..Default::default()
    }
}

fn facts(member: &Member, name: &str, uid: &str) -> ClusterFacts {
    member.lock().facts(&key(name), uid, Membership::Joined)
}

#[test]
fn a_placement_is_heard_once_both_its_reports_came_whatever_others_wait_for() {
    let member = member();
    member
        .lock()
        .want(&key("a"), "u1", Bytes::from_static(b"{}"));
    member
        .lock()
        .want(&key("slow"), "u2", Bytes::from_static(b"{}"));
    open(&member, 1);
    member
        .lock()
        .placement_reported(key("a"), report("a", "u1"));
    assert!(!facts(&member, "a", "u1").reporting);
    member
        .lock()
        .endpoint_reported(key("a"), endpoint("a", "u1"));
    assert!(facts(&member, "a", "u1").reporting);
    assert!(!facts(&member, "slow", "u2").reporting);
}

#[test]
fn an_agent_is_believed_of_nothing_that_it_was_not_told() {
    let member = member();
    open(&member, 1);
    member
        .lock()
        .placement_reported(key("theirs"), report("theirs", "u9"));
    member
        .lock()
        .endpoint_reported(key("theirs"), endpoint("theirs", "u9"));
    let facts = facts(&member, "theirs", "u9");
    assert!(
        facts.placement.is_none() && facts.endpoint.is_none(),
        "{facts:?}"
    );
}

#[test]
fn a_report_of_another_uid_says_nothing_of_this_one() {
    let member = member();
    member
        .lock()
        .want(&key("a"), "u2", Bytes::from_static(b"{}"));
    open(&member, 1);
    member
        .lock()
        .placement_reported(key("a"), report("a", "u1"));
    assert!(facts(&member, "a", "u2").placement.is_none());
}

#[test]
fn a_part_is_gone_only_when_the_member_says_so_or_has_said_all_without_it() {
    let member = member();
    member.lock().remove(&key("a"), "u1", Removal::Delete);
    assert!(!facts(&member, "a", "u1").gone, "nobody has been asked");
    open(&member, 1);
    member.lock().complete(at(1));
    assert!(
        !facts(&member, "a", "u1").gone,
        "the removal is not confirmed"
    );
    assert!(
        facts(&member, "never", "u7").gone,
        "all was said, and nothing of it"
    );
}

#[test]
fn a_part_that_was_never_told_of_is_gone_though_one_of_an_older_server_is_not() {
    let member = member();
    member.lock().remove(&key("a"), "u1", Removal::Orphan);
    open(&member, 1);
    member.lock().complete(at(1));
    assert!(facts(&member, "a", "u2").gone);
    assert!(!facts(&member, "a", "u1").gone);
}

#[test]
fn a_new_session_forgets_what_was_heard_and_an_old_ones_end_changes_nothing() {
    let member = member();
    member
        .lock()
        .want(&key("a"), "u1", Bytes::from_static(b"{}"));
    open(&member, 1);
    member
        .lock()
        .placement_reported(key("a"), report("a", "u1"));
    member
        .lock()
        .endpoint_reported(key("a"), endpoint("a", "u1"));
    open(&member, 2);
    assert!(!facts(&member, "a", "u1").reporting);
    assert!(!member.lock().closed(SessionId(1), at(2)));
    assert_eq!(member.lock().session, Some(SessionId(2)));
    assert!(member.lock().closed(SessionId(2), at(2)));
}

#[test]
fn what_is_to_be_let_go_is_never_deleted_for_want_of_its_server() {
    let member = member();
    let released = ["u1".to_owned()];
    member.lock().remove(&key("a"), "u1", Removal::Orphan);
    member.lock().withdraw(&key("a"), &released);
    let going = |removal| member.lock().machine.is_going(&key("a"), "u1", removal);
    assert!(going(Removal::Orphan) && !going(Removal::Delete));

    // Also when the agent says that it is there, and when the record is not seen yet.
    let held = v1::Held {
        key: Some(key("a").to_wire()),
        uid: "u1".to_owned(),
        generation: 1,
        hash: vec![0; 32].into(),
    };
    let hello = hello(vec![held]);
    let mut state = member.lock();
    state.machine.open(SessionId(1), &hello, NOW).unwrap();
    state.opened(SessionId(1), &hello, at(1));
    state.placement_reported(key("a"), report("a", "u1"));
    state.withdraw(&key("a"), &released);
    state.withdraw(&key("a"), &[]);
    drop(state);
    assert!(going(Removal::Orphan) && !going(Removal::Delete));
}

#[test]
fn a_confirmation_is_remembered_until_the_record_has_taken_note() {
    let member = member();
    member.lock().remove(&key("a"), "u1", Removal::Orphan);
    open(&member, 1);
    let mut state = member.lock();
    while state.machine.transmit(SessionId(1), NOW).is_some() {}
    let removed = v1::AgentMessage {
        session: 1,
        body: Some(v1::agent_message::Body::Removed(v1::Removed {
            key: Some(key("a").to_wire()),
            uid: "u1".to_owned(),
        })),
    };
    state.machine.receive(SessionId(1), removed, NOW).unwrap();
    state.withdraw(&key("a"), &["u1".to_owned()]);
    assert!(state.machine.is_removed(&key("a"), "u1"));
    state.withdraw(&key("a"), &[]);
    assert!(!state.machine.is_removed(&key("a"), "u1"));
}

#[test]
fn silence_counts_from_the_end_of_what_was_heard() {
    let member = member();
    let silent = |member: &Member| facts(member, "a", "u1").silent_since;
    assert_eq!(silent(&member), Some(at(0)), "never heard");
    open(&member, 1);
    assert_eq!(silent(&member), Some(at(0)), "it has reported nothing yet");
    member.lock().complete(at(2));
    assert_eq!(silent(&member), None);
    assert_eq!(facts(&member, "a", "u1").heard_since, Some(at(2)));
    member.lock().closed(SessionId(1), at(5));
    assert_eq!(silent(&member), Some(at(5)));
    open(&member, 2);
    member.lock().closed(SessionId(2), at(9));
    assert_eq!(
        silent(&member),
        Some(at(5)),
        "a session without reports is no word"
    );
}

#[test]
fn a_silence_that_is_over_is_known_by_both_its_ends() {
    let member = member();
    let over = |member: &Member| member.lock().past_silence();
    open(&member, 1);
    assert_eq!(over(&member), None, "it lasts until the reports are there");
    member.lock().complete(at(2));
    let silence = |began, ended| {
        Some(PastSilence {
            began: at(began),
            ended: at(ended),
        })
    };
    assert_eq!(over(&member), silence(0, 2));
    member.lock().closed(SessionId(1), at(5));
    assert_eq!(over(&member), None, "another one lasts");
    open(&member, 2);
    member.lock().complete(at(9));
    assert_eq!(over(&member), silence(5, 9));
}

#[test]
fn there_is_news_only_when_something_changed() {
    let member = member();
    let want = |body: &'static [u8]| {
        member
            .lock()
            .want(&key("a"), "u1", Bytes::from_static(body))
    };
    assert!(want(b"{}"));
    assert!(!want(b"{}"));
    assert!(want(b"{\"replicas\":2}"));
    assert!(member.lock().remove(&key("a"), "u1", Removal::Delete));
    assert!(!member.lock().remove(&key("a"), "u1", Removal::Delete));
}

#[test]
fn a_record_made_anew_is_another_member() {
    let members = Members::default();
    let first = members.admit("first", &"east".parse().unwrap(), at(0));
    assert!(std::sync::Arc::ptr_eq(
        &first,
        &members.admit("first", &"east".parse().unwrap(), at(0))
    ));
    members.admit("second", &"east".parse().unwrap(), at(0));
    assert_eq!(members.others("east", Some("second")), ["first"]);
    members.dismiss("first");
    assert!(first.lock().dismissed);
    assert!(members.others("east", Some("second")).is_empty());
}
