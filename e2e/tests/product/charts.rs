//! Charts that are clean, and objects that API servers take.

use e2e::installed::chart;
use e2e::{Cluster, Installed};

use super::shared;

const AGENT: [&str; 3] = [
    "--set=hub.address=192.0.2.1:8443",
    "--set=hub.ca=-----BEGIN CERTIFICATE-----",
    "--set=hub.token=token",
];

/// The clusters in which a chart is installed, and the values that it can't do without.
fn all(installed: &Installed) -> [(&str, &Cluster, &'static [&'static str]); 3] {
    [
        ("inferfleet-crds", installed.hub(), &[]),
        (
            "inferfleet-hub",
            installed.hub(),
            &["--set=gateway.namespace=infra", "--set=gateway.name=public"],
        ),
        (
            "inferfleet-agent",
            installed.member("east").unwrap(),
            &AGENT,
        ),
    ]
}

#[tokio::test]
async fn helm_lint_finds_nothing() {
    let fleet = shared().await;
    for (name, cluster, values) in all(&fleet) {
        let path = chart(name).to_string_lossy().into_owned();
        let mut args = vec!["lint", "--strict", &path];
        args.extend(values);
        let said = cluster.helm(&args).await.unwrap();
        assert!(said.contains("0 chart(s) failed"), "{name}: {said}");
    }
}

#[tokio::test]
async fn an_api_server_takes_every_object_of_each_chart() {
    let fleet = shared().await;
    for (name, cluster, values) in all(&fleet) {
        let path = chart(name).to_string_lossy().into_owned();
        let mut args = vec![
            "template",
            name,
            &path,
            "--namespace",
            e2e::installed::NAMESPACE,
        ];
        args.extend(values);
        let manifest = cluster.helm(&args).await.unwrap();
        let dry_run = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "--dry-run=server",
            "-f",
            "-",
        ];
        let taken = cluster.kubectl_with(&dry_run, &manifest).await.unwrap();
        let objects = manifest
            .lines()
            .filter(|line| line.starts_with("kind: "))
            .count();
        assert_eq!(taken.lines().count(), objects, "{name}: {taken}");
    }
}

#[tokio::test]
async fn an_agents_chart_without_its_invitation_says_what_to_do() {
    let fleet = shared().await;
    let path = chart("inferfleet-agent").to_string_lossy().into_owned();
    let refused = fleet
        .hub()
        .helm(&["template", "agent", &path])
        .await
        .unwrap_err();
    assert!(
        format!("{refused:#}").contains("kubectl inferfleet join"),
        "{refused:#}"
    );
}
