//! What a placement is made of and reported by when the cluster makes it hard.

use std::{sync::Arc, time::Duration};

use operator::wake::{Backoff, Next, Wakes};
use proto::v1::agent_message::Body as Said;
use serde_json::json;

use super::{Agent, NOTHING, key, read};

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn what_is_held_is_reported_before_a_write_that_hangs() {
    let agent = Agent::new();
    agent.hear_desired();
    agent.reconcile().await;
    let before = agent.report();
    let service = operator::cache::ObjectKey::new("team-a", "llama");
    let mut changed = (*agent.caches.services.get(&service).unwrap()).clone();
    changed.metadata.managed_fields = None;
    changed.metadata.resource_version = Some("1000".to_owned());
    agent.caches.services.note(changed);
    agent.server.hang("Service");

    let Agent { server, caches, .. } = agent;
    let agent = Agent::over(server, caches);
    let heard = async {
        loop {
            let said = agent.said();
            if said
                .iter()
                .any(|said| matches!(said, Said::ReportsComplete(_)))
            {
                break said;
            }
            tokio::task::yield_now().await;
        }
    };
    let said = tokio::select! {
        _written = agent.reconcile() => panic!("the write has hung"),
        said = tokio::time::timeout(PATIENCE, heard) => said.unwrap(),
    };
    let report = said.iter().find_map(|said| match said {
        Said::Placement(report) => Some(report),
        _ => None,
    });
    let report = report.unwrap();
    assert_eq!(report.steps[0].reason, "Applying");
    assert_eq!(report.steps[1..], before.steps[1..]);
}

#[tokio::test]
async fn a_forged_owner_in_another_namespace_deletes_nothing() {
    let agent = Agent::new();
    agent.hear_desired();
    agent.reconcile().await;
    agent.server.writes();
    let service = |namespace: &str, uid: &str, owner: &str| {
        read(json!({"metadata": {
            "name": "llama-old", "namespace": namespace, "uid": uid, "resourceVersion": "1",
            "ownerReferences": [{
                "apiVersion": "inferfleet.io/v1alpha1", "kind": "ServerPlacement", "name": "llama", "uid": owner, "controller": true,
            }],
        }}))
    };
    // The victim's belongs to another placement of its namespace.
    agent
        .caches
        .services
        .note(service("evil", "forged", "uid-1"));
    agent
        .caches
        .services
        .note(service("team-a", "victim", "uid-of-another"));
    assert_eq!(agent.reconcile().await, (Next::Rest, Next::Rest));
    assert_eq!(agent.server.writes(), NOTHING);

    agent.caches.services.note(read(json!({"metadata": {
        "name": "llama-older", "namespace": "team-a", "uid": "ours", "resourceVersion": "1",
        "ownerReferences": [{
            "apiVersion": "inferfleet.io/v1alpha1", "kind": "ServerPlacement", "name": "llama", "uid": "uid-1", "controller": true,
        }],
    }})));
    agent.reconcile().await;
    assert_eq!(
        agent.server.writes(),
        ["DELETE services llama-older uid=ours Background"]
    );
}

#[tokio::test]
async fn every_placement_is_looked_at_when_the_gateway_api_goes() {
    let agent = Agent::new();
    agent.hear_desired();
    agent.reconcile().await;
    let wakes = Arc::new(Wakes::default());
    let follow = crate::observe::follow_gateway_api(&agent.caches, &wakes);
    // This API server has no Gateways to list.
    let api = kube::Api::all(agent.server.client());
    let watch =
        agent
            .caches
            .gateways
            .clone()
            .run(api, kube::runtime::watcher::Config::default(), |_| {});
    let (woken, mut looked_at) = tokio::sync::mpsc::channel(1);
    let work = |key| {
        let woken = woken.clone();
        async move {
            woken.send(key).await.unwrap();
            Next::Rest
        }
    };
    let looked_at = tokio::time::timeout(PATIENCE, looked_at.recv());
    let looked_at = tokio::select! {
        () = follow => panic!("it has ended"),
        () = watch => panic!("the watch has ended"),
        () = wakes.run(1, Backoff::default(), work) => panic!("the loop has ended"),
        looked_at = looked_at => looked_at.unwrap(),
    };
    assert_eq!(looked_at, Some(key()));
    assert!(!agent.caches.has_gateway_api());
}
