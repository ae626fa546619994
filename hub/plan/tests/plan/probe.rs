//! What the hub asks endpoints, and what becomes of the answers.

use crds::v1alpha1::ProbePolicy;
use hub_plan::{
    facts::Observed,
    probe::{Probe, ProbeFacts},
};

use crate::{
    given::{Given, Planned, cluster, condition, healthy},
    shown::{due, endpoints},
    silence::{WELL, fleet, seconds},
};

/// East and west, both well, of which each is asked by this policy.
fn asked(policy: ProbePolicy) -> Given {
    let mut given = healthy();
    given.server.spec.endpoints.probe = policy;
    given
}

/// East and west of a fleet of ten, of which each is asked, once west has been silent for longer than its grace.
pub(crate) fn lost() -> Given {
    let mut given = fleet();
    given.server.spec.endpoints.probe = ProbePolicy::Warn;
    given.hush("west");
    given.pass(40);
    given
}

/// The addresses of a cluster answer so, now.
pub(crate) fn answer(given: &mut Given, name: &str, failure: Option<&str>) {
    let probe = given.plan().probes[&cluster(name)].clone();
    let at = given.now;
    given.cluster(name).probe = Some(ProbeFacts {
        addresses: probe.addresses,
        port: probe.port,
        at,
        failure: failure.map(str::to_owned),
    });
}

fn probe(plan: &Planned, name: &str) -> Option<String> {
    let Probe {
        addresses,
        port,
        max_age_seconds,
        retry_seconds,
    } = plan.probes.get(&cluster(name))?;
    Some(format!(
        "{addresses:?} {port} {max_age_seconds:?} {retry_seconds:?}"
    ))
}

fn message(plan: &Planned, kind: &str) -> String {
    let mut conditions = plan.status.conditions.iter();
    let condition = conditions.find(|condition| condition.type_ == kind);
    condition.unwrap().message.clone()
}

#[test]
fn each_endpoint_that_leads_somewhere_is_asked_once() {
    let mut given = asked(ProbePolicy::Warn);
    given.placement("west").replicas.ready = 0;
    let plan = given.plan();
    assert_eq!(
        probe(&plan, "east").as_deref(),
        Some("[203.0.113.1] 80 None None")
    );
    assert_eq!(probe(&plan, "west"), None, "nobody is there to answer");
    assert!(asked(ProbePolicy::Off).plan().probes.is_empty());
}

#[test]
fn of_many_addresses_the_first_are_asked() {
    let mut given = asked(ProbePolicy::Warn);
    let addresses = (1..=9).map(|number| format!("203.0.113.{number}"));
    given.cluster("east").endpoint.as_mut().unwrap().addresses = addresses.collect();
    assert_eq!(given.plan().probes[&cluster("east")].addresses.len(), 4);
}

#[test]
fn an_answer_changes_nothing_of_what_is_well() {
    let mut given = asked(ProbePolicy::Warn);
    given.apply();
    let before = given.plan();
    for name in ["east", "west"] {
        answer(&mut given, name, None);
    }
    assert_eq!(given.plan(), before);
}

#[test]
fn an_endpoint_that_is_not_reached_is_told_and_takes_traffic() {
    let mut given = asked(ProbePolicy::Warn);
    answer(&mut given, "west", Some("no answer"));
    let plan = given.plan();
    assert_eq!(endpoints(&plan), WELL);
    assert_eq!(
        condition(&plan.status, "EndpointPublish"),
        "True EndpointUnreachable"
    );
    assert_eq!(condition(&plan.status, "Ready"), "True Serving");
    let message = message(&plan, "EndpointPublish");
    assert!(
        message.contains("west at port 80") && message.contains("no answer"),
        "{message}"
    );
    let west = plan
        .status
        .clusters
        .iter()
        .find(|of| of.cluster_id == "west");
    assert_eq!(west.unwrap().reason, "EndpointUnreachable");
}

#[test]
fn an_endpoint_that_has_to_be_reached_takes_no_traffic_before() {
    let mut given = asked(ProbePolicy::Required);
    given.observed = Observed::default();
    let plan = given.plan();
    assert_eq!(
        condition(&plan.status, "EndpointPublish"),
        "Unknown Probing"
    );
    assert_eq!(
        condition(&plan.status, "Available"),
        "False TooFewReadyClusters"
    );
    assert!(plan.probes.len() == 2);
    answer(&mut given, "east", None);
    answer(&mut given, "west", Some("503"));
    let plan = given.plan();
    assert_eq!(endpoints(&plan), ["east 203.0.113.1 ready"]);
    assert_eq!(
        condition(&plan.status, "EndpointPublish"),
        "False EndpointUnreachable"
    );
    assert_eq!(condition(&plan.status, "Available"), "True Serving");
}

