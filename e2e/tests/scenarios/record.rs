//! Everything that happens to the EndpointSlices of a namespace: the judge of what a fleet went through.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use crds::labels;
use e2e::Cluster;
use futures::StreamExt;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};
use tokio::task::AbortHandle;

use super::LATER;

/// One change of a slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Change {
    pub(crate) slice: String,
    pub(crate) cluster: String,
    /// Its endpoints, and how they stand; none once it is deleted.
    pub(crate) endpoints: Option<Vec<(IpAddr, &'static str)>>,
}

impl Change {
    fn of(slice: &EndpointSlice) -> Self {
        Self {
            slice: slice.name_any(),
            cluster: slice.labels()[labels::CLUSTER].clone(),
            endpoints: Some(slice.endpoints.iter().map(stands).collect()),
        }
    }

    /// Is it there, and is everything in it ready?
    pub(crate) fn all_ready(&self) -> bool {
        self.endpoints
            .as_ref()
            .is_some_and(|endpoints| endpoints.iter().all(|(_, how)| *how == "ready"))
    }
}

/// An endpoint's address, and how it stands: `ready`, `serving`, `draining` or `down`.
fn stands(endpoint: &Endpoint) -> (IpAddr, &'static str) {
    let conditions = endpoint.conditions.as_ref().unwrap();
    let how = match (conditions.ready, conditions.serving, conditions.terminating) {
        (Some(true), _, _) => "ready",
        (_, _, Some(true)) => "draining",
        (_, Some(true), _) => "serving",
        _ => "down",
    };
    (endpoint.addresses[0].parse().unwrap(), how)
}

/// The slices as they were when it began, and every change from then on.
pub(crate) struct Record {
    pub(crate) before: Vec<Change>,
    changes: Arc<Mutex<Vec<Change>>>,
    task: AbortHandle,
}

impl Record {
    pub(crate) async fn start(hub: &Cluster, namespace: &str) -> Self {
        let api: Api<EndpointSlice> = Api::namespaced(hub.client().await.unwrap(), namespace);
        let changes = Arc::new(Mutex::new(Vec::new()));
        let (listed, before) = tokio::sync::oneshot::channel();
        let kept = Arc::clone(&changes);
        let watch = async move {
            let config = watcher::Config::default().labels(labels::CLUSTER);
            let mut stream = std::pin::pin!(watcher::watcher(api, config));
            let (mut listed, mut before) = (Some(listed), Vec::new());
            while let Some(event) = stream.next().await {
                let change = match event.unwrap() {
                    // What changed meanwhile would go unseen.
                    Event::Init if listed.is_none() => panic!("the watch started over"),
                    Event::Init => continue,
                    Event::InitApply(slice) => {
                        before.push(Change::of(&slice));
                        continue;
                    }
                    Event::InitDone => {
                        // Nobody waits any more: the test has ended.
                        let _ended = listed
                            .take()
                            .map(|listed| listed.send(std::mem::take(&mut before)));
                        continue;
                    }
                    Event::Apply(slice) => Change::of(&slice),
                    Event::Delete(slice) => Change {
                        endpoints: None,
                        ..Change::of(&slice)
                    },
                };
                kept.lock().unwrap().push(change);
            }
        };
        let task = tokio::spawn(watch).abort_handle();
        Self {
            before: before.await.unwrap(),
            changes,
            task,
        }
    }

    /// All changes until now.
    pub(crate) fn changes(&self) -> Vec<Change> {
        assert!(!self.task.is_finished(), "the watch itself has ended");
        self.changes.lock().unwrap().clone()
    }

    /// All changes until now, once they are enough.
    pub(crate) async fn until(&self, enough: impl Fn(&[Change]) -> bool) -> Vec<Change> {
        let look = || async {
            let changes = self.changes();
            anyhow::ensure!(enough(&changes), "only {changes:?}");
            Ok(changes)
        };
        e2e::wait::eventually("changes of slices", LATER, look)
            .await
            .unwrap()
    }

    /// How many endpoints of a cluster were ready before, and after each change.
    pub(crate) fn ready_over_time(&self, cluster: &str) -> Vec<usize> {
        let mut slices = BTreeMap::new();
        let mut counts = Vec::new();
        let all = self.before.iter().cloned().chain(self.changes());
        for change in all.filter(|change| change.cluster == cluster) {
            let endpoints = change.endpoints.iter().flatten();
            let ready = endpoints.filter(|(_, how)| *how == "ready").count();
            slices.insert(change.slice, ready);
            counts.push(slices.values().sum());
        }
        counts
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.task.abort();
    }
}
