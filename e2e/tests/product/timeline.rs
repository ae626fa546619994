//! What happens to the objects of a namespace, in the order in which their API server took it.

use std::collections::BTreeMap;
use std::fmt::Debug;

use e2e::Cluster;
use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use super::{SOON, stands};

/// Each moment, by the version that the API server gave it: kind and name of an object, and how it stands from then on.
type Moments = BTreeMap<u64, (String, String)>;

/// The watches of one namespace of one cluster.
pub(crate) struct Timeline {
    client: kube::Client,
    namespace: &'static str,
    moments: watch::Sender<Moments>,
    tasks: Vec<AbortHandle>,
}

/// `there`, or `going` once it was told to go.
pub(crate) fn is_there<K: Resource>(object: &K) -> String {
    let going = object.meta().deletion_timestamp.is_some();
    if going { "going" } else { "there" }.to_owned()
}

/// How each endpoint stands.
pub(crate) fn endpoints_stand(slice: &EndpointSlice) -> String {
    let stand: Vec<_> = slice.endpoints.iter().map(stands).collect();
    stand.join(" ")
}

impl Timeline {
    pub(crate) async fn new(cluster: &Cluster, namespace: &'static str) -> Self {
        Self {
            client: cluster.client().await.unwrap(),
            namespace,
            moments: watch::channel(Moments::new()).0,
            tasks: Vec::new(),
        }
    }

    /// Follows a kind too, from what is there when this returns.
    pub(crate) async fn follow<K>(&mut self, how: fn(&K) -> String)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), self.namespace);
        let moments = self.moments.clone();
        let (listed, begun) = oneshot::channel();
        let note = move |object: &K, how: String| {
            let version = object.resource_version().unwrap().parse().unwrap();
            let name = format!("{} {}", K::kind(&()), object.name_any());
            moments.send_modify(|moments| {
                moments.insert(version, (name, how));
            });
        };
        let follow = async move {
            let mut listed = Some(listed);
            let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()));
            while let Some(event) = events.next().await {
                match event.unwrap() {
                    // What changed meanwhile would go unseen.
                    Event::Init => assert!(listed.is_some(), "the watch started over"),
                    Event::InitApply(object) | Event::Apply(object) => note(&object, how(&object)),
                    Event::InitDone => {
                        // Nobody waits any more: the test has ended.
                        let _ended = listed.take().map(|listed| listed.send(()));
                    }
                    Event::Delete(object) => note(&object, "gone".to_owned()),
                }
            }
        };
        self.tasks.push(tokio::spawn(follow).abort_handle());
        begun.await.unwrap();
    }

    /// What there is to tell until now, in its order: each object whenever it stands in another way than before.
    pub(crate) fn told(&self) -> Vec<String> {
        assert!(
            self.tasks.iter().all(|task| !task.is_finished()),
            "a watch has ended"
        );
        told(&self.moments.borrow())
    }

    /// Returns what there is to tell once all of these are told.
    pub(crate) async fn until(&self, wanted: &[&str]) -> Vec<String> {
        let mut moments = self.moments.subscribe();
        let all = |moments: &Moments| {
            let told = told(moments);
            wanted.iter().all(|one| told.iter().any(|of| of == one))
        };
        let held = tokio::time::timeout(SOON, moments.wait_for(all)).await;
        assert!(held.is_ok(), "{wanted:?} not in {:?}", self.told());
        self.told()
    }
}

fn told(moments: &Moments) -> Vec<String> {
    let mut stand: BTreeMap<&str, &str> = BTreeMap::new();
    let mut told = Vec::new();
    for (name, how) in moments.values() {
        if stand.insert(name, how) != Some(how.as_str()) {
            told.push(format!("{name}: {how}"));
        }
    }
    told
}

/// Asserts that these were told, in this order.
#[track_caller]
pub(crate) fn in_order(told: &[String], wanted: &[&str]) {
    let mut rest = told.iter();
    for one in wanted {
        assert!(
            rest.any(|of| of == one),
            "{one} is not in its place: {told:?}"
        );
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
