//! What each of three members gets of the traffic.

use std::collections::BTreeMap;

use crds::labels;
use e2e::{Cluster, Installed};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::{LATER, MEMBERS, alone, answer, namespace, server};

const REQUESTS: u32 = 800;

/// The Pods of a namespace that belong to a server, by their UIDs.
pub(crate) async fn pods(cluster: &Cluster, namespace: &str) -> Vec<String> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await.unwrap(), namespace);
    let of_servers = ListParams::default().labels(labels::SERVER);
    let found = pods.list(&of_servers).await.unwrap();
    found.items.iter().filter_map(ResourceExt::uid).collect()
}

/// How many of the requests each member answers.
async fn counted(fleet: &Installed, namespace: &str) -> anyhow::Result<BTreeMap<String, u32>> {
    let mut of = BTreeMap::new();
    for (name, cluster) in fleet.members() {
        let uids = pods(cluster, namespace).await;
        of.extend(uids.into_iter().map(|uid| (uid, name)));
    }
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..REQUESTS {
        let uid = answer(fleet, namespace).await?;
        let name = of.get(&uid).copied().unwrap_or("nobody");
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    Ok(counts)
}

/// Returns once the members answer by these weights, within five standard deviations.
async fn until_shared(fleet: &Installed, namespace: &str, weights: [u32; 3]) {
    let total: u32 = weights.iter().sum();
    // The gateway's data plane may be a moment behind its word.
    let look = || async {
        let counts = counted(fleet, namespace).await?;
        for (name, weight) in MEMBERS.iter().zip(weights) {
            let share = f64::from(weight) / f64::from(total);
            let expected = f64::from(REQUESTS) * share;
            let bound = 5.0 * (expected * (1.0 - share)).sqrt();
            let count = counts.get(*name).copied().unwrap_or_default();
            anyhow::ensure!(
                (f64::from(count) - expected).abs() <= bound,
                "{name} answered {count}, not {expected} ± {bound}: {counts:?}"
            );
        }
        anyhow::ensure!(counts.len() == 3, "{counts:?}");
        Ok(())
    };
    e2e::wait::eventually("shares", LATER, look).await.unwrap();
}

#[tokio::test]
async fn three_members_answer_by_their_weights() {
    let fleet = alone().await;
    namespace(&fleet, "shares").await;
    for weights in [[1, 2, 5], [3, 1, 1], [1, 1, 1]] {
        let mut wanted = server("shares", &MEMBERS);
        for (target, weight) in wanted.spec.cluster_targets.iter_mut().zip(weights) {
            target.weight = weight;
        }
        fleet.apply(&wanted).await.unwrap();
        fleet.ready("shares", "hello").await.unwrap();
        until_shared(&fleet, "shares", weights).await;
    }
}
