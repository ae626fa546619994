//! The way out: what goes first, and who is waited for.

use hub_plan::facts::{ClusterFacts, Kind, Membership};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::given::{Given, condition, healthy, now};

fn deleting() -> Given {
    let mut given = healthy();
    given.server.metadata.deletion_timestamp = Some(Time(now()));
    given
}

#[test]
fn the_route_goes_first_and_nothing_is_ready_any_more() {
    let plan = deleting().plan();
    assert!(plan.routes.is_empty());
    assert_eq!(
        plan.surplus.first().map(|reference| reference.kind),
        Some(Kind::Route)
    );
    let ready = plan
        .slices
        .iter()
        .flat_map(|slice| &slice.endpoints)
        .filter_map(|endpoint| endpoint.conditions.as_ref());
    assert!(
        ready.clone().count() > 0
            && ready
                .clone()
                .all(|conditions| conditions.ready == Some(false))
    );
}

#[test]
fn the_server_is_released_when_every_member_has_confirmed() {
    let mut given = deleting();
    assert!(!given.plan().release);
    given.cluster("east").gone = true;
    let plan = given.plan();
    assert!(!plan.release);
    assert_eq!(condition(&plan.status, "Ready"), "False Deleting");
    assert!(
        plan.status.conditions[0].message.contains("west"),
        "{}",
        plan.status.conditions[0].message
    );
    given.cluster("west").gone = true;
    assert!(given.plan().release);
}

#[test]
fn a_member_that_is_away_is_waited_for_and_named() {
    let mut given = deleting();
    given.cluster("east").gone = true;
    *given.cluster("west") = ClusterFacts {
        membership: Membership::Joined,
        ..ClusterFacts::default()
    };
    let plan = given.plan();
    assert!(!plan.release);
    assert_eq!(plan.status.summary.reason, "Deleting");
    assert_eq!(
        (
            plan.status.clusters[0].cluster_id.as_str(),
            plan.status.clusters[0].reason.as_str()
        ),
        ("west", "ClusterNotConnected")
    );
}

#[test]
fn a_cluster_that_nobody_can_speak_for_is_not_waited_for() {
    for membership in [Membership::Absent, Membership::Invited] {
        let mut given = deleting();
        given.cluster("east").gone = true;
        *given.cluster("west") = ClusterFacts {
            membership,
            ..ClusterFacts::default()
        };
        assert!(given.plan().release, "{membership:?}");
    }
}

#[test]
fn conditions_of_creation_go_and_ready_and_available_stay() {
    let status = deleting().plan().status;
    let kinds: Vec<_> = status
        .conditions
        .iter()
        .map(|condition| condition.type_.as_str())
        .collect();
    assert_eq!(kinds, ["Ready", "Available"]);
    assert_eq!(serde_json::to_value(status.state).unwrap(), "Deleting");
}

#[test]
fn a_server_that_is_not_deleted_is_never_released() {
    let mut given = healthy();
    given.cluster("east").gone = true;
    given.cluster("west").gone = true;
    assert!(!given.plan().release);
}

#[test]
fn a_server_on_its_way_out_gets_nothing_new() {
    let mut given = deleting();
    given
        .observed
        .slices
        .retain(|slice| slice.metadata.name.as_deref() != Some("llama-endpoints-west-ipv4-0"));
    let plan = given.plan();
    let names: Vec<_> = plan
        .slices
        .iter()
        .filter_map(|slice| slice.metadata.name.as_deref())
        .collect();
    assert_eq!(names, ["llama-endpoints-east-ipv4-0"]);
}

#[test]
fn what_is_going_already_is_not_deleted_again() {
    let mut given = deleting();
    let mut route = given.observed.routes[0].as_ref().clone();
    route.metadata.deletion_timestamp = Some(Time(now()));
    given.observed.routes = vec![std::sync::Arc::new(route)];
    assert!(given.plan().surplus.is_empty());
}

#[test]
fn a_former_target_that_is_away_stays_in_the_status_and_is_waited_for() {
    let mut given = healthy();
    given.server.spec.cluster_targets.pop();
    *given.cluster("west") = ClusterFacts {
        membership: Membership::Joined,
        ..ClusterFacts::default()
    };
    let status = given.plan().status;
    let first = &status.clusters[0];
    assert_eq!(
        (first.cluster_id.as_str(), first.reason.as_str()),
        ("west", "ClusterNotConnected")
    );
    assert_eq!(status.summary.clusters.total, 1);
    given.server.metadata.deletion_timestamp = Some(Time(now()));
    given.cluster("east").gone = true;
    assert!(!given.plan().release);
}
