//! What a person reads: is it well, and if not, why.

use agent_plan::{Kind, Outcome};
use serde_json::json;

use crate::given::{World, entry, pod, shown};

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
fn scaled_to_zero_is_not_down() {
    let mut world = World::well();
    world.placement["spec"]["replicas"] = json!(0);
    world.deployment.as_mut().unwrap()["status"] = json!({"observedGeneration": 3});
    assert!(world.health().starts_with("True ScaledToZero"));
}

#[test]
fn a_roll_out_is_over_when_no_older_replica_is_left() {
    let mut world = World::well();
    let status = &mut world.deployment.as_mut().unwrap()["status"];
    *status =
        json!({"observedGeneration": 3, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 2});
    assert_eq!(
        world.health(),
        "Unknown Starting: 2 of 2 replicas ready; 1 of 2 are of the newest revision"
    );
    world.deployment.as_mut().unwrap()["status"]["observedGeneration"] = json!(2);
    assert_eq!(
        world.health(),
        "Unknown Starting: 2 of 2 replicas ready; the Deployment controller has not seen the newest revision"
    );
    assert_eq!(world.report().replicas.ready, 2);
}

#[test]
fn a_replica_that_is_not_ready_has_a_reason_one_can_act_on() {
    let waiting = |reason: &str, message: &str| {
        json!({"containerStatuses": [{
            "name": "server", "image": "echo:1", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": message}},
        }]})
    };
    let crashed = json!({"containerStatuses": [{
        "name": "server", "image": "echo:1", "imageID": "", "ready": false, "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
    }]});
    let unschedulable = json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu.",
    }]});
    for (status, expected) in [
        (json!({}), "Unknown Starting: 1 of 2 replicas ready"),
        (
            waiting("CreateContainerConfigError", "secret not found"),
            "Unknown Starting: 1 of 2 replicas ready; Pod p: CreateContainerConfigError: secret not found",
        ),
        (
            waiting("ImagePullBackOff", "Back-off pulling image"),
            "False ImagePullFailed: 1 of 2 replicas ready; Pod p can't have image echo:1: ImagePullBackOff Back-off pulling image",
        ),
        (
            crashed,
            "False CrashLoop: 1 of 2 replicas ready; Pod p, container server: ended with exit code 137 after 4 restarts: OOMKilled",
        ),
        (
            unschedulable,
            "False Unschedulable: 1 of 2 replicas ready; Pod p: 0/3 nodes are available: 3 Insufficient cpu.",
        ),
    ] {
        let mut world = World::well();
        world.deployment.as_mut().unwrap()["status"]["readyReplicas"] = json!(1);
        world.pods = vec![pod("p", &status)];
        assert_eq!(world.health(), expected);
    }
}

#[test]
fn pods_of_others_and_those_that_leave_give_no_reason() {
    let image = json!({"containerStatuses": [{
        "name": "server", "image": "echo:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull"}},
    }]});
    let mut others = pod("other", &image);
    others["metadata"]["ownerReferences"][0]["name"] = json!("elsewhere-abc");
    let mut leaving = pod("leaving", &image);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut world = World::well();
    world.deployment.as_mut().unwrap()["status"]["readyReplicas"] = json!(1);
    world.pods = vec![others, leaving];
    assert_eq!(world.health(), "Unknown Starting: 1 of 2 replicas ready");
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
