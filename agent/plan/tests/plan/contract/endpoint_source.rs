//! Endpoint sources that break one rule each.

use std::sync::atomic::{AtomicU16, Ordering};

use agent_plan::{
    ConfiguredSource, Endpoint, EndpointSource, PlacementInput, Refusal,
    contract::{self, Rule},
};

use super::assert_broken;

type Resolved = Result<Endpoint, Refusal>;

/// The source that is here, with one change.
#[derive(Debug)]
struct Changed(fn(&PlacementInput<'_>, Resolved) -> Resolved);

impl EndpointSource for Changed {
    fn resolve(&self, input: &PlacementInput<'_>) -> Resolved {
        (self.0)(input, ConfiguredSource.resolve(input))
    }
}

fn assert_refused(rule: Rule, change: fn(&PlacementInput<'_>, Resolved) -> Resolved) {
    let result = contract::endpoint_source(&Changed(change), &contract::placement());
    assert_broken([(rule, result)]);
}

static ASKED: AtomicU16 = AtomicU16::new(1);

#[test]
fn an_endpoint_that_changes_by_itself_is_refused() {
    assert_refused(Rule::SameAnswer, |_, resolved| {
        let port = ASKED.fetch_add(1, Ordering::Relaxed);
        resolved.map(|endpoint| Endpoint { port, ..endpoint })
    });
}

#[test]
fn a_cluster_in_which_all_is_well_has_an_endpoint() {
    assert_refused(Rule::Served, |_, _| {
        Err(Refusal::new("Never", "there is no way in"))
    });
}

#[test]
fn a_source_that_needs_what_the_agent_does_not_know_is_refused() {
    assert_refused(Rule::Served, |input, resolved| match input.nodes {
        Some(_) => resolved,
        None => Err(Refusal::new(crds::reason::APPLYING, "nodes are not known")),
    });
}

#[test]
fn an_endpoint_that_leads_nowhere_is_refused() {
    assert_refused(Rule::Publishable, |_, resolved| {
        resolved.map(|endpoint| Endpoint {
            port: 0,
            ..endpoint
        })
    });
    assert_refused(Rule::Publishable, |_, resolved| {
        resolved.map(|Endpoint { port, .. }| Endpoint {
            port,
            ..Endpoint::default()
        })
    });
    assert_refused(Rule::Publishable, |_, resolved| {
        resolved.map(|endpoint| Endpoint {
            hostnames: ["Not a name".to_owned()].into(),
            ..endpoint
        })
    });
}

#[test]
fn a_missing_endpoint_without_a_word_is_refused() {
    assert_refused(Rule::Explained, |_, resolved| {
        resolved.map_err(|refusal| Refusal::new(refusal.reason, ""))
    });
}

#[test]
fn what_is_not_known_yet_is_not_taken_for_missing() {
    assert_refused(Rule::NotKnownYet, |_, resolved| {
        let missing = "the Service does not exist";
        resolved.map_err(|_refusal| Refusal::new(crds::reason::SERVICE_NOT_FOUND, missing))
    });
}

#[test]
fn an_endpoint_that_follows_the_replicas_is_refused() {
    assert_refused(Rule::StatusFree, |input, resolved| {
        if input.pods.is_empty() {
            resolved
        } else {
            resolved.map(|endpoint| Endpoint {
                port: 81,
                ..endpoint
            })
        }
    });
}
