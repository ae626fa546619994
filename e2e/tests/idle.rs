//! At rest, hub and agents ask nothing of any API server.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::installed::{NAMESPACE, example};
use e2e::{Cluster, Fleet, Installed, Product};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::Value;

/// How long nothing may be asked.
const REST: Duration = Duration::from_mins(3);
const SOON: Duration = Duration::from_mins(1);

/// Requests of hub and agents from line `from` of a cluster's audit log on, but for lease renewals and open watches.
fn requests(cluster: &Cluster, from: usize) -> Vec<String> {
    let log = std::fs::read_to_string(cluster.audit_log()).unwrap();
    let entries = log
        .lines()
        .skip(from)
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = format!("system:serviceaccount:{NAMESPACE}:");
    // Who acts as another is that other.
    let account = |entry: &Value| {
        let acting = entry["impersonatedUser"]["username"]
            .as_str()
            .or_else(|| entry["user"]["username"].as_str());
        acting.unwrap_or_default().to_owned()
    };
    entries
        .filter(|entry| account(entry).starts_with(&ours))
        .filter(|entry| entry["verb"] != "watch" && !is_renewal(entry))
        .map(|entry| {
            format!(
                "{} {}: {} {}",
                cluster.name(),
                account(&entry),
                entry["verb"],
                entry["requestURI"]
            )
        })
        .collect()
}

/// A lease is renewed by writing it; to read one is a request like any other.
fn is_renewal(entry: &Value) -> bool {
    entry["objectRef"]["resource"] == "leases"
        && (entry["verb"] == "update" || entry["verb"] == "patch")
}

fn lines(cluster: &Cluster) -> usize {
    std::fs::read_to_string(cluster.audit_log())
        .unwrap()
        .lines()
        .count()
}

async fn start() -> anyhow::Result<Installed> {
    let product = tokio::task::spawn_blocking(Product::build).await??;
    let fleet = Fleet::builder()
        .members(2)
        .audit(true)
        .product(&product)
        .start()
        .await?;
    let installed = Installed::install(
        fleet,
        product,
        vec!["east".to_owned(), "west".to_owned()],
        |_, _| {},
    )
    .await?;
    installed.apply(&example("inferenceserver.yaml")?).await?;
    installed.ready("default", "hello").await?;
    Ok(installed)
}

/// A get in the name of a component's own account, which the filter must see.
async fn plant(cluster: &Cluster, component: &str) {
    let account = format!("system:serviceaccount:{NAMESPACE}:{component}");
    let client = cluster.client_as(Some(&account)).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);
    // Neither account may get a Pod; that it asked is what the log tells.
    assert!(pods.get("planted").await.is_err());
}

#[tokio::test]
async fn with_everything_ready_three_minutes_pass_without_a_request() {
    let installed = start().await.unwrap();
    let clusters: Vec<_> = installed.fleet().clusters().iter().collect();
    // What the last change brought with it is over when two looks in a row find nothing new.
    let quiet = || async {
        let before: BTreeMap<_, _> = clusters
            .iter()
            .map(|cluster| (cluster.name(), lines(cluster)))
            .collect();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let asked: Vec<_> = clusters
            .iter()
            .flat_map(|cluster| requests(cluster, before[cluster.name()]))
            .collect();
        anyhow::ensure!(asked.is_empty(), "{asked:?}");
        Ok(())
    };
    e2e::wait::eventually("the last change's end", SOON, quiet)
        .await
        .unwrap();
    let begin: Vec<_> = clusters.iter().map(|cluster| lines(cluster)).collect();
    tokio::time::sleep(REST).await;
    let asked: Vec<_> = clusters
        .iter()
        .zip(&begin)
        .flat_map(|(cluster, from)| requests(cluster, *from))
        .collect();
    assert!(asked.is_empty(), "{asked:#?}");

    for (cluster, component) in
        clusters
            .iter()
            .zip(["inferfleet-hub", "inferfleet-agent", "inferfleet-agent"])
    {
        let before = lines(cluster);
        plant(cluster, component).await;
        let seen = || async {
            let asked = requests(cluster, before);
            anyhow::ensure!(
                asked.iter().any(|line| line.contains("planted")),
                "{asked:?}"
            );
            Ok(())
        };
        e2e::wait::eventually("the planted get", SOON, seen)
            .await
            .unwrap();
    }
}
