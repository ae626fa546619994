//! Weight classes: how clusters of different weights share the traffic of one route.
//!
//! An HTTPRoute weighs Services, and a Service spreads evenly over its addresses. So clusters with the same weight per
//! address share a Service, one per class; a class then weighs the sum of its ready clusters' weights, and each cluster gets
//! its share whatever its number of addresses.

use std::{cmp::Ordering, collections::BTreeMap};

use crds::ClusterName;

/// A route rule takes at most this many backends (Gateway API, `HTTPRouteRule.backendRefs`).
pub const CLASSES_MAX: usize = 16;

/// One cluster that takes traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its name.
    pub cluster: ClusterName,
    /// Its weight, above 0.
    pub weight: u32,
    /// How many addresses share it, above 0.
    pub addresses: u32,
    /// Its tier: only one takes traffic at a time.
    pub tier: u32,
    /// Does it take traffic now?
    pub ready: bool,
}

/// Clusters with the same weight per address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// What tells its Service from the others'; empty when all clusters are of one class.
    pub suffix: String,
    /// The sum of its ready clusters' weights.
    pub weight: u32,
    /// Its clusters.
    pub clusters: Vec<ClusterName>,
}

/// The classes of all clusters, lightest first, at most [`CLASSES_MAX`]; `true`: some had to be merged.
///
/// Where the clusters of each tier weigh the same per address, one class does for all tiers: only one of them takes traffic
/// at a time, so that a failover changes no weight.
pub fn classes(shares: &[Share]) -> (Vec<Class>, bool) {
    let mut sorted: Vec<_> = shares.iter().collect();
    sorted.sort_by(|a, b| per_address(a, b).then_with(|| a.cluster.cmp(&b.cluster)));
    if !sorted.is_empty() && is_even(shares) {
        return (vec![class(&sorted, true)], false);
    }
    let mut groups: Vec<Vec<&Share>> = Vec::new();
    for share in sorted {
        match groups.last_mut() {
            Some(group)
                if group
                    .first()
                    .is_some_and(|first| per_address(first, share).is_eq()) =>
            {
                group.push(share);
            }
            Some(_) | None => groups.push(vec![share]),
        }
    }
    let merged = groups.len() > CLASSES_MAX;
    while groups.len() > CLASSES_MAX {
        merge_nearest(&mut groups);
    }
    (
        groups.iter().map(|group| class(group, false)).collect(),
        merged,
    )
}

/// Do the clusters of each tier weigh the same per address?
fn is_even(shares: &[Share]) -> bool {
    let mut first: BTreeMap<u32, &Share> = BTreeMap::new();
    shares
        .iter()
        .all(|share| per_address(first.entry(share.tier).or_insert(share), share).is_eq())
}

/// Compares `a.weight / a.addresses` with `b.weight / b.addresses`, without a division.
fn per_address(a: &Share, b: &Share) -> Ordering {
    let cross = |weight: u32, addresses: u32| u64::from(weight) * u64::from(addresses);
    cross(a.weight, b.addresses).cmp(&cross(b.weight, a.addresses))
}

/// Joins the two neighbours whose weights per address are nearest as a ratio.
fn merge_nearest(groups: &mut Vec<Vec<&Share>>) {
    let ratio = |group: &[&Share]| {
        group.first().map_or(0.0, |share| {
            f64::from(share.weight) / f64::from(share.addresses)
        })
    };
    let distances = groups
        .iter()
        .zip(groups.iter().skip(1))
        .map(|(low, high)| ratio(high) / ratio(low));
    let nearest = distances
        .enumerate()
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(index, _)| index);
    if let Some(index) = nearest {
        let heavier = groups.remove(index + 1);
        if let Some(group) = groups.get_mut(index) {
            group.extend(heavier);
        }
    }
}

fn class(group: &[&Share], single: bool) -> Class {
    let suffix = group.first().filter(|_| !single).map(|first| {
        let divisor = greatest_common_divisor(first.weight, first.addresses);
        match (first.weight / divisor, first.addresses / divisor) {
            (weight, 1) => format!("-w{weight}"),
            (weight, addresses) => format!("-w{weight}-{addresses}"),
        }
    });
    Class {
        suffix: suffix.unwrap_or_default(),
        weight: group
            .iter()
            .filter(|share| share.ready)
            .map(|share| share.weight)
            .sum(),
        clusters: group.iter().map(|share| share.cluster.clone()).collect(),
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 {
        a.max(1)
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(cluster: &str, weight: u32, addresses: u32) -> Share {
        Share {
            cluster: cluster.parse().unwrap(),
            weight,
            addresses,
            tier: 0,
            ready: true,
        }
    }

    fn check(shares: &[Share], expected: &str) {
        let (classes, merged) = classes(shares);
        let line = |class: &Class| {
            let clusters: Vec<_> = class.clusters.iter().map(ClusterName::as_str).collect();
            format!("{}={}:{}", class.suffix, class.weight, clusters.join("+"))
        };
        let text: Vec<_> = classes.iter().map(line).collect();
        assert_eq!(
            format!("{}{}", text.join(" "), if merged { " merged" } else { "" }),
            expected
        );
    }

    #[test]
    fn equal_weights_need_no_class() {
        check(&[share("b", 1, 1), share("a", 1, 1)], "=2:a+b");
        check(&[share("a", 7, 1)], "=7:a");
        check(&[], "");
    }

    #[test]
    fn different_weights_are_classes_of_their_own() {
        check(
            &[share("a", 3, 1), share("b", 1, 1), share("c", 3, 1)],
            "-w1=1:b -w3=6:a+c",
        );
    }

    #[test]
    fn a_share_follows_the_weight_whatever_the_number_of_addresses() {
        check(&[share("a", 1, 1), share("b", 1, 2)], "-w1-2=1:b -w1=1:a");
        check(&[share("a", 2, 2), share("b", 1, 1)], "=3:a+b");
    }

    #[test]
    fn tiers_of_one_weight_each_share_one_class_whose_weight_no_failover_can_change() {
        let standby = Share {
            tier: 1,
            ready: false,
            ..share("b", 1, 1)
        };
        check(&[share("a", 3, 1), standby.clone()], "=3:b+a");
        check(
            &[share("a", 3, 1), share("c", 2, 1), standby],
            "-w1=0:b -w2=2:c -w3=3:a",
        );
    }

    #[test]
    fn a_class_weighs_what_is_ready_in_it() {
        let down = Share {
            ready: false,
            ..share("a", 3, 1)
        };
        check(&[down, share("b", 1, 1)], "-w1=1:b -w3=0:a");
    }

    #[test]
    fn more_than_sixteen_classes_are_merged_by_nearest_weight() {
        let shares: Vec<_> = (1..=18)
            .map(|weight| share(&format!("c{weight}"), weight, 1))
            .collect();
        let (merged, is_merged) = classes(&shares);
        assert!(is_merged);
        assert_eq!(merged.len(), CLASSES_MAX);
        assert_eq!(
            merged.iter().map(|class| class.weight).sum::<u32>(),
            (1..=18).sum::<u32>()
        );
        // The ratio is smallest among the heaviest.
        assert!(merged.last().unwrap().clusters.len() > 1);
        assert_eq!(merged[0].clusters.len(), 1);
    }
}
