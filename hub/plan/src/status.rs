//! The status of a server: its conditions, its clusters worst first, and the strings that columns print.

use std::collections::BTreeMap;

use crds::{
    condition::{self, AVAILABLE, READY, State, VALIDATION, Verdict},
    reason,
    v1alpha1::{
        ClusterCounts, ClusterEndpoint, ClusterState, ClusterStatus, InferenceServer,
        InferenceServerStatus, Published, ReasonCount, ReplicaCounts, ServerState, Summary,
    },
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use crate::{clusters::Cluster, overrides::replicas, placements::is_leaving, revisions};

/// A status names at most this many clusters, so that its size is bounded whatever the fleet's.
const CLUSTERS_MAX: usize = 100;
/// The longest message of a cluster, in bytes.
const MESSAGE_MAX: usize = 512;
/// Addresses that a cluster's entry shows.
const ADDRESSES_MAX: usize = 4;
/// The reasons that are counted.
const REASONS_MAX: usize = 32;

/// The whole status. Times move only with what they speak of, so an unchanged world yields an equal status.
pub fn status(
    server: &InferenceServer,
    clusters: &[Cluster],
    verdicts: &[Verdict],
    now: Timestamp,
) -> InferenceServerStatus {
    let previous = server.status.clone().unwrap_or_default();
    let generation = server.metadata.generation.unwrap_or_default();
    let leaving = is_leaving(server);
    let mut worst_first: Vec<_> = clusters
        .iter()
        .filter(|cluster| cluster.is_left() || (cluster.weight.is_some() && !leaving))
        .collect();
    // Former targets come before all: this list is the hub's memory of them, and it is cut at its end.
    worst_first.sort_by_key(|cluster| {
        (
            cluster.weight.is_some(),
            cluster.state,
            cluster.name.clone(),
        )
    });
    // A former target says nothing of how the server is.
    let targets: Vec<_> = worst_first
        .iter()
        .copied()
        .filter(|cluster| cluster.weight.is_some())
        .collect();
    InferenceServerStatus {
        observed_generation: generation,
        state: state(server, &targets, verdicts),
        profile_revision: revisions::of_runtime(server),
        summary: summary(server, &targets, verdicts),
        conditions: condition::merge(&previous.conditions, verdicts, generation, now),
        clusters: worst_first
            .iter()
            .take(CLUSTERS_MAX)
            .map(|cluster| cluster_status(cluster, &previous.clusters, now))
            .collect(),
    }
}

fn is(verdicts: &[Verdict], kind: &str, state: State) -> bool {
    verdicts
        .iter()
        .any(|verdict| verdict.kind == kind && verdict.state == state)
}

fn state(server: &InferenceServer, clusters: &[&Cluster], verdicts: &[Verdict]) -> ServerState {
    if verdicts
        .iter()
        .any(|verdict| verdict.reason == reason::DECOMMISSIONED)
    {
        ServerState::Decommissioned
    } else if is_leaving(server) {
        ServerState::Deleting
    } else if is(verdicts, READY, State::True) {
        ServerState::Serving
    } else if is(verdicts, AVAILABLE, State::True) {
        ServerState::Degraded
    } else if is(verdicts, VALIDATION, State::False)
        || clusters
            .iter()
            .all(|cluster| cluster.state == ClusterState::Failed)
    {
        ServerState::Failed
    } else {
        ServerState::Creating
    }
}

fn summary(server: &InferenceServer, clusters: &[&Cluster], verdicts: &[Verdict]) -> Summary {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let total = count(clusters.len());
    let ready = count(
        clusters
            .iter()
            .filter(|cluster| cluster.state == ClusterState::Serving)
            .count(),
    );
    let targets = server.spec.cluster_targets.iter();
    let wanted = targets.fold(0u32, |sum, target| {
        sum.saturating_add(replicas(server, target.overrides.as_ref()))
    });
    let replicas_ready = clusters.iter().fold(0u32, |sum, cluster| {
        sum.saturating_add(cluster.replicas.ready)
    });
    Summary {
        clusters: ClusterCounts {
            total,
            ready,
            text: format!("{ready}/{total}"),
        },
        replicas: ReplicaCounts {
            wanted,
            ready: replicas_ready,
            text: format!("{replicas_ready}/{wanted}"),
        },
        reason: reason(clusters, verdicts),
        reasons: reasons(clusters),
    }
}

/// The worst reason, and where: a cluster's, unless it is the hub's own.
fn reason(clusters: &[&Cluster], verdicts: &[Verdict]) -> String {
    let Some(ready) = verdicts.iter().find(|verdict| verdict.kind == READY) else {
        return String::new();
    };
    let place = clusters
        .iter()
        .find(|cluster| ready.state != State::True && cluster.reason == ready.reason);
    match place {
        Some(cluster) => format!("{} ({})", ready.reason, cluster.name),
        None => ready.reason.clone(),
    }
}

/// How many clusters give each reason, most frequent first.
fn reasons(clusters: &[&Cluster]) -> Vec<ReasonCount> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for cluster in clusters
        .iter()
        .filter(|cluster| cluster.state != ClusterState::Serving)
    {
        *counts.entry(&cluster.reason).or_default() += 1;
    }
    let mut counts: Vec<_> = counts
        .into_iter()
        .map(|(reason, clusters)| ReasonCount {
            reason: reason.to_owned(),
            clusters,
        })
        .collect();
    counts.sort_by(|a, b| {
        b.clusters
            .cmp(&a.clusters)
            .then_with(|| a.reason.cmp(&b.reason))
    });
    counts.truncate(REASONS_MAX);
    counts
}

fn cluster_status(cluster: &Cluster, previous: &[ClusterStatus], now: Timestamp) -> ClusterStatus {
    let before = previous
        .iter()
        .find(|status| status.cluster_id == cluster.name.as_str());
    let since = before
        .filter(|status| status.state == cluster.state)
        .map_or(Time(now), |status| status.since.clone());
    let endpoint = (!cluster.addresses.is_empty()).then(|| ClusterEndpoint {
        addresses: cluster
            .addresses
            .iter()
            .take(ADDRESSES_MAX)
            .map(ToString::to_string)
            .collect(),
        address_count: u32::try_from(cluster.addresses.len()).unwrap_or(u32::MAX),
        port: cluster.port,
        published: cluster.remembered.then(|| {
            if cluster.draining_since.is_some() {
                Published::Draining
            } else if cluster.ready {
                Published::Ready
            } else {
                Published::NotReady
            }
        }),
    });
    ClusterStatus {
        cluster_id: cluster.name.as_str().to_owned(),
        state: cluster.state,
        reason: cluster.reason.clone(),
        message: cut(&cluster.message).to_owned(),
        replicas: cluster.replicas,
        endpoint,
        since,
    }
}

/// The beginning of a message that is too long.
fn cut(message: &str) -> &str {
    let end = message.floor_char_boundary(MESSAGE_MAX);
    message.get(..end).unwrap_or_default()
}
