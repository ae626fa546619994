//! A namespace that goes, with all that an agent made in it.

use super::*;

/// What the watch says of the namespace next.
fn namespace(agent: &Agent, version: u32, going: bool) {
    let mut namespace = json!({"metadata": {
        "name": "team-a", "uid": "n", "resourceVersion": version.to_string(),
    }});
    if going {
        namespace["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    agent.caches.namespaces.note(read(namespace));
}

/// Nothing of the agent's is left in the cluster that it knows; what it told the hub, and what the hub told it, stays.
fn without_objects(agent: &Agent) -> Agent {
    let caches = Caches::default();
    let client = agent.server.client();
    let Serving {
        default_gateway,
        drivers,
        clock,
        ..
    } = &agent.serving;
    Agent {
        placements: Placements {
            client: client.clone(),
            caches: caches.clone(),
            machine: Arc::clone(&agent.machine),
            wishes: Arc::clone(&agent.wishes),
            create_namespaces: true,
            unanswered: Unanswered::default(),
        },
        serving: Serving {
            client,
            caches: caches.clone(),
            machine: Arc::clone(&agent.machine),
            default_gateway: default_gateway.clone(),
            drivers: drivers.clone(),
            clock: *clock,
        },
        server: agent.server.clone(),
        caches,
        machine: Arc::clone(&agent.machine),
        wishes: Arc::clone(&agent.wishes),
    }
}

/// State and reason of each step.
fn steps(report: &v1::PlacementReport) -> Vec<(v1::Verdict, &str)> {
    let steps = report.steps.iter();
    steps
        .map(|step| (step.verdict(), step.reason.as_str()))
        .collect()
}

#[tokio::test]
async fn in_a_namespace_that_goes_nothing_is_made_anew_and_nothing_is_said_to_serve() {
    let agent = Agent::new();
    agent.hear_desired();
    agent.reconcile().await;
    assert_eq!(agent.report().steps[2].verdict(), v1::Verdict::True);
    agent.server.writes();

    let agent = without_objects(&agent);
    namespace(&agent, 2, true);
    assert_eq!(agent.reconcile().await, (Next::Rest, Next::Rest));
    assert_eq!(agent.server.writes(), NOTHING);
    let said = agent.said();
    let refused = said.iter().find_map(|said| {
        let Said::Refused(refused) = said else {
            return None;
        };
        Some((refused.reason.as_str(), refused.message.as_str()))
    });
    let message = "namespace team-a is being deleted";
    assert_eq!(refused, Some(("NamespaceMissing", message)));
    let report = said.iter().find_map(|said| {
        let Said::Placement(report) = said else {
            return None;
        };
        Some(report)
    });
    let report = report.unwrap();
    assert_eq!(steps(report), [(v1::Verdict::False, "NamespaceMissing"); 4]);
    assert!(!report.route_accepted && report.replicas_ready == 0);

    // Each look finds the same, and there is nothing more to say.
    assert_eq!(agent.reconcile().await, (Next::Rest, Next::Rest));
    assert_eq!((agent.said(), agent.server.writes()), (vec![], vec![]));

    // It is made anew: the watch says so.
    namespace(&agent, 3, false);
    agent.reconcile().await;
    assert!(
        agent
            .server
            .writes()
            .contains(&"PATCH ServerPlacement llama".to_owned())
    );
}

#[tokio::test]
async fn what_a_namespace_that_goes_does_not_take_is_tried_by_the_back_off() {
    let agent = Agent::new();
    agent.hear_desired();
    agent.reconcile().await;
    let agent = agent.with_the_placement_alone();
    namespace(&agent, 2, true);
    agent.server.writes();
    for kind in [
        "ConfigMap",
        "ServiceAccount",
        "Deployment",
        "Service",
        "HTTPRoute",
    ] {
        agent.server.refuse(kind, 403);
    }
    agent.hear_desired();
    assert_eq!(agent.reconcile().await, (Next::Rest, Next::Retry));
    assert_eq!(agent.server.writes(), NOTHING);
    let report = agent.report();
    assert_eq!(steps(&report)[0], (v1::Verdict::False, "ApplyRefused"));
    assert!(!report.route_accepted);
}
