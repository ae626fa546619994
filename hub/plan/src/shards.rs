//! Which slice an address is in: where it was, so that a change of one address writes one slice.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

/// An EndpointSlice may hold more; the endpoints controller of Kubernetes stops at this as well.
pub(crate) const ADDRESSES_PER_SLICE: usize = 100;

/// The addresses of each shard, sorted. `before` is where addresses were; who has no place there takes the first that is
/// free.
pub(crate) fn shards(
    addresses: impl IntoIterator<Item = IpAddr>,
    before: &BTreeMap<IpAddr, usize>,
) -> BTreeMap<usize, BTreeSet<IpAddr>> {
    let mut shards: BTreeMap<usize, BTreeSet<IpAddr>> = BTreeMap::new();
    let mut homeless = Vec::new();
    for address in addresses {
        let place = before
            .get(&address)
            .map(|shard| shards.entry(*shard).or_default())
            .filter(|shard| shard.len() < ADDRESSES_PER_SLICE);
        match place {
            Some(shard) => {
                shard.insert(address);
            }
            None => homeless.push(address),
        }
    }
    let mut shard = 0;
    for address in homeless {
        while shards
            .get(&shard)
            .is_some_and(|taken| taken.len() >= ADDRESSES_PER_SLICE)
        {
            shard += 1;
        }
        shards.entry(shard).or_default().insert(address);
    }
    shards.retain(|_, addresses| !addresses.is_empty());
    shards
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0xc612_0000 + number).into()
    }

    fn places(shards: &BTreeMap<usize, BTreeSet<IpAddr>>) -> BTreeMap<IpAddr, usize> {
        let of = |(shard, addresses): (&usize, &BTreeSet<IpAddr>)| {
            let shard = *shard;
            addresses
                .iter()
                .map(move |address| (*address, shard))
                .collect::<Vec<_>>()
        };
        shards.iter().flat_map(of).collect()
    }

    proptest! {
        #[test]
        fn a_change_of_one_address_touches_one_shard(
            set in prop::collection::btree_set(0u32..600, 0..350),
            history in prop::collection::btree_set(0u32..600, 0..350),
            one in 0u32..600,
        ) {
            let all = |numbers: &BTreeSet<u32>| numbers.iter().copied().map(address).collect::<Vec<_>>();
            let earlier = shards(all(&history), &BTreeMap::new());
            let before = shards(all(&set), &places(&earlier));
            let mut changed = set;
            if !changed.remove(&one) {
                changed.insert(one);
            }
            let after = shards(all(&changed), &places(&before));
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
        fn every_address_has_one_place_in_a_shard_that_is_not_too_full(
            set in prop::collection::btree_set(0u32..600, 0..350),
            history in prop::collection::btree_set(0u32..600, 0..350),
        ) {
            let all = |numbers: &BTreeSet<u32>| numbers.iter().copied().map(address).collect::<Vec<_>>();
            let after = shards(all(&set), &places(&shards(all(&history), &BTreeMap::new())));
            let found: Vec<_> = after.values().flatten().copied().collect();
            prop_assert_eq!(found.len(), set.len());
            prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), all(&set).into_iter().collect());
            prop_assert!(after.values().all(|shard| shard.len() <= ADDRESSES_PER_SLICE));
        }
    }
}
