//! Watch caches: every read of a reconcile comes from here.
//!
//! Owns one kind's objects as the API server last told them, trimmed to what is read. It must not write, and it must
//! not decide: whoever wants to know of a change is called with the object before and after.

mod store;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Resource, ResourceExt,
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};

use self::store::{News, Store};

/// Namespace (empty for what has none) and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of that name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of an object.
    pub fn of(object: &impl ResourceExt) -> Self {
        Self::new(object.namespace().unwrap_or_default(), object.name_any())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// One object before and after; at least one of the two is there.
#[derive(Debug)]
pub struct Change<'a, K> {
    /// The object that the cache held.
    pub before: Option<&'a Arc<K>>,
    /// The object that it holds now.
    pub after: Option<&'a Arc<K>>,
}

impl<K> Change<'_, K> {
    /// The object before, then the object after.
    pub fn each(&self) -> impl Iterator<Item = &K> {
        self.before.into_iter().chain(self.after).map(AsRef::as_ref)
    }
}

/// The objects of one kind. Clones share them.
pub struct Cache<K> {
    trim: fn(&mut K),
    optional: bool,
    store: Arc<RwLock<Store<K>>>,
    synced: watch::Sender<bool>,
    installed: watch::Sender<bool>,
    look: Arc<Notify>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self {
            trim: self.trim,
            optional: self.optional,
            store: Arc::clone(&self.store),
            synced: self.synced.clone(),
            installed: self.installed.clone(),
            look: Arc::clone(&self.look),
        }
    }
}

impl<K> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("objects", &self.read().iter().count())
            .field("synced", &self.is_synced())
            .finish()
    }
}

impl<K> Cache<K> {
    /// An empty cache. `trim` drops what nobody reads before an object is kept.
    pub fn new(trim: fn(&mut K)) -> Self {
        Self {
            trim,
            optional: false,
            store: Arc::default(),
            synced: watch::Sender::new(false),
            installed: watch::Sender::new(true),
            look: Arc::default(),
        }
    }

    /// An empty cache of a kind that an API server may lack: then it counts as one with no objects. Any other kind that is
    /// missing leaves its cache unfilled: who reads it must wait, not take it for empty.
    pub fn optional(trim: fn(&mut K)) -> Self {
        Self {
            optional: true,
            ..Self::new(trim)
        }
    }

