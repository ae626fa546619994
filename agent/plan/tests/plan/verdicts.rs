//! What a person reads: is it well, and if not, why.

use agent_plan::{Kind, ObjectId, Outcome, Outcomes, Report, unwritten};
use crds::condition::State;
use proptest::prelude::*;
use serde_json::json;

use crate::given::{World, entry, shown};

const REFUSED: Outcome = Outcome::Refused {
    reason: crds::reason::NAME_CONFLICT,
    message: String::new(),
};

/// The report after this became of the objects of one kind, and all else is as planned.
fn after(world: &World, kind: Kind, outcome: &Outcome) -> Report {
    world.report_after(|id| {
        let is_of_kind = id.kind == kind;
        if is_of_kind {
            outcome.clone()
        } else {
            Outcome::Current
        }
    })
}

/// The report when nothing was tried yet.
fn before_any_write(world: &World) -> Report {
    world.judged(&world.plan(), &Outcomes::new())
}

fn all(world: &World) -> Vec<String> {
    world.report().verdicts.iter().map(shown).collect()
}

#[test]
fn all_is_well() {
    let world = World::well();
    assert_eq!(
        all(&world),
        [
            "True Provisioned: ServiceAccount, Deployment, Service and PodDisruptionBudget are as planned",
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
        verdicts[3].starts_with("Unknown StartingBackend: 2 of 2"),
        "{}",
        verdicts[3]
    );
    assert_eq!(world.report().replicas.ready, 2);
}

#[test]
fn what_is_left_of_a_placement_on_its_way_out_still_counts() {
    let report = World::well().leaving();
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
            Kind::ServiceAccount
            | Kind::ConfigMap
            | Kind::Deployment
            | Kind::Service
            | Kind::PodDisruptionBudget => Outcome::Current,
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
fn verdicts_come_in_the_order_of_their_steps() {
    let steps = [
        "BackendProvision",
        "TrafficRouteProvision",
        "ModelConfigProvision",
        "HealthCheck",
    ];
    let world = World::well();
    assert_eq!(world.report().verdicts.map(|verdict| verdict.kind), steps);
    let leaving = world.leaving();
    assert_eq!(leaving.verdicts.map(|verdict| verdict.kind), steps);
    assert_eq!(unwritten("no").map(|verdict| verdict.kind), steps);
}

#[test]
fn what_was_not_tried_yet_is_still_to_be_applied() {
    let verdicts = before_any_write(&World::well()).verdicts;
    assert_eq!(
        [0, 1, 2].map(|step: usize| shown(&verdicts[step])),
        [
            "Unknown Applying: ServiceAccount llama is still to be applied",
            "Unknown Applying: HTTPRoute llama-traffic-0 is still to be applied",
            "Unknown Applying: ConfigMap llama-model-config is still to be applied",
        ]
    );
}

#[test]
fn replicas_are_not_judged_before_their_deployment_is_as_planned() {
    let expected =
        "Unknown StartingBackend: 2 of 2 replicas ready; the Deployment is not yet as planned";
    let world = World::well();
    assert_eq!(shown(&before_any_write(&world).verdicts[3]), expected);
    for outcome in [REFUSED, Outcome::Failed("no answer".to_owned())] {
        let report = after(&world, Kind::Deployment, &outcome);
        assert_eq!(shown(&report.verdicts[3]), expected);
    }
}

#[test]
fn each_refused_object_fails_the_step_it_belongs_to_and_no_other() {
    for (kind, failed) in [
        (Kind::ServiceAccount, 0),
        (Kind::Service, 0),
        (Kind::HttpRoute, 1),
        (Kind::ConfigMap, 2),
    ] {
        let verdicts = after(&World::well(), kind, &REFUSED).verdicts;
        for (step, verdict) in verdicts.iter().enumerate() {
            let expected = if step == failed {
                State::False
            } else {
                State::True
            };
            assert_eq!(verdict.state, expected, "{kind:?} {step}");
        }
    }
}

#[test]
fn a_refusal_is_told_before_a_failure_that_may_pass() {
    let refused = Outcome::Refused {
        reason: crds::reason::NAME_CONFLICT,
        message: "Service team-a/llama exists".to_owned(),
    };
    let report = World::well().report_after(|id| match id.kind {
        Kind::Service => refused.clone(),
        Kind::ServiceAccount => Outcome::Failed("no answer".to_owned()),
        Kind::ConfigMap | Kind::Deployment | Kind::PodDisruptionBudget | Kind::HttpRoute => {
            Outcome::Current
        }
    });
    assert_eq!(
        shown(&report.verdicts[0]),
        "False NameConflict: Service team-a/llama exists"
    );
}

#[test]
fn a_failure_that_may_pass_is_unknown_in_its_own_words() {
    let outcome = Outcome::Failed("no answer".to_owned());
    let report = after(&World::well(), Kind::ConfigMap, &outcome);
    assert_eq!(shown(&report.verdicts[2]), "Unknown ApplyFailed: no answer");
}

#[test]
fn a_route_that_is_gone_since_it_was_written_is_pending() {
    let mut world = World::well();
    world.route = None;
    assert_eq!(
        world.route_verdict(),
        "Unknown RoutePending: the route or its Gateway has changed since it was written"
    );
}

#[test]
fn a_gateway_that_is_gone_since_the_route_was_written_is_pending() {
    let (planned, mut world) = (World::well().plan(), World::well());
    world.gateway = None;
    let outcomes: Outcomes = planned
        .objects
        .iter()
        .map(|object| (object.id(), Outcome::Current))
        .collect();
    let report = world.judged(&planned, &outcomes);
    assert_eq!(
        shown(&report.verdicts[1]),
        "Unknown RoutePending: the route or its Gateway has changed since it was written"
    );
}

#[test]
fn a_new_deployment_is_starting_before_its_controller_has_seen_it() {
    let mut world = World::well();
    world.deployment =
        Some(json!({"metadata": {"name": "llama", "namespace": "team-a", "generation": 1}}));
    assert_eq!(
        world.health(),
        "Unknown StartingBackend: 0 of 2 replicas ready; the Deployment controller has not seen the newest revision"
    );
}

#[test]
fn a_deployment_that_is_gone_since_it_was_written_has_no_replica() {
    let mut world = World::well();
    world.deployment = None;
    assert_eq!(
        world.health(),
        "Unknown StartingBackend: 0 of 2 replicas ready; the Deployment is not yet as planned"
    );
    assert_eq!(world.report().replicas.ready, 0);
}

#[test]
fn a_placement_on_its_way_out_says_so_in_every_step() {
    for verdict in World::well().leaving().verdicts {
        assert_eq!(
            shown(&verdict),
            "Unknown Removing: the ServerPlacement is being deleted, and all that it owns"
        );
    }
}

#[test]
fn a_placement_on_its_way_out_admits_no_traffic_though_its_route_is_accepted() {
    let world = World::well();
    assert!(world.report().route_accepted);
    assert!(!world.leaving().route_accepted);
}

#[test]
fn a_placement_that_could_not_be_written_says_why_in_every_step() {
    for verdict in unwritten("no answer") {
        assert_eq!(shown(&verdict), "Unknown ApplyFailed: no answer");
    }
}

#[test]
fn a_message_of_512_bytes_is_told_whole_and_a_longer_one_is_cut() {
    let message = |length: usize| unwritten(&"a".repeat(length))[0].message.clone();
    assert_eq!(message(512), "a".repeat(512));
    assert_eq!(message(513), format!("{}…", "a".repeat(509)));
}

#[test]
fn a_message_is_cut_between_characters() {
    let message = unwritten(&"é".repeat(257))[0].message.clone();
    assert_eq!(message, format!("{}…", "é".repeat(254)));
}

#[test]
fn what_the_api_server_says_of_pods_is_told_within_bounds() {
    let mut world = World::well();
    world.deployment.as_mut().unwrap()["status"] = json!({
        "observedGeneration": 3,
        "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "é".repeat(600)}],
    });
    let message = &world.report().verdicts[3].message;
    assert!(message.len() <= 512 && message.ends_with("é…"), "{message}");
}

#[test]
fn why_there_is_no_endpoint_is_told_within_bounds() {
    let mut world = World::well();
    world.address(json!([{"type": "Hostname", "value": "h".repeat(600)}]));
    let refusal = world.report().endpoint.unwrap_err();
    assert_eq!((refusal.message.len(), refusal.reason), (512, "NoAddress"));
    let refusal = world.leaving().endpoint.unwrap_err();
    assert_eq!(refusal.message.len(), 512);
}

/// Any of the outcomes that an object can have, also none.
fn outcome() -> impl Strategy<Value = Option<Outcome>> {
    prop_oneof![
        Just(None),
        Just(Some(Outcome::Current)),
        Just(Some(REFUSED)),
        Just(Some(Outcome::Failed(String::new()))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_step_is_done_only_when_all_its_objects_are(outcomes in proptest::array::uniform6(outcome())) {
        let world = World::well();
        let plan = world.plan();
        let ids: Vec<ObjectId> = plan.objects.iter().map(agent_plan::Object::id).collect();
        prop_assert_eq!(ids.len(), outcomes.len());
        let outcomes: Outcomes = ids
            .into_iter()
            .zip(outcomes)
            .filter_map(|(id, outcome)| Some((id, outcome?)))
            .collect();
        let report = world.judged(&plan, &outcomes);
        let current = |kinds: &[Kind]| {
            kinds.iter().all(|kind| {
                outcomes.iter().any(|(id, outcome)| id.kind == *kind && *outcome == Outcome::Current)
            })
        };
        let done = report.verdicts.map(|verdict| verdict.state == State::True);
        prop_assert_eq!(done, [
            current(&[Kind::ServiceAccount, Kind::Deployment, Kind::Service, Kind::PodDisruptionBudget]),
            current(&[Kind::HttpRoute]),
            current(&[Kind::ConfigMap]),
            current(&[Kind::Deployment]),
        ]);
    }
}
