//! What a placement is made of and reported by when the cluster makes it hard.

use std::{sync::Arc, time::Duration};

use operator::wake::{Backoff, Next, Wakes};
use proto::v1::{self, agent_message::Body as Said};
use serde_json::json;

use super::{Agent, NOTHING, api_server::ApiServer, body, key, read};
use crate::observe::Caches;

const PATIENCE: Duration = Duration::from_secs(20);

fn placement(said: &[Said]) -> Option<&v1::PlacementReport> {
    said.iter().find_map(|said| {
        let Said::Placement(report) = said else {
            return None;
        };
        Some(report)
    })
}

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
    let report = placement(&said).unwrap();
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

#[tokio::test]
async fn a_passing_error_is_no_refusal() {
    let agent = Agent::new();
    agent.server.refuse("ServerPlacement", 500);
    agent.hear_desired();
    assert_eq!(agent.reconcile().await, (Next::Retry, Next::Rest));
    let said = agent.said();
    assert!(
        !said.iter().any(|said| matches!(said, Said::Refused(_))),
        "{said:?}"
    );
    let report = placement(&said).unwrap();
    assert_eq!((report.generation, report.steps.len()), (1, 4));
    for step in &report.steps {
        assert_eq!(
            (step.verdict(), step.reason.as_str(), step.message.as_str()),
            (
                v1::Verdict::Unknown,
                "ApplyFailed",
                "apply ServerPlacement team-a/llama: no"
            )
        );
    }
    agent.server.refuse("ServerPlacement", 200);
    agent.reconcile().await;
    assert_eq!(agent.report().steps[2].verdict(), v1::Verdict::True);

    // The next value can't be written, and the one before it serves.
    agent.server.refuse("ServerPlacement", 500);
    agent.hear_generation(2, &body().replace("echo:1", "echo:2"));
    assert_eq!(agent.reconcile().await, (Next::Retry, Next::Rest));
    let said = agent.said();
    assert!(!said.iter().any(|said| matches!(said, Said::Endpoint(_))));
    let report = placement(&said).unwrap();
    assert_eq!(
        (report.generation, report.replicas_wanted),
        (2, 1),
        "{report:?}"
    );
    assert_eq!(report.steps[0].reason, "ApplyFailed");
}

#[tokio::test]
async fn what_serves_is_reported_on_though_a_newer_value_is_refused() {
    let agent = Agent::new();
    agent.hear_desired();
    agent.reconcile().await;
    agent.said();
    agent.server.refuse("ServerPlacement", 403);
    agent.hear_generation(2, &body().replace("echo:1", "echo:2"));
    agent.reconcile().await;
    let said = agent.said();
    assert!(said.iter().any(|said| matches!(said, Said::Refused(_))));
    assert_eq!(placement(&said), None, "nothing of it has changed");
}

#[tokio::test]
async fn a_namespace_that_somebody_made_meanwhile_is_left_as_it_is() {
    let mut agent = Agent::over(ApiServer::default(), Caches::default());
    agent.placements.create_namespaces = true;
    agent.server.refuse("Namespace", 403);
    agent.hear_desired();
    assert_eq!(agent.reconcile().await.0, Next::Retry);
    assert_eq!(agent.refusal().0, "NamespaceMissing");
    assert_eq!(agent.server.writes(), NOTHING);
    agent.server.refuse("Namespace", 500);
    assert_eq!(agent.reconcile().await.0, Next::Retry);
    assert_eq!(agent.report().steps[0].reason, "ApplyFailed");
    agent.server.refuse("Namespace", 409);
    assert_eq!(agent.reconcile().await.0, Next::Rest);
    assert_eq!(
        agent.server.writes()[..1],
        ["PATCH ServerPlacement llama"],
        "it was not written to"
    );
}

#[tokio::test]
async fn a_gateway_that_is_silent_on_a_rewritten_route_is_looked_at_again_when_it_is_to_be_doubted()
{
    let agent = Agent::new();
    agent.hear_desired();
    agent.reconcile().await;
    let object = operator::cache::ObjectKey::new("team-a", "llama-traffic-0");
    let mut route = (*agent.caches.routes.get(&object).unwrap()).clone();
    let yes = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": "Because", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        })
    };
    route.metadata.generation = Some(2);
    route.metadata.resource_version = Some("1000".to_owned());
    let entries = route.metadata.managed_fields.as_mut().unwrap();
    entries[0].time = Some(read(json!("1970-01-01T00:00:00Z")));
    entries.push(read(json!({
        "manager": "somebody", "operation": "Update", "time": "1970-01-01T00:16:10Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:hostnames": {}}},
    })));
    route.status = Some(read(json!({"parents": [{
        "controllerName": "example.com/gateway",
        "parentRef": {"namespace": "infra", "name": "public", "sectionName": "http"},
        "conditions": [yes("Accepted"), yes("ResolvedRefs")],
    }]})));
    agent.caches.routes.note(route);
    let due = Next::After(Duration::from_secs(30));
    assert_eq!(agent.reconcile().await, (Next::Rest, due));
    let report = agent.report();
    assert!(report.route_accepted);
    assert_eq!(report.steps[1].reason, "Provisioned");
}