#[test]
fn an_answer_of_other_addresses_says_nothing() {
    let mut given = asked(ProbePolicy::Required);
    answer(&mut given, "east", None);
    given.cluster("east").endpoint.as_mut().unwrap().addresses = vec!["203.0.113.9".to_owned()];
    let plan = given.plan();
    assert_eq!(
        condition(&plan.status, "EndpointPublish"),
        "Unknown Probing"
    );
    assert_eq!(
        probe(&plan, "east").as_deref(),
        Some("[203.0.113.9] 80 None Some(40)"),
        "what has to be reached is asked again within a grace"
    );
}

#[test]
fn a_silent_cluster_is_asked_once_its_grace_is_over_and_stays_until_then() {
    let mut given = fleet();
    given.server.spec.endpoints.probe = ProbePolicy::Warn;
    given.hush("west");
    assert_eq!(probe(&given.plan(), "west"), None, "within the grace");
    given.pass(40);
    let plan = given.plan();
    assert_eq!(endpoints(&plan), WELL);
    assert_eq!(
        probe(&plan, "west").as_deref(),
        Some("[203.0.113.2] 80 Some(40) Some(40)")
    );
}

#[test]
fn an_answer_beats_silence_for_twice_the_grace() {
    let mut given = lost();
    answer(&mut given, "west", None);
    let plan = given.plan();
    assert_eq!(endpoints(&plan), WELL);
    assert_eq!(due(&plan, given.now), Some(80));
    assert!(message(&plan, "EndpointPublish").contains("since it answers"));
    given.pass(79);
    assert_eq!(endpoints(&given.plan()), WELL);
    given.pass(1);
    assert_eq!(endpoints(&given.plan()), WELL, "it is asked again");
    answer(&mut given, "west", Some("no answer"));
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
}

#[test]
fn an_answer_from_before_the_silence_does_not_beat_it() {
    let mut given = fleet();
    given.server.spec.endpoints.probe = ProbePolicy::Warn;
    answer(&mut given, "west", None);
    given.hush("west");
    given.pass(40);
    given.pass(1);
    assert!(message(&given.plan(), "EndpointPublish").contains("asks its endpoint"));
}

#[test]
fn a_silent_cluster_that_does_not_answer_goes_by_the_policy_and_comes_back_when_it_does() {
    let mut given = lost();
    answer(&mut given, "west", Some("no answer"));
    given.apply();
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
    given.pass(100);
    assert!(probe(&given.plan(), "west").is_some(), "it is asked on");
    answer(&mut given, "west", None);
    given.apply();
    assert_eq!(endpoints(&given.plan()), WELL);
}

/// East and west, of which each is asked, silent since then with most of a fleet of ten, once their grace is over.
fn suspected(since: &[(&str, i64)]) -> Given {
    let mut given = fleet();
    given.server.spec.endpoints.probe = ProbePolicy::Warn;
    given.fleet.silent_since = vec![given.now; 6];
    let began = given.now;
    for (name, after) in since {
        given.now = began + seconds(*after);
        given.hush(name);
    }
    given.pass(40);
    given
}

#[test]
fn where_the_hub_suspects_itself_one_answer_makes_its_probes_trusted() {
    let mut given = suspected(&[("east", 0), ("west", 0)]);
    answer(&mut given, "west", Some("no answer"));
    answer(&mut given, "east", Some("no answer"));
    let plan = given.plan();
    assert_eq!(endpoints(&plan), WELL, "the hub reaches nobody");
    assert_eq!(
        condition(&plan.status, "EndpointPublish"),
        "Unknown FleetSilent"
    );
    answer(&mut given, "east", None);
    assert_eq!(
        endpoints(&given.plan()),
        ["east 203.0.113.1 ready", "west 203.0.113.2 down"]
    );
}

#[test]
fn an_answer_from_before_a_suspicion_does_not_end_it() {
    let mut given = suspected(&[("east", 0), ("west", 10)]);
    given.now -= seconds(1);
    answer(&mut given, "east", None);
    given.now += seconds(1);
    answer(&mut given, "west", Some("no answer"));
    assert_eq!(endpoints(&given.plan()), WELL);
    answer(&mut given, "east", None);
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
}

#[test]
fn what_failed_before_the_hub_reached_another_may_answer_by_now() {
    let mut given = suspected(&[("east", 0), ("west", 0)]);
    answer(&mut given, "west", Some("no answer"));
    given.pass(1);
    answer(&mut given, "east", None);
    assert_eq!(endpoints(&given.plan()), WELL);
    answer(&mut given, "west", Some("no answer"));
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
}

