//! Which object a thing is in, where several objects share many things: where it was, so that a change of one thing writes
//! one object. Addresses in EndpointSlices, rules in HTTPRoutes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Which of the objects an object is whose names are `prefix` and a number.
pub(crate) fn number(object: &ObjectMeta, prefix: &str) -> Option<usize> {
    object.name.as_deref()?.strip_prefix(prefix)?.parse().ok()
}

/// The things of each shard, sorted, at most `capacity` each. `before` is where things were; who has no place there takes
/// the first that is free.
pub(crate) fn shards<T: Ord>(
    things: impl IntoIterator<Item = T>,
    before: &BTreeMap<T, usize>,
    capacity: usize,
) -> BTreeMap<usize, BTreeSet<T>> {
    let mut shards: BTreeMap<usize, BTreeSet<T>> = BTreeMap::new();
    let mut homeless = Vec::new();
    for thing in things {
        let place = before
            .get(&thing)
            .map(|shard| shards.entry(*shard).or_default())
            .filter(|shard| shard.len() < capacity);
        match place {
            Some(shard) => {
                shard.insert(thing);
            }
            None => homeless.push(thing),
        }
    }
    let mut shard = 0;
    for thing in homeless {
        while shards
            .get(&shard)
            .is_some_and(|taken| taken.len() >= capacity)
        {
            shard += 1;
        }
        shards.entry(shard).or_default().insert(thing);
    }
    shards.retain(|_, things| !things.is_empty());
    shards
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPACITY: usize = 100;

    fn places(shards: &BTreeMap<usize, BTreeSet<u32>>) -> BTreeMap<u32, usize> {
        let of = |(shard, things): (&usize, &BTreeSet<u32>)| {
            let shard = *shard;
            things
                .iter()
                .map(move |thing| (*thing, shard))
                .collect::<Vec<_>>()
        };
        shards.iter().flat_map(of).collect()
    }

    proptest! {
        #[test]
        fn a_change_of_one_thing_touches_one_shard(
            set in prop::collection::btree_set(0u32..600, 0..350),
            history in prop::collection::btree_set(0u32..600, 0..350),
            one in 0u32..600,
        ) {
            let earlier = shards(history, &BTreeMap::new(), CAPACITY);
            let before = shards(set.iter().copied(), &places(&earlier), CAPACITY);
            let mut changed = set;
            if !changed.remove(&one) {
                changed.insert(one);
            }
            let after = shards(changed, &places(&before), CAPACITY);
            let touched = before
                .keys()
                .chain(after.keys())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .filter(|shard| before.get(shard) != after.get(shard))
                .count();
            prop_assert_eq!(touched, 1);
        }

        #[test]
        fn every_thing_has_one_place_in_a_shard_that_is_not_too_full(
            set in prop::collection::btree_set(0u32..600, 0..350),
            history in prop::collection::btree_set(0u32..600, 0..350),
        ) {
            let after = shards(set.iter().copied(), &places(&shards(history, &BTreeMap::new(), CAPACITY)), CAPACITY);
            let found: Vec<_> = after.values().flatten().copied().collect();
            prop_assert_eq!(found.len(), set.len());
            prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), set);
            prop_assert!(after.values().all(|shard| shard.len() <= CAPACITY));
        }
    }

    #[test]
    fn no_shard_takes_more_than_it_can_whatever_was_in_it() {
        let before = (0..=100).map(|thing| (thing, 0)).collect();
        let sizes = shards(0..=100, &before, CAPACITY);
        let sizes: Vec<_> = sizes.values().map(BTreeSet::len).collect();
        assert_eq!(sizes, [100, 1]);
    }
}
