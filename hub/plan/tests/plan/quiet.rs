//! What a status says within the grace of a cluster that can't be heard.

use crds::v1alpha1::ClusterState;

use crate::{
    given::{Given, condition},
    silence::{fleet, seconds},
};

#[test]
fn a_restart_of_the_hub_writes_no_status_within_the_grace() {
    let mut given = fleet();
    let before = given.plan().status;
    given.now += seconds(1_000);
    given.restart();
    given.now += seconds(5);
    assert_eq!(given.plan().status, before);
    given.back("east", "203.0.113.1");
    assert_eq!(given.plan().status, before);
}

#[test]
fn what_a_cluster_said_last_stands_in_silence_though_the_status_with_it_is_still_to_be_written() {
    let mut given = fleet();
    let well = given.plan().status;
    let west = given.cluster("west").placement.as_mut().unwrap();
    west.current = false;
    let written = given.plan().status;
    assert_eq!(condition(&written, "BackendProvision"), "Unknown Applying");
    given.server.status = Some(written.clone());
    given.hush("west");
    assert_eq!(given.plan().status, written);
    given.waiting = Some(well);
    let status = given.plan().status;
    assert_eq!(condition(&status, "BackendProvision"), "True Provisioned");
    let states: Vec<_> = status.clusters.iter().map(|west| west.state).collect();
    assert_eq!(states, [ClusterState::Serving; 2]);
}

#[test]
fn what_a_write_of_endpoints_came_to_is_not_said_again_in_silence() {
    let mut given = fleet();
    given.hush("west");
    let reason = |given: &Given| {
        let status = given.plan().status;
        let condition = condition(&status, "EndpointPublish");
        condition.rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(reason(&given), "Provisioned");
    for written in ["Publishing", "ApplyFailed", "ApplyRefused", "NameConflict"] {
        let status = given.server.status.as_mut().unwrap();
        let mut conditions = status.conditions.iter_mut();
        let publish = conditions.find(|condition| condition.type_ == "EndpointPublish");
        written.clone_into(&mut publish.unwrap().reason);
        assert_eq!(reason(&given), "ClusterNotConnected", "{written}");
    }
}

#[test]
fn a_specification_that_changes_during_silence_is_not_called_ready() {
    let mut given = fleet();
    given.hush("west");
    given.server.metadata.generation = Some(4);
    let status = given.plan().status;
    assert_eq!(condition(&status, "Ready"), "Unknown ClusterNotConnected");
}
