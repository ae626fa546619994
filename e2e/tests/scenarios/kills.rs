//! A hub that is killed again and again while many servers change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crds::v1alpha1::{InferenceServer, ProbePolicy, RuntimeProfile, ServerPlacement};
use e2e::installed::{NAMESPACE, is_true, rolled_out};
use e2e::{Cluster, Installed};
use futures::stream::{self, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::record::{Change, Record};
use super::{HUB, LATER, MEMBERS, SOON, alone, connected, namespace, server, servers};

const NAMES: &str = "kills";
const SERVERS: usize = 50;
const KILLS: u64 = 20;
/// So many servers leave north on the way.
const LEAVERS: usize = 5;
/// Names the random points; without it they are others each time.
const SEED: &str = "INFERFLEET_E2E_SEED";
/// A hub that makes no headway is killed all the same.
const PATIENCE: Duration = Duration::from_secs(10);

/// Numbers that look random, the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    /// One of `0..=last`.
    fn up_to(&mut self, last: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let count = u64::try_from(last).unwrap() + 1;
        usize::try_from(bits % count).unwrap()
    }
}

fn name(number: usize) -> String {
    format!("server-{number:02}")
}

/// Each server as it is to be after so many changes, each of which is a new generation.
fn wanted(number: usize, changes: u64) -> InferenceServer {
    let leaves = number < LEAVERS && changes > KILLS / 2;
    let targets: &[&str] = if leaves { &["east", "west"] } else { &MEMBERS };
    let mut server = server(NAMES, targets);
    server.metadata.name = Some(name(number));
    "nothing".clone_into(&mut server.spec.runtime.profile);
    // Fake Pods answer nobody.
    server.spec.endpoints.probe = ProbePolicy::Off;
    server.spec.replicas = if changes.is_multiple_of(2) { 1 } else { 2 };
    server
}

async fn apply_all(api: &Api<InferenceServer>, changes: u64) {
    let parameters = PatchParams::apply("e2e").force();
    stream::iter((0..SERVERS).map(|number| wanted(number, changes)))
        .for_each_concurrent(8, async |server| {
            let patch = Patch::Apply(&server);
            api.patch(&server.name_any(), &parameters, &patch)
                .await
                .unwrap();
        })
        .await;
}

/// How the servers come along.
struct Progress {
    servers: watch::Receiver<Vec<InferenceServer>>,
    task: AbortHandle,
}

impl Progress {
    fn start(api: Api<InferenceServer>) -> Self {
        let (newest, servers) = watch::channel(Vec::<InferenceServer>::new());
        let follow = async move {
            let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()));
            while let Some(event) = events.next().await {
                if let Event::Apply(server) | Event::InitApply(server) = event.unwrap() {
                    newest.send_modify(|servers| {
                        servers.retain(|other| other.name_any() != server.name_any());
                        servers.push(server);
                    });
                }
            }
        };
        let task = tokio::spawn(follow).abort_handle();
        Self { servers, task }
    }

    /// Returns once so many servers are so.
    async fn until(&self, count: usize, are: impl Fn(&InferenceServer) -> bool) {
        let mut servers = self.servers.clone();
        let enough =
            |servers: &Vec<InferenceServer>| servers.iter().filter(|one| are(one)).count() >= count;
        servers.wait_for(enough).await.unwrap();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Has the hub spoken of the change since it was made?
fn is_spoken_of(server: &InferenceServer, generation: i64) -> bool {
    let status = server.status.as_ref();
    status.is_some_and(|status| status.observed_generation >= generation)
}

fn is_ready(server: &InferenceServer, generation: i64) -> bool {
    let status = server.status.as_ref();
    is_spoken_of(server, generation)
        && status.is_some_and(|status| is_true(&status.conditions, "Ready"))
}

/// Kills the hub that runs now, or the next one if none does.
async fn kill(hub: &Cluster) {
    let kill = || async {
        let killed = hub.kill_pod_process(NAMESPACE, &HUB).await?;
        anyhow::ensure!(killed == 1, "no hub runs");
        Ok(())
    };
    e2e::wait::eventually("a hub to kill", LATER, kill)
        .await
        .unwrap();
}

/// A hub that was killed often waits longer each time before it is started again; a new Pod does not.
async fn replace_pod(hub: &Cluster) {
    let pods: Api<Pod> = Api::namespaced(hub.client().await.unwrap(), NAMESPACE);
    let of_hub = ListParams::default().labels("app.kubernetes.io/name=inferfleet-hub");
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete_collection(&at_once, &of_hub).await.unwrap();
}

/// What each member is to hold, and nothing beside it.
async fn holds(cluster: &Cluster, servers: usize) {
    let client = cluster.client().await.unwrap();
    let placements: Api<ServerPlacement> = Api::namespaced(client.clone(), NAMES);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMES);
    let pods: Api<Pod> = Api::namespaced(client, NAMES);
    let all = ListParams::default();
    let look = || async {
        let found = (
            placements.list(&all).await?.items.len(),
            deployments.list(&all).await?.items.len(),
            pods.list(&all).await?.items.len(),
        );
        anyhow::ensure!(found == (servers, servers, servers), "{found:?}");
        Ok(())
    };
    e2e::wait::eventually(cluster.name(), SOON, look)
        .await
        .unwrap();
}

