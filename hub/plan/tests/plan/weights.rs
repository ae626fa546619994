//! The classes of weights, whatever the clusters.

use hub_plan::weights::{CLASSES_MAX, Class, Share, classes};
use proptest::prelude::*;

use crate::given::cluster;

fn share(name: &str, weight: u32, addresses: u32, ready: bool) -> Share {
    Share {
        cluster: cluster(name),
        weight,
        addresses,
        tier: 0,
        ready,
    }
}

/// One ready address each.
fn weighing(weights: &[u32]) -> Vec<Share> {
    let each = weights.iter().enumerate();
    each.map(|(number, weight)| share(&format!("c{number}"), *weight, 1, true))
        .collect()
}

fn suffixes(classes: &[Class]) -> Vec<&str> {
    classes.iter().map(|class| class.suffix.as_str()).collect()
}

/// Up to forty clusters of any weight that the API server lets in.
fn shares() -> impl Strategy<Value = Vec<Share>> {
    let one = (1..=1000u32, 1..=120u32, any::<bool>());
    proptest::collection::vec(one, 0..40).prop_map(|shares| {
        let each = shares.into_iter().enumerate();
        each.map(|(number, (weight, addresses, ready))| {
            share(&format!("c{number}"), weight, addresses, ready)
        })
        .collect()
    })
}

#[test]
fn sixteen_weights_are_sixteen_classes() {
    let weights: Vec<u32> = (1..=16).collect();
    let (classes, merged) = classes(&weighing(&weights));
    assert_eq!((classes.len(), merged), (16, false));
}

#[test]
fn seventeen_weights_are_sixteen_classes_and_it_is_told() {
    let weights: Vec<u32> = (1..=17).collect();
    let (classes, merged) = classes(&weighing(&weights));
    assert_eq!((classes.len(), merged), (CLASSES_MAX, true));
}

#[test]
fn the_two_weights_that_are_nearest_as_a_ratio_share_the_lighter_ones_class() {
    // 1, 2, 4, … 32768: each twice its neighbour, but for one.
    let mut weights: Vec<u32> = (0..16).map(|power| 1 << power).collect();
    weights.push(9);
    let (classes, _) = classes(&weighing(&weights));
    let shared: Vec<_> = classes
        .iter()
        .filter(|class| class.clusters.len() > 1)
        .collect();
    assert_eq!(shared.len(), 1);
    assert_eq!((shared[0].suffix.as_str(), shared[0].weight), ("-w8", 17));
}

#[test]
fn weights_are_near_each_other_by_what_an_address_gets() {
    let mut shares = weighing(&(0..16).map(|power| 1 << power).collect::<Vec<_>>());
    shares.push(share("shared", 27, 3, true));
    let (classes, _) = classes(&shares);
    let shared = classes
        .iter()
        .find(|class| class.clusters.len() > 1)
        .unwrap();
    assert_eq!((shared.suffix.as_str(), shared.weight), ("-w8", 35));
}

#[test]
fn a_weight_that_many_addresses_share_is_told_as_a_fraction_in_lowest_terms() {
    let shares = [
        share("a", 4, 6, true),
        share("b", 6, 2, true),
        share("c", 5, 1, true),
    ];
    assert_eq!(suffixes(&classes(&shares).0), ["-w2-3", "-w3", "-w5"]);
}

#[test]
fn clusters_of_one_class_come_in_the_order_of_their_names() {
    let shares = [
        share("b", 2, 1, true),
        share("c", 2, 1, true),
        share("a", 2, 1, true),
    ];
    let (classes, _) = classes(&shares);
    assert_eq!(classes[0].clusters, ["a", "b", "c"].map(cluster));
}

proptest! {
    #[test]
    fn all_classes_together_weigh_what_is_ready(shares in shares()) {
        let ready: u32 = shares.iter().filter(|share| share.ready).map(|share| share.weight).sum();
        let (classes, _) = classes(&shares);
        prop_assert_eq!(classes.iter().map(|class| class.weight).sum::<u32>(), ready);
    }

    #[test]
    fn every_cluster_is_in_one_class(shares in shares()) {
        let (classes, _) = classes(&shares);
        let mut clusters: Vec<_> = classes.iter().flat_map(|class| &class.clusters).collect();
        clusters.sort();
        let mut expected: Vec<_> = shares.iter().map(|share| &share.cluster).collect();
        expected.sort();
        prop_assert_eq!(clusters, expected);
    }

    #[test]
    fn there_are_never_more_classes_than_a_route_takes(shares in shares()) {
        prop_assert!(classes(&shares).0.len() <= CLASSES_MAX);
    }

    #[test]
    fn no_two_classes_have_one_name(shares in shares()) {
        let (classes, _) = classes(&shares);
        let mut names = suffixes(&classes);
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), classes.len());
    }

    #[test]
    fn the_order_of_clusters_changes_no_class(
        (given, shuffled) in shares().prop_flat_map(|shares| (Just(shares.clone()), Just(shares).prop_shuffle())),
    ) {
        prop_assert_eq!(classes(&given), classes(&shuffled));
    }

    #[test]
    fn readiness_moves_no_cluster_to_another_class(shares in shares(), ready in any::<bool>()) {
        let of = |shares: &[Share]| -> Vec<_> {
            let (classes, _) = classes(shares);
            classes.into_iter().map(|class| (class.suffix, class.clusters)).collect()
        };
        let changed: Vec<_> = shares.iter().cloned().map(|share| Share { ready, ..share }).collect();
        prop_assert_eq!(of(&shares), of(&changed));
    }
}

#[test]
fn forty_clusters_in_five_weights_share_the_traffic_by_them() {
    let weights: Vec<u32> = (0..40).map(|number| [1, 2, 3, 5, 10][number % 5]).collect();
    let (classes, merged) = classes(&weighing(&weights));
    assert_eq!((classes.len(), merged), (5, false));
    let all: u32 = classes.iter().map(|class| class.weight).sum();
    let total: u32 = weights.iter().sum();
    for class in &classes {
        // What each of a class's clusters gets of all, as each has one address.
        let clusters = u32::try_from(class.clusters.len()).unwrap();
        let share = f64::from(class.weight) / f64::from(all) / f64::from(clusters);
        let number: usize = class.clusters[0].as_str()[1..].parse().unwrap();
        let wanted = f64::from(weights[number]) / f64::from(total);
        assert!(
            (share - wanted).abs() < 1e-9,
            "{share} where {wanted} is wanted"
        );
    }
}
