//! The objects of a cache and their order in time. Pure: what a watch brings and what our own writes answer come in, what
//! is news goes out.
//!
//! Versions of one kind are ordered numbers (KEP-5504), over its objects too: so an answer that comes later than the
//! deletion of its object is known by its version, and does not bring the object back.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use kube::Resource;

use super::ObjectKey;

/// What a store holds of one object.
#[derive(Debug)]
struct Held<K> {
    object: Arc<K>,
    /// What was last announced; it differs from `object` while only an answer to a write of ours has brought that.
    announced: Option<Arc<K>>,
}

/// The objects of one kind.
#[derive(Debug)]
pub(super) struct Store<K> {
    held: BTreeMap<ObjectKey, Held<K>>,
    /// The highest version that the watch has brought.
    seen: u64,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            held: BTreeMap::new(),
            seen: 0,
        }
    }
}

/// One object, as it was last announced and as it is now.
pub(super) type News<K> = (Option<Arc<K>>, Option<Arc<K>>);

impl<K> Store<K> {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.held.get(key).map(|held| Arc::clone(&held.object))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<K>)> {
        self.held.iter().map(|(key, held)| (key, &held.object))
    }

    pub(super) fn from(&self, key: ObjectKey) -> impl Iterator<Item = (&ObjectKey, &Arc<K>)> {
        self.held
            .range(key..)
            .map(|(key, held)| (key, &held.object))
    }
}

impl<K: Resource<DynamicType = ()>> Store<K> {
    /// The watch brings an object. What an answer has brought before is announced now at the latest: somebody else's change
    /// may be in it.
    pub(super) fn put(&mut self, key: ObjectKey, object: K) -> Option<News<K>> {
        self.seen = self.seen.max(version(object.meta()));
        let held = self.held.get(&key);
        let before = held.and_then(|held| held.announced.clone());
        let object = match held {
            Some(held) if !is_newer(object.meta(), held.object.meta()) => {
                let told = held
                    .announced
                    .as_ref()
                    .is_some_and(|announced| Arc::ptr_eq(announced, &held.object));
                if told {
                    return None;
                }
                Arc::clone(&held.object)
            }
            Some(_) | None => Arc::new(object),
        };
        self.held.insert(
            key,
            Held {
                object: Arc::clone(&object),
                announced: Some(Arc::clone(&object)),
            },
        );
        Some((before, Some(object)))
    }

    /// A write of ours was answered by this object. Ignored when the watch is already past it.
    pub(super) fn note(&mut self, key: ObjectKey, object: K) {
        let announced = match self.held.get(&key) {
            Some(held) if !is_newer(object.meta(), held.object.meta()) => return,
            Some(held) => held.announced.clone(),
            None if version(object.meta()) <= self.seen => return,
            None => None,
        };
        self.held.insert(
            key,
            Held {
                object: Arc::new(object),
                announced,
            },
        );
    }

    /// The object of that UID was told to go: so it is not told again before the watch says what became of it.
    pub(super) fn leave(&mut self, key: &ObjectKey, uid: &str, at: Timestamp)
    where
        K: Clone,
    {
        if let Some(held) = self.held.get_mut(key)
            && held.object.meta().uid.as_deref() == Some(uid)
        {
            let object = Arc::make_mut(&mut held.object);
            object.meta_mut().deletion_timestamp.get_or_insert(Time(at));
        }
    }

    /// The watch says that an object is gone. A newer one of that name stays.
    pub(super) fn remove(&mut self, key: &ObjectKey, object: &K) -> Option<News<K>> {
        self.seen = self.seen.max(version(object.meta()));
        let held = self.held.get(key)?;
        if version(held.object.meta()) > version(object.meta()) {
            return None;
        }
        let held = self.held.remove(key)?;
        Some((held.announced.or(Some(held.object)), None))
    }

