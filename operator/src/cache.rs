//! Watch caches: every read of a reconcile comes from here.
//!
//! Owns one kind's objects as the API server last told them, trimmed to what is read. It must not write, and it must
//! not decide: whoever wants to know of a change is called with the object before and after.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource, ResourceExt,
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// Namespace (empty for what has none) and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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
    objects: Arc<RwLock<BTreeMap<ObjectKey, Arc<K>>>>,
    synced: watch::Sender<bool>,
    installed: watch::Sender<bool>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self {
            trim: self.trim,
            objects: Arc::clone(&self.objects),
            synced: self.synced.clone(),
            installed: self.installed.clone(),
        }
    }
}

impl<K> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("objects", &self.read().len())
            .field("synced", &self.is_synced())
            .finish()
    }
}

impl<K> Cache<K> {
    /// An empty cache. `trim` drops what nobody reads before an object is kept.
    pub fn new(trim: fn(&mut K)) -> Self {
        Self {
            trim,
            objects: Arc::default(),
            synced: watch::Sender::new(false),
            installed: watch::Sender::new(true),
        }
    }

    /// The object of that name.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read().get(key).map(Arc::clone)
    }

    /// All objects, by key.
    pub fn all(&self) -> BTreeMap<ObjectKey, Arc<K>> {
        self.read().clone()
    }

    /// The objects that `keep` picks.
    pub fn filter(&self, keep: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.read()
            .values()
            .filter(|object| keep(object))
            .map(Arc::clone)
            .collect()
    }

    /// The objects of a namespace whose names begin so.
    pub fn prefixed(&self, namespace: &str, prefix: &str) -> Vec<Arc<K>> {
        let objects = self.read();
        let from = objects.range(ObjectKey::new(namespace, prefix)..);
        from.take_while(|(key, _)| key.namespace == namespace && key.name.starts_with(prefix))
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    /// Has the cache held a complete list once?
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
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

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<ObjectKey, Arc<K>>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<ObjectKey, Arc<K>>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
{
    /// Keeps the cache right until the task is dropped. `changed` is called after each change, with the cache already
    /// holding it, and may only wake.
    ///
    /// An API server that does not know the kind counts as one with no objects, but takes none away: a kind that is missing
    /// for a moment must not look like all of them deleted. It is asked again, so that the kind is picked up when it appears.
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
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_LAST);
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
                self.replace(std::mem::take(listed), changed);
            }
            Event::Apply(mut object) => {
                (self.trim)(&mut object);
                self.put(ObjectKey::of(&object), object, changed);
            }
            Event::Delete(object) => self.remove(&ObjectKey::of(&object), changed),
        }
    }

    /// Takes the answer to a write of our own, so that the next plan sees it before the watch brings it, and writes
    /// nothing twice. Announces nothing: the writer knows.
    pub fn note(&self, mut written: K) {
        (self.trim)(&mut written);
        self.put(ObjectKey::of(&written), written, &|_| {});
    }

    /// Keeps an object, unless the one held is as new: our own write may have been noted before the watch brings it.
    fn put(&self, key: ObjectKey, object: K, changed: &impl Fn(Change<'_, K>)) {
        let (before, object) = {
            let mut objects = self.write();
            if objects
                .get(&key)
                .is_some_and(|held| !is_newer(object.meta(), held.meta()))
            {
                return;
            }
            let object = Arc::new(object);
            (objects.insert(key, Arc::clone(&object)), object)
        };
        changed(Change {
            before: before.as_ref(),
            after: Some(&object),
        });
    }

    fn remove(&self, key: &ObjectKey, changed: &impl Fn(Change<'_, K>)) {
        let before = self.write().remove(key);
        if before.is_some() {
            changed(Change {
                before: before.as_ref(),
                after: None,
            });
        }
    }
    /// The cache becomes `listed`. Only what differs is announced: a watch that starts over is no news.
    fn replace(&self, listed: BTreeMap<ObjectKey, K>, changed: &impl Fn(Change<'_, K>)) {
        let gone: Vec<_> = self
            .read()
            .keys()
            .filter(|key| !listed.contains_key(key))
            .cloned()
            .collect();
        for key in gone {
            self.remove(&key, changed);
        }
        for (key, object) in listed {
            self.put(key, object, changed);
        }
        self.synced.send_replace(true);
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
            self.synced.send_replace(true);
        } else {
            tracing::warn!(kind, %error, "watch interrupted");
        }
    }
}

/// Is `object` newer than the one held? Versions of one object are ordered numbers (KEP-5504); an object made anew
/// under the same name has another UID and a greater version.
fn is_newer(object: &ObjectMeta, held: &ObjectMeta) -> bool {
    let version = |meta: &ObjectMeta| {
        meta.resource_version
            .as_deref()
            .and_then(|version| version.parse::<u64>().ok())
    };
    match (version(object), version(held)) {
        (Some(object), Some(held)) => object > held,
        (None, _) | (_, None) => object.resource_version != held.resource_version,
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