#[test]
fn a_cluster_that_is_on_its_way_out_ends_no_suspicion() {
    let mut given = suspected(&[("east", 0), ("west", 0)]);
    for (name, failure) in [("east", None), ("west", Some("no answer"))] {
        answer(&mut given, name, failure);
    }
    let targets = &mut given.server.spec.cluster_targets;
    targets.retain(|target| target.cluster_id == "west");
    // Another that serves, or else west would be spared as the last.
    given.add_south(1);
    assert_eq!(endpoints(&given.plan())[1..], ["west 203.0.113.2 ready"],);
}

#[test]
fn a_restart_of_the_hub_changes_nothing_of_what_has_to_be_reached() {
    let mut given = asked(ProbePolicy::Required);
    for name in ["east", "west"] {
        answer(&mut given, name, None);
    }
    given.apply();
    let before = given.plan();
    for name in ["east", "west"] {
        given.cluster(name).probe = None;
    }
    assert_eq!(given.plan(), before);
    // It may be the hub's own way that is broken.
    for name in ["east", "west"] {
        answer(&mut given, name, Some("no answer"));
    }
    given.apply();
    let plan = given.plan();
    assert_eq!(endpoints(&plan), WELL);
    assert_eq!(
        condition(&plan.status, "EndpointPublish"),
        "True EndpointUnreachable"
    );
    let addresses = &mut given.cluster("west").endpoint.as_mut().unwrap().addresses;
    *addresses = vec!["203.0.113.9".to_owned()];
    answer(&mut given, "west", Some("no answer"));
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.9 down");
}

#[test]
fn a_node_more_takes_no_node_out_of_the_traffic_until_it_was_asked() {
    let mut given = asked(ProbePolicy::Required);
    answer(&mut given, "east", None);
    given.apply();
    let addresses = &mut given.cluster("east").endpoint.as_mut().unwrap().addresses;
    addresses.insert(0, "203.0.113.0".to_owned());
    let plan = given.plan();
    assert!(
        endpoints(&plan)[..2]
            .iter()
            .all(|endpoint| endpoint.ends_with("ready"))
    );
}

#[test]
fn a_silent_cluster_that_nobody_gets_to_ask_goes_by_the_policy_after_another_grace() {
    let mut given = lost();
    assert_eq!(due(&given.plan(), given.now), Some(40));
    given.pass(39);
    assert_eq!(endpoints(&given.plan()), WELL);
    given.pass(1);
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
}

#[test]
fn a_good_answer_that_is_not_asked_for_again_is_forgotten() {
    let mut given = lost();
    answer(&mut given, "west", None);
    given.pass(119);
    assert_eq!(endpoints(&given.plan()), WELL);
    given.pass(1);
    assert_eq!(endpoints(&given.plan())[1], "west 203.0.113.2 down");
}

/// East and west, of which the hub has to reach each, and has not reached west since it is there.
fn unreached() -> Given {
    let mut given = asked(ProbePolicy::Required);
    given.fleet.joined = 10;
    given.observed = Observed::default();
    answer(&mut given, "east", None);
    answer(&mut given, "west", Some("no answer"));
    given.apply();
    given
}

#[test]
fn a_cluster_that_is_not_reached_is_no_other_that_serves() {
    let mut given = unreached();
    given.hush("east");
    given.pass(40);
    answer(&mut given, "east", Some("no answer"));
    assert_eq!(endpoints(&given.plan()), ["east 203.0.113.1 ready"]);
    answer(&mut given, "west", None);
    assert_eq!(
        endpoints(&given.plan()),
        ["east 203.0.113.1 down", "west 203.0.113.2 ready"]
    );
}

#[test]
fn a_restart_of_the_hub_says_on_that_an_endpoint_is_not_reached_until_it_answers() {
    let mut given = unreached();
    let before = given.plan();
    assert_eq!(
        condition(&before.status, "Ready"),
        "False EndpointUnreachable"
    );
    for name in ["east", "west"] {
        given.cluster(name).probe = None;
    }
    assert_eq!(given.plan(), before);
    answer(&mut given, "west", None);
    assert_eq!(endpoints(&given.plan()), WELL);
}

#[test]
fn a_restart_of_the_hub_says_on_that_an_endpoint_which_takes_traffic_is_not_reached() {
    let mut given = asked(ProbePolicy::Warn);
    answer(&mut given, "west", Some("no answer"));
    given.apply();
    let before = given.plan();
    given.cluster("west").probe = None;
    assert_eq!(given.plan(), before);
    answer(&mut given, "west", None);
    assert_eq!(
        condition(&given.plan().status, "EndpointPublish"),
        "True Provisioned"
    );
}
