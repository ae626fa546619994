//! When it is the hub that is cut off.

use hub_plan::facts::PastSilence;
use k8s_openapi::jiff::Timestamp;

use crate::{
    given::{Given, condition, healthy},
    probe::{answer, lost},
    shown::{due, endpoints},
    silence::{WELL, fleet, seconds},
};

#[test]
fn when_much_of_the_fleet_falls_silent_at_once_the_hub_suspects_itself() {
    let mut given = fleet();
    given.hush("west");
    given.fleet.silent_since = vec![given.now + seconds(20); 6];
    given.pass(60);
    let plan = given.plan();
    assert_eq!(endpoints(&plan), WELL);
    assert_eq!(
        condition(&plan.status, "EndpointPublish"),
        "Unknown FleetSilent"
    );
}

#[test]
fn half_of_the_fleet_is_not_much_of_it() {
    let mut given = fleet();
    given.hush("west");
    given.fleet.silent_since = vec![given.now; 5];
    given.pass(60);
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
}

#[test]
fn two_silent_clusters_of_a_small_fleet_say_nothing_of_the_hub() {
    let mut given = healthy();
    given.fleet.joined = 3;
    given.hush("west");
    given.fleet.silent_since.push(given.now);
    given.pass(60);
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
}

#[test]
fn clusters_that_fell_silent_one_after_the_other_are_lost() {
    let mut given = fleet();
    given.fleet.silent_since = (1..=6)
        .map(|number| Timestamp::from_second(1_000 - number * 100).unwrap())
        .rev()
        .collect();
    given.hush("west");
    given.pass(60);
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
}

#[test]
fn at_once_is_within_one_grace() {
    for (earlier, expected) in [(40, "ready"), (41, "down")] {
        let mut given = fleet();
        given.hush("west");
        given.fleet.silent_since = vec![given.now - seconds(earlier); 9];
        given.fleet.silent_since.push(given.now);
        given.pass(60);
        let west = format!("west 203.0.113.2 {expected}");
        assert_eq!(endpoints(&given.plan())[1], west, "{earlier} s earlier");
    }
}

#[test]
fn what_was_lost_before_stays_so_when_the_hub_suspects_itself() {
    let mut given = fleet();
    given.hush("west");
    given.pass(60);
    given.fleet.silent_since = vec![given.now; 9];
    given.pass(60);
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
}

/// All of ten fell silent at once, longer ago than a grace; now so many are heard again, and west is not.
fn when_back(heard: usize) -> Given {
    let mut given = fleet();
    given.hush("west");
    let began = given.now;
    given.fleet.silent_since = vec![began; 10];
    given.pass(60);
    let ended = given.now;
    given.fleet.silent_since = vec![began; 10 - heard];
    given.fleet.silences = vec![PastSilence { began, ended }; heard];
    given
}

#[test]
fn while_the_fleet_comes_back_nobody_is_made_unready_who_is_still_on_its_way() {
    let mut given = when_back(9);
    given.pass(39);
    let plan = given.plan();
    assert_eq!(endpoints(&plan), WELL);
    assert_eq!(due(&plan, given.now), Some(1));
}

#[test]
fn who_is_not_back_a_grace_after_the_others_is_lost() {
    let mut given = when_back(9);
    given.pass(40);
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
}

#[test]
fn what_most_of_the_fleet_went_through_at_another_time_says_nothing_of_a_silence() {
    let mut given = when_back(9);
    for silence in &mut given.fleet.silences {
        silence.began -= seconds(41);
    }
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
}

#[test]
fn few_that_are_back_with_few_that_are_silent_are_not_much_of_the_fleet() {
    let mut given = when_back(4);
    given.fleet.silent_since.truncate(1);
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
}

#[test]
fn when_an_answer_counts_no_longer_the_next_is_waited_for_a_grace() {
    let mut given = lost();
    answer(&mut given, "west", None);
    given.pass(80);
    let plan = given.plan();
    assert_eq!(endpoints(&plan), WELL);
    assert_eq!(due(&plan, given.now), Some(40));
}
