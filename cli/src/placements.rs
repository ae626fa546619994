//! `placements`: the clusters of a server, worst first, as a table.

use std::fmt::Write as _;

use anyhow::{Context, bail};
use crds::v1alpha1::{ClusterStatus, InferenceServer, Published};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;

const COLUMNS: [&str; 7] = [
    "CLUSTER", "STATE", "REPLICAS", "ENDPOINT", "TRAFFIC", "SINCE", "REASON",
];

/// Show the clusters of an InferenceServer, worst first, with their reasons.
#[derive(Debug, clap::Args)]
pub(crate) struct Placements {
    /// The InferenceServer's name.
    name: String,

    /// Its namespace. The kubeconfig's own when absent.
    #[arg(long, short)]
    namespace: Option<String>,
}

impl Placements {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = crate::hub().await?;
        let namespace = self
            .namespace
            .unwrap_or_else(|| client.default_namespace().to_owned());
        let servers: Api<InferenceServer> = Api::namespaced(client, &namespace);
        let name = &self.name;
        let Some(server) = servers
            .get_opt(name)
            .await
            .with_context(|| format!("read InferenceServer {namespace}/{name}"))?
        else {
            bail!(
                "there is no InferenceServer {namespace}/{name}: `kubectl get inferenceservers -A` lists them"
            );
        };
        print(&table(&server, now()));
        Ok(())
    }
}

/// The clusters as a table, and how many are not in it.
fn table(server: &InferenceServer, now: Timestamp) -> String {
    let status = server.status.clone().unwrap_or_default();
    let header = COLUMNS.map(str::to_owned);
    let rows: Vec<_> = std::iter::once(header)
        .chain(status.clusters.iter().map(|cluster| row(cluster, now)))
        .collect();
    let mut widths = [0; COLUMNS.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            // Writing to a String can't fail.
            let _written = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    // The table begins with clusters that are no targets any more, and the total is of targets.
    let is_target = |cluster: &&ClusterStatus| {
        let mut targets = server.spec.cluster_targets.iter();
        targets.any(|target| target.cluster_id == cluster.cluster_id)
    };
    let shown = status.clusters.iter().filter(is_target).count();
    let shown = u32::try_from(shown).unwrap_or(u32::MAX);
    let more = status.summary.clusters.total.saturating_sub(shown);
    if more > 0 {
        let line = format!("and {more} more clusters that are no worse\n");
        text.push_str(&line);
    }
    text
}

fn row(cluster: &ClusterStatus, now: Timestamp) -> [String; COLUMNS.len()] {
    let endpoint = cluster.endpoint.as_ref();
    let address = endpoint.map_or_else(
        || "-".to_owned(),
        |endpoint| {
            let first = endpoint.addresses.first().map_or("-", String::as_str);
            let more = match endpoint.address_count {
                0 | 1 => String::new(),
                count => format!(" (+{})", count - 1),
            };
            format!("{first}:{}{more}", endpoint.port)
        },
    );
    let traffic = match endpoint.and_then(|endpoint| endpoint.published) {
        Some(Published::Ready) => "yes",
        Some(Published::Draining) => "draining",
        Some(Published::NotReady) | None => "no",
    };
    let reason = if cluster.message.is_empty() {
        cluster.reason.clone()
    } else {
        format!("{}: {}", cluster.reason, cluster.message)
    };
    [
        cluster.cluster_id.clone(),
        format!("{:?}", cluster.state),
        format!("{}/{}", cluster.replicas.ready, cluster.replicas.wanted),
        address,
        traffic.to_owned(),
        age(now.duration_since(cluster.since.0)),
        reason,
    ]
}

/// A duration as kubectl prints ages: its largest unit.
fn age(duration: SignedDuration) -> String {
    match duration.as_secs().max(0) {
        seconds @ ..120 => format!("{seconds}s"),
        seconds @ ..7_200 => format!("{}m", seconds / 60),
        seconds @ ..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a command reads the clock at its edge"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

#[expect(clippy::print_stdout, reason = "the table is this command's result")]
fn print(text: &str) {
    print!("{text}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_is_aligned_and_says_what_it_leaves_out() {
        let server: InferenceServer = serde_json::from_value(json!({
            "apiVersion": "inferfleet.io/v1alpha1",
            "kind": "InferenceServer",
            "metadata": {"name": "llama", "namespace": "team"},
            "spec": {"clusterTargets": [{"clusterId": "east"}, {"clusterId": "west"}], "runtime": {"profile": "echo"}},
            "status": {
                "summary": {"clusters": {"total": 5, "ready": 1, "text": "1/5"}},
                "clusters": [
                    {"clusterId": "former", "state": "Removing", "reason": "Removing",
                     "replicas": {"wanted": 0, "ready": 0}, "since": "2026-01-01T00:59:00Z"},
                    {"clusterId": "west", "state": "Failed", "reason": "Unschedulable", "message": "no node fits",
                     "replicas": {"wanted": 2, "ready": 0}, "since": "2026-01-01T00:00:00Z"},
                    {"clusterId": "east", "state": "Serving", "reason": "Serving",
                     "replicas": {"wanted": 2, "ready": 2}, "since": "2026-01-01T00:58:00Z",
                     "endpoint": {"addresses": ["203.0.113.1"], "addressCount": 3, "port": 80, "published": "Ready"}},
                ],
            },
        }))
        .unwrap();
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        assert_eq!(
            table(&server, now),
            "CLUSTER  STATE     REPLICAS  ENDPOINT             TRAFFIC  SINCE  REASON\n\
             former   Removing  0/0       -                    no       60s    Removing\n\
             west     Failed    0/2       -                    no       60m    Unschedulable: no node fits\n\
             east     Serving   2/2       203.0.113.1:80 (+2)  yes      2m     Serving\n\
             and 3 more clusters that are no worse\n"
        );
    }

    #[test]
    fn an_age_is_told_in_its_largest_unit() {
        for (seconds, told) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7_200, "2h"),
            (172_800, "2d"),
        ] {
            assert_eq!(age(SignedDuration::from_secs(seconds)), told);
        }
    }
}