async fn set_up(fleet: &Installed) {
    let profile: RuntimeProfile = serde_json::from_value(json!({
        "apiVersion": "inferfleet.io/v1alpha1",
        "kind": "RuntimeProfile",
        "metadata": {"name": "nothing"},
        "spec": {
            "images": [{"vendor": "none", "image": "test.invalid/nothing:1"}],
            "ports": [{"name": "http", "port": 8080}],
            "probes": {"readiness": {"path": "/ready"}, "liveness": {"path": "/live"}},
        },
    }))
    .unwrap();
    let profiles: Api<RuntimeProfile> = Api::all(fleet.hub().client().await.unwrap());
    profiles
        .create(&PostParams::default(), &profile)
        .await
        .unwrap();
    namespace(fleet, NAMES).await;
}

/// What is wrong with these changes: each server that left north is taken out there once and for good, and nothing else
/// changes.
fn wrong(changes: &[Change]) -> Vec<String> {
    let mut of_slices: BTreeMap<String, Vec<&Change>> = (0..LEAVERS)
        .map(|one| (format!("{}-endpoints-north-ipv4-0", name(one)), Vec::new()))
        .collect();
    let mut wrong = Vec::new();
    for change in changes {
        match of_slices.get_mut(&change.slice) {
            Some(changes) => changes.push(change),
            None => wrong.push(format!("{change:?} does not leave")),
        }
    }
    // It may drain before it goes, and never takes traffic again.
    let drains = |change: &&Change| {
        let endpoints = change.endpoints.as_ref();
        endpoints.is_some_and(|all| all.iter().all(|(_, how)| *how == "draining"))
    };
    for (slice, changes) in of_slices {
        let leaves = changes
            .split_last()
            .is_some_and(|(last, before)| last.endpoints.is_none() && before.iter().all(drains));
        if !leaves {
            wrong.push(format!("{slice} does not leave once: {changes:?}"));
        }
    }
    wrong
}

#[test]
fn to_leave_is_to_drain_and_go_and_nothing_else() {
    let change = |number: usize, cluster: &str, how: Option<&'static str>| Change {
        slice: format!("{}-endpoints-{cluster}-ipv4-0", name(number)),
        cluster: cluster.to_owned(),
        endpoints: how.map(|how| vec![("203.0.113.1".parse().unwrap(), how)]),
    };
    let left = (0..LEAVERS).map(|one| change(one, "north", None));
    let left: Vec<_> = left.collect();
    let with = |first: Option<Change>, last: Option<Change>| {
        let all = first.into_iter().chain(left.clone()).chain(last);
        wrong(&all.collect::<Vec<_>>()).len()
    };
    assert_eq!(with(None, None), 0);
    assert_eq!(with(Some(change(0, "north", Some("draining"))), None), 0);
    // It was out of the traffic before it was told to leave.
    assert_eq!(with(Some(change(0, "north", Some("down"))), None), 1);
    // It came back.
    assert_eq!(with(None, Some(change(0, "north", Some("ready")))), 1);
    assert_eq!(with(Some(change(0, "north", None)), None), 1);
    // Another cluster's, and another server's.
    assert_eq!(with(None, Some(change(0, "west", Some("down")))), 1);
    assert_eq!(with(None, Some(change(LEAVERS, "north", None))), 1);
    assert_eq!(wrong(&left[1..]).len(), 1, "one is still there");
}

#[tokio::test]
async fn a_hub_killed_twenty_times_during_a_change_takes_nothing_wrongly_away() {
    let given = std::env::var(SEED).ok().map(|seed| seed.parse().unwrap());
    let mut random = Random(given.unwrap_or_else(|| u64::from(std::process::id())));
    println!("{SEED}={}", random.0);
    let fleet = alone().await;
    let hub = fleet.hub();
    set_up(&fleet).await;
    let api = servers(&fleet, NAMES).await;
    let progress = Progress::start(api.clone());
    apply_all(&api, 0).await;
    let ready = progress.until(SERVERS, |server| is_ready(server, 1));
    tokio::time::timeout(LATER, ready).await.unwrap();
    let record = Record::start(hub, NAMES).await;
    let names: BTreeSet<_> = record.before.iter().map(|one| one.slice.clone()).collect();
    assert_eq!(names.len(), SERVERS * MEMBERS.len());

    for changes in 1..=KILLS {
        if changes == KILLS / 2 + 1 {
            // Nobody has been told to leave yet.
            assert_eq!(record.changes(), []);
        }
        let point = random.up_to(SERVERS);
        let generation = i64::try_from(changes).unwrap() + 1;
        let reached = progress.until(point, |server| is_spoken_of(server, generation));
        let killed = async {
            // Patience is no failure: wherever it is then is a point as well.
            let reached = tokio::time::timeout(PATIENCE, reached).await;
            kill(hub).await;
            reached.is_ok()
        };
        let ((), reached) = tokio::join!(apply_all(&api, changes), killed);
        println!("kill {changes}: at {point} of {SERVERS} ({reached})");
        if changes.is_multiple_of(4) {
            replace_pod(hub).await;
        }
    }
    let generation = i64::try_from(KILLS).unwrap() + 1;
    let ready = progress.until(SERVERS, |server| is_ready(server, generation));
    tokio::time::timeout(LATER, ready).await.unwrap();

    assert_eq!(wrong(&record.changes()), [""; 0]);
    for (member, cluster) in fleet.members() {
        let leavers = if member == "north" { LEAVERS } else { 0 };
        holds(cluster, SERVERS - leavers).await;
    }
    // For whoever comes next.
    api.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .unwrap();
    replace_pod(hub).await;
    let deployments = Api::namespaced(hub.client().await.unwrap(), NAMESPACE);
    rolled_out(deployments, "inferfleet-hub").await.unwrap();
    for name in MEMBERS {
        connected(&fleet, name, true).await;
    }
}
