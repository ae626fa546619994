//! At rest, hub and agents ask nothing of any API server.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use e2e::audit::{self, Mark, Request};
use e2e::installed::{NAMESPACE, example};
use e2e::{Cluster, Fleet, Installed, Product};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;

/// How long nothing may be asked.
const REST: Duration = Duration::from_mins(3);
const SOON: Duration = Duration::from_mins(1);

/// What hub and agents have asked since, but for lease renewals and open watches.
fn asked(cluster: &Cluster, since: Mark) -> Vec<String> {
    let requests = audit::since(cluster, since).unwrap().into_iter();
    requests
        .filter(|request| request.is_ours() && !request.is_rest())
        .map(|request| {
            let Request {
                user, verb, uri, ..
            } = request;
            format!("{} {user}: {verb} {uri}", cluster.name())
        })
        .collect()
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
    let marks = || -> Vec<Mark> {
        let marks = clusters.iter().map(|cluster| audit::mark(cluster).unwrap());
        marks.collect()
    };
    let since = |marks: Vec<Mark>| -> Vec<String> {
        let pairs = clusters.iter().zip(marks);
        pairs
            .flat_map(|(cluster, mark)| asked(cluster, mark))
            .collect()
    };
    // What the last change brought with it is over when two looks in a row find nothing new.
    let quiet = || async {
        let before = marks();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let asked = since(before);
        anyhow::ensure!(asked.is_empty(), "{asked:?}");
        Ok(())
    };
    e2e::wait::eventually("the last change's end", SOON, quiet)
        .await
        .unwrap();
    let begin = marks();
    tokio::time::sleep(REST).await;
    let asked_at_rest = since(begin);
    assert!(asked_at_rest.is_empty(), "{asked_at_rest:#?}");

    for (cluster, component) in
        clusters
            .iter()
            .zip(["inferfleet-hub", "inferfleet-agent", "inferfleet-agent"])
    {
        let before = audit::mark(cluster).unwrap();
        plant(cluster, component).await;
        let seen = || async {
            let asked = asked(cluster, before);
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
