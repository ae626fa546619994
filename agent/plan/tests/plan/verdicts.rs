//! What a person reads: is it well, and if not, why.

use agent_plan::{Kind, Outcome};
use serde_json::json;

use crate::given::{World, entry, shown};

fn all(world: &World) -> Vec<String> {
    world.report().verdicts.iter().map(shown).collect()
}

#[test]
fn all_is_well() {
    let world = World::well();
    assert_eq!(
        all(&world),
        [
            "True Provisioned: ServiceAccount, Deployment and Service are as planned",
            "True Provisioned: Gateway infra/public accepts HTTPRoute llama-traffic-0",
            "True Provisioned: the model list is as planned",
            "True Serving: 2 of 2 replicas ready",
        ]
    );
    let endpoint = world.report().endpoint.unwrap();
    let addresses: Vec<String> = endpoint.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["203.0.113.9", "203.0.113.10"]);
    assert_eq!(endpoint.port, 8080);
}

#[test]
fn what_was_just_written_is_not_judged_by_what_it_was() {
    let mut world = World::well();
    world.deployment.as_mut().unwrap()["metadata"]["generation"] = json!(4);
    world.route.as_mut().unwrap()["metadata"]["generation"] = json!(6);
    world.route.as_mut().unwrap()["status"]["parents"] = json!([entry("http", 5, "False", "True")]);
    let verdicts = all(&world);
    assert!(
        verdicts[1].starts_with("Unknown RoutePending"),
        "{}",
        verdicts[1]
    );
    assert!(
        verdicts[3].starts_with("Unknown Starting: 2 of 2"),
        "{}",
        verdicts[3]
    );
    assert_eq!(world.report().replicas.ready, 2);
}

#[test]
fn a_new_deployment_is_starting_before_its_controller_has_seen_it() {
    let mut world = World::well();
    world.deployment =
        Some(json!({"metadata": {"name": "llama", "namespace": "team-a", "generation": 1}}));
    assert!(world.health().starts_with("Unknown Starting: 0 of 2"));
    world.deployment = None;
    assert!(world.health().starts_with("Unknown Starting: 0 of 2"));
}

#[test]
fn what_is_left_of_a_placement_on_its_way_out_still_counts() {
    let report = World::well().ask(agent_plan::leaving);
    let reasons: Vec<&str> = report
        .verdicts
        .iter()
        .map(|verdict| verdict.reason.as_str())
        .collect();
    assert_eq!(reasons, ["Removing"; 4]);
    assert_eq!(report.replicas.ready, 2);
    assert!(!report.route_accepted);
    assert!(report.endpoint.is_ok());
}

#[test]
fn a_refused_object_is_told_by_its_step_alone() {
    let report = World::well().report_after(|id| match id.kind {
        Kind::Service => Outcome::Refused {
            reason: crds::reason::NAME_CONFLICT,
            message: "Service team-a/llama exists".to_owned(),
        },
        Kind::ServiceAccount => Outcome::Failed("no answer".to_owned()),
        Kind::ConfigMap | Kind::Deployment | Kind::HttpRoute => Outcome::Current,
    });
    let verdicts: Vec<String> = report.verdicts.iter().map(shown).collect();
    assert_eq!(
        verdicts[0],
        "False NameConflict: Service team-a/llama exists"
    );
    assert!(verdicts[1].starts_with("True"));
    assert!(verdicts[3].starts_with("True"));
}

#[test]
fn a_rewrite_of_an_accepted_route_changes_nothing_until_it_is_refused() {
    let mut world = World::well();
    world.route.as_mut().unwrap()["metadata"]["generation"] = json!(6);
    assert!(world.route_verdict().starts_with("True Provisioned"));
    world.route.as_mut().unwrap()["status"]["parents"] = json!([entry("http", 6, "True", "False")]);
    assert!(world.route_verdict().starts_with("False RefsNotResolved"));
}

#[test]
fn an_accepted_route_that_cannot_be_rewritten_still_admits_traffic() {
    let unwritten = |outcome: Outcome| {
        World::well().report_after(|id| match id.kind {
            Kind::HttpRoute => outcome.clone(),
            Kind::ServiceAccount | Kind::ConfigMap | Kind::Deployment | Kind::Service => {
                Outcome::Current
            }
        })
    };
    let failed = unwritten(Outcome::Failed("no answer".to_owned()));
    assert_eq!(shown(&failed.verdicts[1]), "Unknown ApplyFailed: no answer");
    assert!(failed.route_accepted);
    let refused = unwritten(Outcome::Refused {
        reason: crds::reason::APPLY_REFUSED,
        message: "denied".to_owned(),
    });
    assert_eq!(shown(&refused.verdicts[1]), "False ApplyRefused: denied");
    assert!(refused.route_accepted);

    let mut world = World::well();
    world.route = None;
    assert!(!world.report().route_accepted);
}

#[test]
fn refused_pods_are_told_in_the_api_servers_words_within_bounds() {
    let mut world = World::well();
    world.deployment.as_mut().unwrap()["status"] = json!({
        "observedGeneration": 3,
        "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "é".repeat(600)}],
    });
    let verdict = &world.report().verdicts[3];
    assert_eq!(verdict.reason, "PodCreateFailed");
    assert!(
        verdict.message.len() <= 512 && verdict.message.ends_with("é…"),
        "{}",
        verdict.message
    );
}
