//! How soon a status has to be written.

use crds::condition::State;
use hub_plan::{
    facts::{Membership, Step},
    urgency::{Urgency, urgency},
};

use crate::given::{cluster, healthy, server, step};

#[test]
fn what_only_tells_how_far_things_are_on_their_way_is_progress() {
    let mut given = healthy();
    let ready = given.plan().status;
    assert_eq!(urgency(None, &ready), Urgency::AtOnce, "it is Ready");
    assert_eq!(urgency(Some(&ready), &ready), Urgency::Progress);

    for name in ["east", "west"] {
        given.placement(name).replicas.ready = 0;
        let starting = step(State::Unknown, "StartingBackend", "they start");
        given.placement(name).steps.insert(Step::Health, starting);
    }
    let written = given.plan().status;
    let lost = urgency(Some(&ready), &written);
    assert_eq!(lost, Urgency::AtOnce, "it is Ready no longer");
    let new = urgency(None, &written);
    assert_eq!(new, Urgency::AtOnce, "all is written in the members");

    given.add_south(1);
    given.placement("south").replicas.ready = 0;
    let waits = given.plan().status;
    let new = urgency(None, &waits);
    assert_eq!(new, Urgency::AtOnce, "as much as can be is written");
    given.placement("south").replicas.ready = 1;
    let published = given.plan().status;
    assert_eq!(urgency(Some(&waits), &published), Urgency::Progress);
    given.server = server(&[("east", 1), ("west", 1)]);
    given.clusters.remove(&cluster("south"));

    given.placement("west").replicas.ready = 1;
    let on_its_way = given.plan().status;
    assert_eq!(urgency(Some(&written), &on_its_way), Urgency::Progress);

    given.fail("west", Step::Health, "Unschedulable", "no node");
    let failed = given.plan().status;
    assert_eq!(urgency(Some(&on_its_way), &failed), Urgency::AtOnce);

    given.placement("west").current = false;
    given.placement("east").current = false;
    let begun = given.plan().status;
    let unheard = urgency(None, &begun);
    assert_eq!(unheard, Urgency::Progress, "nobody has reported yet");
}

#[test]
fn each_of_what_a_person_waits_for_is_told_at_once_by_itself() {
    let mut given = healthy();
    let ready = given.plan().status;
    let mut starts = |name: &str, replicas| {
        given.placement(name).replicas.ready = replicas;
        let starting = step(State::Unknown, "StartingBackend", "they start");
        given.placement(name).steps.insert(Step::Health, starting);
        given.plan().status
    };
    let one_starts = starts("west", 1);
    let all_start = starts("east", 1);
    starts("east", 0);
    let none_serves = starts("west", 0);
    let said = |before, after| urgency(Some(before), after);
    // It is available before and after.
    assert_eq!(said(&ready, &one_starts), Urgency::AtOnce);
    assert_eq!(said(&one_starts, &ready), Urgency::AtOnce);
    // It is ready neither before nor after.
    assert_eq!(said(&all_start, &none_serves), Urgency::AtOnce);

    let mut given = healthy();
    let mut fails = |step, reason| {
        given.fail("west", step, reason, "no");
        given.plan().status
    };
    let one_step_fails = fails(Step::Backend, "ApplyRefused");
    let another_fails = fails(Step::ModelConfig, "NameConflict");
    assert_eq!(said(&one_step_fails, &another_fails), Urgency::AtOnce);
    assert_eq!(said(&another_fails, &one_step_fails), Urgency::AtOnce);
}

#[test]
fn what_stands_in_the_way_is_more_than_progress() {
    let mut given = healthy();
    for name in ["east", "west"] {
        given.placement(name).current = false;
    }
    let begun = given.plan().status;
    given.cluster("west").membership = Membership::Invited;
    given.cluster("west").placement = None;
    let not_joined = given.plan().status;
    assert_eq!(urgency(None, &not_joined), Urgency::Obstacle);
    assert_eq!(urgency(Some(&begun), &not_joined), Urgency::Obstacle);
    assert_eq!(urgency(Some(&not_joined), &begun), Urgency::Obstacle);
    assert_eq!(urgency(Some(&not_joined), &not_joined), Urgency::Progress);

    let mut given = healthy();
    given.fail("east", Step::Health, "CrashLoopBackOff", "exit code 1");
    let one = given.plan().status;
    given.fail("west", Step::Health, "CrashLoopBackOff", "exit code 1");
    let both = given.plan().status;
    assert_eq!(urgency(Some(&one), &both), Urgency::Obstacle);
    given = healthy();
    let starting = step(State::Unknown, "StartingBackend", "they start");
    given
        .placement("east")
        .steps
        .insert(Step::Health, starting.clone());
    let one = given.plan().status;
    given.placement("west").steps.insert(Step::Health, starting);
    let fewer_are_well = given.plan().status;
    assert_eq!(urgency(Some(&one), &fewer_are_well), Urgency::Obstacle);
}

#[test]
fn what_only_takes_time_is_progress_and_what_is_wrong_is_an_obstacle() {
    let mut given = healthy();
    let mut says = |reason: &str| {
        let on_its_way = step(State::Unknown, reason, "1 of 2");
        given
            .placement("west")
            .steps
            .insert(Step::Health, on_its_way);
        given.plan().status
    };
    let starting = says("StartingBackend");
    for reason in ["ModelLoading", "Draining"] {
        let said = urgency(Some(&starting), &says(reason));
        assert_eq!(said, Urgency::Progress, "{reason}");
    }
    for reason in ["ProbeFailing", "NodeNotReady", "Evicted", "Preempted"] {
        let said = urgency(Some(&starting), &says(reason));
        assert_eq!(said, Urgency::Obstacle, "{reason}");
    }
}

#[test]
fn a_cluster_that_is_new_to_the_status_is_remembered_at_once() {
    let mut given = healthy();
    let starting = step(State::Unknown, "StartingBackend", "they start");
    given.placement("east").steps.insert(Step::Health, starting);
    let before = given.plan().status;
    given.add_south(1);
    let after = given.plan().status;
    assert_eq!(urgency(Some(&before), &after), Urgency::AtOnce);
    let forgotten = urgency(Some(&after), &before);
    assert_eq!(forgotten, Urgency::Obstacle, "fewer are well");
}

#[test]
fn a_cluster_that_is_late_already_keeps_no_others_news_waiting() {
    let mut given = healthy();
    given.add_south(1);
    for name in ["east", "west", "south"] {
        let starting = step(State::Unknown, "StartingBackend", "they start");
        given.placement(name).steps.insert(Step::Health, starting);
    }
    let before = given.server.metadata.generation;
    for name in ["east", "west", "south"] {
        given.placement(name).current = false;
    }
    let all_late = given.plan().status;
    given.server.metadata.generation = Some(2);
    let begun = given.plan().status;
    let nobody_has_written = urgency(Some(&all_late), &begun);
    assert_eq!(nobody_has_written, Urgency::Progress);

    given.server.metadata.generation = before;
    given.placement("east").current = true;
    given.placement("west").current = true;
    let late = given.plan().status;
    given.server.metadata.generation = Some(2);
    given.placement("west").current = false;
    let begun = given.plan().status;
    assert_eq!(urgency(Some(&late), &begun), Urgency::Progress);
    given.placement("west").current = true;
    let written = given.plan().status;
    assert_eq!(urgency(Some(&late), &written), Urgency::AtOnce);
    assert_eq!(urgency(Some(&written), &written), Urgency::Progress);
}
