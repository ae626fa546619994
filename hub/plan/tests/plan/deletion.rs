//! The way out: what goes first, and who is waited for.

use std::sync::Arc;

use hub_plan::facts::{ClusterFacts, Kind, Membership, Reference};
use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::Time};

use crate::given::{Given, condition, healthy, now, server};

pub(crate) fn deleting() -> Given {
    let mut given = healthy();
    given.server.metadata.deletion_timestamp = Some(Time(now()));
    given
}

#[test]
fn the_route_goes_first_and_nothing_is_ready_any_more() {
    let (mut given, before) = (deleting(), healthy().plan());
    let plan = given.plan();
    assert!(plan.routes.is_empty());
    let kinds: Vec<_> = plan.surplus.iter().map(|surplus| surplus.kind).collect();
    assert_eq!(kinds, [Kind::Route]);
    assert_eq!(plan.slices, before.slices, "a route leads there");
    given.observed.routes.clear();
    let plan = given.plan();
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
        silent_since: Some(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
        ..ClusterFacts::default()
    };
    let plan = given.plan();
    assert!(!plan.release);
    assert_eq!(plan.status.summary.reason, "Deleting");
    let said =
        "west can't be heard since 1970-01-01T00:00:00Z; its part is removed when it comes back";
    assert_eq!(plan.status.clusters[0].message, said);
    let ready = &plan.status.conditions[0].message;
    assert!(ready.contains("west"), "{ready}");
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
    assert_eq!(kinds, ["Ready", "Available", "RouteCleanup", "Cleanup"]);
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
    given.observed.routes = vec![Arc::new(route)];
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

/// Clusters of two weights, each with a Service of its own, all of it applied.
fn weighted() -> Given {
    let mut given = healthy();
    given.server = server(&[("east", 3), ("west", 1)]);
    given.apply();
    given
}

/// `kind name uid`, in order.
fn shown(references: &[Reference]) -> Vec<String> {
    let each = references.iter();
    each.map(|reference| format!("{:?} {} {}", reference.kind, reference.name, reference.uid))
        .collect()
}

/// What is to go now.
fn surplus(given: &Given) -> Vec<String> {
    shown(&given.plan().surplus)
}

/// What is to go once the routes are as planned.
fn retired(given: &Given) -> Vec<String> {
    shown(&given.plan().retired.surplus)
}

#[test]
fn a_service_that_is_gone_is_not_made_anew_on_the_way_out() {
    let mut given = weighted();
    given.server.metadata.deletion_timestamp = Some(Time(now()));
    let is_of_east =
        |service: &Arc<Service>| service.metadata.name.as_deref() == Some("llama-endpoints-w3");
    given
        .observed
        .services
        .retain(|service| !is_of_east(service));
    let plan = given.plan();
    let names: Vec<_> = plan
        .services
        .iter()
        .map(|service| service.metadata.name.as_deref())
        .collect();
    assert_eq!(names, [Some("llama-endpoints"), Some("llama-endpoints-w1")]);
}

#[test]
fn what_is_being_deleted_already_is_not_written_on_the_way_out() {
    let mut given = deleting();
    Arc::make_mut(&mut given.observed.services[0])
        .metadata
        .deletion_timestamp = Some(Time(now()));
    Arc::make_mut(&mut given.observed.slices[0])
        .metadata
        .deletion_timestamp = Some(Time(now()));
    let plan = given.plan();
    assert!(plan.services.is_empty());
    let names: Vec<_> = plan
        .slices
        .iter()
        .map(|slice| slice.metadata.name.as_deref())
        .collect();
    assert_eq!(names, [Some("llama-endpoints-west-ipv4-0")]);
}

#[test]
fn a_server_on_its_way_out_keeps_services_and_slices_until_it_goes() {
    let mut given = deleting();
    given.observed.routes.clear();
    let plan = given.plan();
    assert_eq!((plan.services.len(), plan.slices.len()), (1, 2));
    assert!(plan.surplus.is_empty());
}

#[test]
fn a_server_on_its_way_out_still_says_which_clusters_serve() {
    let mut given = deleting();
    given.observed.routes.clear();
    for slice in given.plan().slices {
        let conditions = slice.endpoints[0].conditions.as_ref().unwrap();
        assert_eq!(
            (conditions.ready, conditions.serving),
            (Some(false), Some(true))
        );
    }
}

#[test]
fn classes_that_are_gone_take_slices_then_services_with_them_by_uid() {
    let mut given = weighted();
    for service in &mut given.observed.services {
        let metadata = &mut Arc::make_mut(service).metadata;
        metadata.uid = metadata.name.as_ref().map(|name| format!("uid-of-{name}"));
    }
    given.server = server(&[("east", 1), ("west", 1)]);
    assert_eq!(surplus(&given), [""; 0], "a route may lead there");
    assert_eq!(retired(&given), [""; 0], "the live route names them");
    let going = Arc::make_mut(&mut given.observed.routes[0]);
    going.metadata.deletion_timestamp = Some(Time(now()));
    assert_eq!(retired(&given), [""; 0], "it does until it is gone");
    given.observed.routes = given.plan().routes.into_iter().map(Arc::new).collect();
    assert_eq!(
        retired(&given),
        [
            "Slice llama-endpoints-w1.west-ipv4-0 ",
            "Slice llama-endpoints-w3.east-ipv4-0 ",
            "Service llama-endpoints-w1 uid-of-llama-endpoints-w1",
            "Service llama-endpoints-w3 uid-of-llama-endpoints-w3",
        ]
    );
}

#[test]
fn a_service_that_is_no_more_is_kept_right_while_a_route_may_lead_there() {
    let mut given = weighted();
    given.server = server(&[("east", 1), ("west", 1)]);
    given.placement("east").replicas.ready = 0;
    let east = given.cluster("east").endpoint.as_mut().unwrap();
    east.addresses = vec!["203.0.113.9".to_owned()];
    let slices = given.plan().retired.slices;
    let said: Vec<_> = slices
        .iter()
        .map(|slice| {
            let endpoint = &slice.endpoints[0];
            let ready = endpoint.conditions.as_ref().unwrap().ready.unwrap();
            format!("{} {}", endpoint.addresses[0], ready)
        })
        .collect();
    assert_eq!(said, ["203.0.113.2 true", "203.0.113.9 false"]);
}

#[test]
fn what_leads_nowhere_goes_at_once_and_a_service_that_a_route_may_name_does_not() {
    let mut given = weighted();
    given.server.metadata.namespace = Some("cluster".to_owned());
    given.clusters.clear();
    let kinds = |references: Vec<Reference>| -> Vec<_> {
        let each = references.into_iter();
        each.map(|reference| reference.kind).collect()
    };
    let plan = given.plan();
    // The common Service stays, empty.
    assert_eq!(
        kinds(plan.surplus),
        [&[Kind::Route][..], &[Kind::Slice; 4]].concat()
    );
    assert_eq!(kinds(plan.retired.surplus), []);
    given.observed.routes.clear();
    assert_eq!(kinds(given.plan().retired.surplus), [Kind::Service; 2]);
}

#[test]
fn what_is_being_deleted_is_not_surplus_again() {
    let mut given = weighted();
    given.server = server(&[("east", 1), ("west", 1)]);
    for slice in &mut given.observed.slices {
        Arc::make_mut(slice).metadata.deletion_timestamp = Some(Time(now()));
    }
    for service in &mut given.observed.services {
        Arc::make_mut(service).metadata.deletion_timestamp = Some(Time(now()));
    }
    assert_eq!(surplus(&given), [""; 0]);
    assert_eq!(retired(&given), [""; 0]);
}

#[test]
fn a_part_that_is_gone_is_no_longer_in_the_status_of_a_server_on_its_way_out() {
    let mut given = deleting();
    given.cluster("east").gone = true;
    let status = given.plan().status;
    let clusters: Vec<_> = status
        .clusters
        .iter()
        .map(|status| status.cluster_id.as_str())
        .collect();
    assert_eq!(clusters, ["west"]);
}

#[test]
fn what_shares_a_service_with_a_cluster_that_drains_goes_after_the_route_as_well() {
    let mut given = healthy();
    given.add_south(3);
    given.server.spec.endpoints.drain_seconds = 30;
    given.apply();
    // East drains in the class of one, west was in it, and one class is left: the common Service.
    let targets = &mut given.server.spec.cluster_targets;
    targets.retain(|target| target.cluster_id.as_str() != "east");
    for target in targets {
        target.weight = 3;
    }
    let plan = given.plan();
    let names = |slices: &[k8s_openapi::api::discovery::v1::EndpointSlice]| -> Vec<_> {
        let names = slices.iter().map(|slice| slice.metadata.name.clone());
        names.map(Option::unwrap).collect()
    };
    let drains = "llama-endpoints-w1.east-ipv4-0".to_owned();
    assert!(
        names(&plan.slices).contains(&drains),
        "{:?}",
        names(&plan.slices)
    );
    let shared = "llama-endpoints-w1.west-ipv4-0".to_owned();
    assert!(
        names(&plan.retired.slices).contains(&shared),
        "{:?}",
        names(&plan.retired.slices)
    );
    assert!(
        !shown(&plan.surplus)
            .iter()
            .any(|gone| gone.contains(&shared))
    );
    // Once no route leads there any more, it goes, and what drains stays.
    given.observed.routes.clear();
    let gone = retired(&given);
    assert!(gone.iter().any(|gone| gone.contains(&shared)), "{gone:?}");
    assert!(!gone.iter().any(|gone| gone.contains(&drains)), "{gone:?}");
    assert!(
        !gone
            .iter()
            .any(|gone| gone.starts_with("Service llama-endpoints-w1 ")),
        "{gone:?}"
    );
}