    /// The object of that name.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read().get(key)
    }

    /// All objects, by key.
    pub fn all(&self) -> BTreeMap<ObjectKey, Arc<K>> {
        self.read()
            .iter()
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect()
    }

    /// The objects that `keep` picks.
    pub fn filter(&self, keep: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let store = self.read();
        store
            .iter()
            .filter(|(_, object)| keep(object))
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    /// The objects of a namespace whose names begin so.
    pub fn prefixed(&self, namespace: &str, prefix: &str) -> Vec<Arc<K>> {
        let store = self.read();
        let from = store.from(ObjectKey::new(namespace, prefix));
        from.take_while(|(key, _)| key.namespace == namespace && key.name.starts_with(prefix))
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    /// Has the cache held a complete list once?
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// The API server may have the kind by now: it is asked at once.
    pub fn look_again(&self) {
        self.look.notify_one();
    }

    /// Does the API server have the kind? True until it said no.
    pub fn is_installed(&self) -> bool {
        *self.installed.borrow()
    }

    /// Follows [`Self::is_installed`].
    pub fn installed(&self) -> watch::Receiver<bool> {
        self.installed.subscribe()
    }

    /// Returns once the cache has held a complete list.
    pub async fn synced(&self) {
        let mut synced = self.synced.subscribe();
        // The sender lives in `self`: waiting can't fail.
        drop(synced.wait_for(|synced| *synced).await);
    }

    fn read(&self) -> RwLockReadGuard<'_, Store<K>> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Store<K>> {
        self.store.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
{
    /// Keeps the cache right until the task is dropped. `changed` is called after each change, with the cache already
    /// holding it, and may only wake.
    ///
    /// An API server that does not know the kind takes no object away: a kind that is missing for a moment must not look like
    /// all of them deleted. It is asked again, so that the kind is picked up when it appears.
    pub async fn run(
        self,
        api: Api<K>,
        config: watcher::Config,
        changed: impl Fn(Change<'_, K>) + Send,
    ) {
        let kind = K::kind(&()).into_owned();
        let mut events = std::pin::pin!(watcher::watcher(api, config));
        let mut listed = BTreeMap::new();
        let mut pause = PAUSE_FIRST;
        while let Some(event) = events.next().await {
            match event {
                // The beginning of an attempt is no success.
                Ok(Event::Init) => listed.clear(),
                Ok(event) => {
                    pause = PAUSE_FIRST;
                    self.take(event, &mut listed, &changed);
                }
                Err(error) => {
                    self.miss(&kind, &error);
                    tokio::select! {
                        () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE_LAST),
                        () = self.look.notified() => pause = PAUSE_FIRST,
                    }
                }
            }
        }
    }

    fn take(
        &self,
        event: Event<K>,
        listed: &mut BTreeMap<ObjectKey, K>,
        changed: &impl Fn(Change<'_, K>),
    ) {
        match event {
            Event::Init => {}
            Event::InitApply(mut object) => {
                (self.trim)(&mut object);
                listed.insert(ObjectKey::of(&object), object);
            }
            Event::InitDone => {
                self.set_installed(true);
                let news = self.write().replace(std::mem::take(listed));
                // Whoever waits for the cache relies on what follows from its objects as well.
                announce(news, changed);
                self.synced.send_replace(true);
            }
            Event::Apply(mut object) => {
                (self.trim)(&mut object);
                let news = self.write().put(ObjectKey::of(&object), object);
                announce(news, changed);
            }
            Event::Delete(object) => {
                let news = self.write().remove(&ObjectKey::of(&object), &object);
                announce(news, changed);
            }
        }
    }

    /// Takes the answer to a write of our own, so that the next plan sees it before the watch brings it, and writes nothing
    /// twice. The watch announces it when it gets there.
    pub fn note(&self, mut written: K) {
        (self.trim)(&mut written);
        self.write().note(ObjectKey::of(&written), written);
    }

    /// Takes a deletion of our own that the API server has taken, so that the next plan does not ask for it again. The watch
    /// says when the object is gone.
    pub fn leave(&self, key: &ObjectKey, uid: &str, at: Timestamp)
    where
        K: Clone,
    {
        self.write().leave(key, uid, at);
    }

    /// Returns whether that is news.
    fn set_installed(&self, installed: bool) -> bool {
        self.installed
            .send_if_modified(|current| std::mem::replace(current, installed) != installed)
    }

    fn miss(&self, kind: &str, error: &watcher::Error) {
        if is_unknown_kind(error) {
            if self.set_installed(false) {
                tracing::info!(kind, "the API server does not know the kind");
            }
            if self.optional {
                self.synced.send_replace(true);
            }
        } else {
            tracing::warn!(kind, %error, "watch interrupted");
        }
    }
}

fn announce<K>(news: impl IntoIterator<Item = News<K>>, changed: &impl Fn(Change<'_, K>)) {
    for (before, after) in news {
        changed(Change {
            before: before.as_ref(),
            after: after.as_ref(),
        });
    }
}

/// Does the error say that the API server has no such kind?
fn is_unknown_kind(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchError(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => false,
    }
}

/// The pause after a failed attempt, doubling to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_LAST: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn whoever_waits_for_a_cache_finds_all_that_follows_from_its_objects() {
        let cache = Cache::<ConfigMap>::new(|_| {});
        let told = Cell::new(0);
        let changed = |_: Change<'_, ConfigMap>| {
            assert!(!cache.is_synced());
            told.set(told.get() + 1);
        };
        let mut listed = BTreeMap::new();
        let mut object = ConfigMap::default();
        object.metadata.name = Some("a".to_owned());
        for event in [Event::Init, Event::InitApply(object), Event::InitDone] {
            cache.take(event, &mut listed, &changed);
        }
        assert_eq!((told.get(), cache.is_synced()), (1, true));
    }
}