    /// The store becomes `listed`; what differs is news: a watch that starts over is none.
    pub(super) fn replace(&mut self, listed: BTreeMap<ObjectKey, K>) -> Vec<News<K>> {
        let gone: Vec<_> = self
            .held
            .keys()
            .filter(|key| !listed.contains_key(key))
            .cloned()
            .collect();
        let mut news = Vec::new();
        for key in gone {
            if let Some(held) = self.held.remove(&key) {
                news.push((held.announced.or(Some(held.object)), None));
            }
        }
        news.extend(
            listed
                .into_iter()
                .filter_map(|(key, object)| self.put(key, object)),
        );
        news
    }
}

/// An object's version; one that is no number is the oldest.
fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version
        .as_deref()
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

fn is_newer(object: &ObjectMeta, held: &ObjectMeta) -> bool {
    version(object) > version(held)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn key() -> ObjectKey {
        ObjectKey::new("n", "a")
    }

    fn at(version: u64) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.resource_version = Some(version.to_string());
        object
    }

    fn versions(news: Option<News<ConfigMap>>) -> Option<(Option<u64>, Option<u64>)> {
        let of = |object: Option<Arc<ConfigMap>>| object.map(|object| version(&object.metadata));
        news.map(|(before, after)| (of(before), of(after)))
    }

    #[test]
    fn the_watchs_echo_of_what_is_held_is_no_news() {
        let mut store = Store::default();
        assert_eq!(versions(store.put(key(), at(1))), Some((None, Some(1))));
        assert_eq!(versions(store.put(key(), at(1))), None);
        assert_eq!(store.replace([(key(), at(1))].into()).len(), 0);
    }

    #[test]
    fn anothers_change_that_came_in_an_answer_of_ours_is_announced_by_the_watch() {
        let mut store = Store::default();
        store.put(key(), at(10));
        store.note(key(), at(12));
        assert_eq!(
            store.get(&key()).map(|object| version(&object.metadata)),
            Some(12)
        );
        assert_eq!(
            versions(store.put(key(), at(11))),
            Some((Some(10), Some(12)))
        );
        assert_eq!(versions(store.put(key(), at(12))), None);
    }

    #[test]
    fn an_answer_that_comes_after_the_deletion_brings_nothing_back() {
        let mut store = Store::default();
        store.put(key(), at(10));
        assert_eq!(
            versions(store.remove(&key(), &at(12))),
            Some((Some(10), None))
        );
        store.note(key(), at(11));
        assert!(store.get(&key()).is_none());
    }

    #[test]
    fn a_deletion_that_is_older_than_what_is_held_is_another_objects() {
        let mut store = Store::default();
        store.put(key(), at(10));
        store.note(key(), at(20));
        assert_eq!(versions(store.remove(&key(), &at(12))), None);
        assert!(store.get(&key()).is_some());
    }

    #[test]
    fn an_object_that_was_told_to_go_is_on_its_way_out_and_another_of_its_name_is_not() {
        let going = |uid: &str| {
            let mut store = Store::default();
            let mut object = at(10);
            object.metadata.uid = Some("old".to_owned());
            store.put(key(), object);
            store.leave(&key(), uid, Timestamp::UNIX_EPOCH);
            let object = store.get(&key()).unwrap();
            object.metadata.deletion_timestamp.is_some()
        };
        assert!(going("old"));
        assert!(!going("new"));
    }

    #[test]
    fn a_new_list_announces_what_is_gone_new_and_changed() {
        let mut store = Store::default();
        let other = ObjectKey::new("n", "b");
        store.put(key(), at(1));
        store.put(other.clone(), at(2));
        let news = store.replace([(other, at(5)), (ObjectKey::new("n", "c"), at(4))].into());
        let mut news: Vec<_> = news
            .into_iter()
            .map(|news| versions(Some(news)).unwrap())
            .collect();
        news.sort_unstable();
        assert_eq!(news, [(None, Some(4)), (Some(1), None), (Some(2), Some(5))]);
    }
}
