//! What of profiles is written, and what is deleted.

use axum::http::{Method, StatusCode};
use hub_plan::overrides::Missing;

use super::*;
use crate::{
    clock::Clock,
    fake::{FakeApi, RECORDS, SERVERS, held},
};

fn keeper(api: &FakeApi) -> Arc<Keeper> {
    Arc::new(Keeper {
        client: api.client(),
        namespace: "inferfleet".to_owned(),
        caches: api.caches(),
        wakeups: Arc::default(),
        metrics: Arc::new(Metrics::new(Clock::start())),
    })
}

async fn reconcile(keeper: &Arc<Keeper>) -> Next {
    let echo = ProfileName {
        kind: ProfileKind::RuntimeProfile,
        name: "echo".to_owned(),
    };
    Arc::clone(keeper).reconcile(echo).await
}

/// The profile `echo` says that now, or is gone.
fn say(keeper: &Keeper, spec: Option<&RuntimeProfileSpec>) {
    let spec = spec.cloned();
    keeper
        .caches
        .shelve(|shelves| shelves.runtimes.say("echo", spec));
}

fn records(api: &FakeApi) -> Vec<String> {
    let objects = api.objects();
    let records = objects.keys().filter_map(|path| path.strip_prefix(RECORDS));
    records.map(|name| name[1..].to_owned()).collect()
}

/// A server that is pinned to a revision of `echo`.
fn put_server(api: &FakeApi, revision: Revision) {
    let server = held(crate::contract::server("team", "llama"), revision);
    let path = format!("{SERVERS}/llama");
    api.put(&path, serde_json::to_value(&server).unwrap());
}

#[tokio::test]
async fn what_a_profile_says_is_recorded_once() {
    let api = FakeApi::default();
    let mut spec = api.put_profile("echo");
    let keeper = keeper(&api);
    for _ in 0..2 {
        assert_eq!(reconcile(&keeper).await, Next::Rest);
        assert_eq!(records(&api), ["runtimeprofile-echo-1"]);
    }
    spec.images[0].image = "echo:2".to_owned();
    say(&keeper, Some(&spec));
    assert_eq!(reconcile(&keeper).await, Next::Rest);
    let record = api.get("runtimeprofile-echo-2").unwrap();
    assert_eq!(record["revision"], 2);
    assert_eq!(record["data"]["spec"]["images"][0]["image"], "echo:2");
    assert_eq!(record["metadata"]["labels"][labels::PROFILE], "echo");
}

#[tokio::test]
async fn a_record_goes_when_no_server_has_it_and_its_profile_is_gone() {
    let api = FakeApi::default();
    let mut spec = api.put_profile("echo");
    put_server(&api, 1);
    let keeper = keeper(&api);
    // A number that a server has is never given to something else, though its record is lost.
    assert_eq!(reconcile(&keeper).await, Next::Rest);
    spec.images[0].image = "echo:2".to_owned();
    say(&keeper, Some(&spec));
    assert_eq!(reconcile(&keeper).await, Next::Rest);
    let both = ["runtimeprofile-echo-2", "runtimeprofile-echo-3"];
    assert_eq!(records(&api), both);
    let server = held(crate::contract::server("team", "llama"), 3);
    put_server(&api, 3);
    let stored = api.get("llama").unwrap();
    keeper
        .caches
        .servers
        .note(serde_json::from_value(stored).unwrap());
    say(&keeper, None);
    assert_eq!(reconcile(&keeper).await, Next::Rest);
    assert_eq!(records(&api), ["runtimeprofile-echo-3"]);
    assert!(keeper.caches.profiles_of(&server).runtime.is_ok());
}

#[tokio::test]
async fn a_server_is_told_why_its_profile_is_not_recorded_and_woken_when_it_is() {
    let api = FakeApi::default();
    api.put_profile("echo");
    let new = crate::contract::server("team", "llama");
    let path = format!("{SERVERS}/llama");
    api.put(&path, serde_json::to_value(&new).unwrap());
    let end = "/runtimeprofile-echo-1";
    api.refuse(Method::PATCH, end, StatusCode::FORBIDDEN);
    let keeper = keeper(&api);
    for _ in 0..2 {
        assert_eq!(reconcile(&keeper).await, Next::Retry);
    }
    let Err(Missing::Unrecorded(Some(why))) = keeper.caches.profiles_of(&new).runtime else {
        panic!("it is not recorded")
    };
    assert!(why.contains("the test says no"), "{why}");
    assert_eq!(keeper.wakeups.servers.depth(), 1);
    api.relent();
    assert_eq!(reconcile(&keeper).await, Next::Rest);
    let pins = keeper.caches.pins_for(&new);
    assert_eq!(pins.text().unwrap(), r#"{"runtime":{"echo":1}}"#);
}
