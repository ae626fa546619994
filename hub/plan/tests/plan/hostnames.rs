//! Endpoints with DNS names: what of them is published while the hub knows much, little or nothing of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use hub_plan::facts::{Family, Resolution};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::{
    given::{Given, healthy, west},
    shown::verdict,
};

fn resolved(addresses: &[&str], failure: Option<&str>) -> Resolution {
    Resolution {
        addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
        failure: failure.map(ToOwned::to_owned),
        failed: None,
    }
}

/// One family was looked up, the other was not.
fn without(failed: Family, addresses: &[&str]) -> Resolution {
    Resolution {
        failed: Some(failed),
        ..resolved(addresses, Some("SERVFAIL"))
    }
}

fn pending() -> Resolution {
    Resolution::default()
}

/// West reports these names and no address; the world before is that of `healthy`.
fn named<const N: usize>(names: [(&str, Resolution); N]) -> Given {
    let mut given = healthy();
    say(&mut given, names);
    given
}

fn say<const N: usize>(given: &mut Given, names: [(&str, Resolution); N]) {
    let endpoint = given.cluster("west").endpoint.as_mut().unwrap();
    endpoint.addresses.clear();
    let names = names.map(|(name, resolution)| (name.to_owned(), resolution));
    endpoint.hostnames = BTreeMap::from(names);
}

/// What is published of west, and what is said of it.
fn shown(given: &Given) -> (String, String) {
    let west = west(given);
    let addresses: Vec<_> = west.addresses.iter().map(IpAddr::to_string).collect();
    let said = verdict(&west.endpoint);
    (format!("{}:{}", addresses.join(" "), west.port), said)
}

fn slices(given: &Given) -> Vec<EndpointSlice> {
    let slices = given.observed.slices.iter();
    slices.map(|slice| slice.as_ref().clone()).collect()
}

#[test]
fn where_a_name_leads_is_published_beside_addresses_of_both_families() {
    let mut given = named([
        ("a.example", resolved(&["203.0.113.8", "2001:db8::8"], None)),
        ("b.example", resolved(&["203.0.113.8"], None)),
    ]);
    let endpoint = given.cluster("west").endpoint.as_mut().unwrap();
    endpoint.addresses = vec!["203.0.113.7".to_owned()];
    let (published, said) = shown(&given);
    assert_eq!(published, "203.0.113.7 203.0.113.8 2001:db8::8:80");
    assert_eq!(said, "True Provisioned: west admits traffic at 3 addresses");
}

#[test]
fn a_name_that_fails_keeps_its_addresses_published_and_says_why() {
    let (published, said) = shown(&named([(
        "a.example",
        resolved(&["203.0.113.8"], Some("no name server answers")),
    )]));
    assert_eq!(published, "203.0.113.8:80");
    assert_eq!(
        said,
        "Unknown HostnameNotResolved: the hub can't resolve a.example of west: no name server answers; its last addresses stay published"
    );
}

#[test]
fn a_name_that_was_never_resolved_keeps_what_was_published() {
    let given = named([("a.example", resolved(&[], Some("there is no such name")))]);
    let (published, said) = shown(&given);
    assert_eq!(published, "203.0.113.2:80");
    assert_eq!(
        said,
        "Unknown HostnameNotResolved: the hub can't resolve a.example of west: there is no such name; what was published stays"
    );
    assert!(west(&given).ready);
}

#[test]
fn a_name_that_is_being_resolved_keeps_what_was_published() {
    let (published, said) = shown(&named([("a.example", pending())]));
    assert_eq!(published, "203.0.113.2:80");
    assert_eq!(
        said,
        "Unknown Applying: a.example of west is being resolved"
    );
}

#[test]
fn what_was_published_goes_once_every_name_is_resolved() {
    let mut given = named([
        ("a.example", resolved(&["203.0.113.8"], None)),
        ("b.example", resolved(&["203.0.113.2"], None)),
    ]);
    given.apply();
    say(
        &mut given,
        [
            ("a.example", resolved(&["203.0.113.8"], None)),
            ("b.example", pending()),
        ],
    );
    assert_eq!(shown(&given).0, "203.0.113.2 203.0.113.8:80");
    say(
        &mut given,
        [
            ("a.example", resolved(&["203.0.113.8"], None)),
            ("b.example", resolved(&["203.0.113.9"], None)),
        ],
    );
    assert_eq!(shown(&given).0, "203.0.113.8 203.0.113.9:80");
}

#[test]
fn a_name_that_was_never_resolved_keeps_nothing_that_has_been_taken_away() {
    let mut given = named([("a.example", resolved(&[], Some("there is no such name")))]);
    for address in ["203.0.113.7", "203.0.113.9"] {
        let endpoint = given.cluster("west").endpoint.as_mut().unwrap();
        endpoint.addresses = vec![address.to_owned()];
        let (published, said) = shown(&given);
        assert_eq!(published, format!("{address}:80"));
        assert!(said.ends_with("; nothing of it is published"), "{said}");
        given.apply();
    }
}

#[test]
fn the_slices_say_which_names_are_in_them_until_they_are_reported_no_more() {
    let mut given = named([
        ("a.example", resolved(&["203.0.113.8", "2001:db8::8"], None)),
        ("b.example", resolved(&["203.0.113.9"], None)),
        ("c.example", pending()),
    ]);
    let names = |given: &Given| {
        let slices = given.plan().slices;
        let of_west = slices.iter().filter(|slice| {
            slice.metadata.labels.as_ref().unwrap()["inferfleet.io/cluster"] == "west"
        });
        let names = of_west.map(|slice| {
            let annotations = slice.metadata.annotations.as_ref()?;
            annotations.get("inferfleet.io/hostnames").cloned()
        });
        names.collect::<BTreeSet<_>>()
    };
    let both = Some("a.example,b.example".to_owned());
    assert_eq!(names(&given), [both.clone()].into());
    given.apply();
    say(
        &mut given,
        [("a.example", pending()), ("b.example", pending())],
    );
    assert_eq!(names(&given), [both].into(), "not known again yet");
    say(&mut given, []);
    given.cluster("west").endpoint.as_mut().unwrap().addresses = vec!["203.0.113.7".to_owned()];
    assert_eq!(names(&given), [None].into());
}

#[test]
fn what_was_published_at_another_port_is_not_published_at_this_one() {
    let mut given = named([
        ("a.example", resolved(&["203.0.113.8"], None)),
        ("b.example", pending()),
    ]);
    given.cluster("west").endpoint.as_mut().unwrap().port = 8080;
    assert_eq!(shown(&given).0, "203.0.113.8:8080");
    say(&mut given, [("b.example", pending())]);
    assert_eq!(shown(&given).0, "203.0.113.2:80");
}

#[test]
fn a_restarted_hub_that_has_not_resolved_a_name_yet_changes_no_slice() {
    let mut given = named([("a.example", resolved(&["203.0.113.8", "2001:db8::8"], None))]);
    given.apply();
    say(&mut given, [("a.example", pending())]);
    assert_eq!(given.plan().slices, slices(&given));
}

#[test]
fn a_family_that_fails_keeps_nothing_of_the_other_back() {
    let given = named([("a.example", without(Family::Ipv6, &["203.0.113.8"]))]);
    let (published, said) = shown(&given);
    assert_eq!(published, "203.0.113.8:80");
    assert_eq!(said, "True Provisioned: west admits traffic at 1 addresses");
}

#[test]
fn a_family_that_fails_keeps_its_own_addresses_published_and_says_why() {
    let known = without(Family::Ipv6, &["203.0.113.8", "2001:db8::8"]);
    let (published, said) = shown(&named([("a.example", known)]));
    assert_eq!(published, "203.0.113.8 2001:db8::8:80");
    assert_eq!(
        said,
        "Unknown HostnameNotResolved: the hub can't resolve a.example of west: SERVFAIL; its last addresses stay published"
    );
}

#[test]
fn a_restarted_hub_for_which_one_family_fails_changes_only_the_others_slice() {
    let mut given = named([("a.example", resolved(&["203.0.113.8", "2001:db8::8"], None))]);
    given.apply();
    say(
        &mut given,
        [("a.example", without(Family::Ipv6, &["203.0.113.8"]))],
    );
    assert_eq!(given.plan().slices, slices(&given));
    say(
        &mut given,
        [("a.example", without(Family::Ipv6, &["203.0.113.9"]))],
    );
    let (published, said) = shown(&given);
    assert_eq!(published, "203.0.113.9 2001:db8::8:80");
    assert!(said.starts_with("Unknown HostnameNotResolved"), "{said}");
}

#[test]
fn a_failure_in_one_cluster_changes_nothing_of_another() {
    let mut given = named([("a.example", resolved(&["203.0.113.8"], None))]);
    given.apply();
    let before = slices(&given);
    say(&mut given, [("a.example", resolved(&[], Some("refused")))]);
    assert_eq!(given.plan().slices, before);
}

#[test]
fn an_endpoint_on_its_way_out_does_not_come_back_by_a_name_that_is_not_resolved() {
    let mut given = healthy();
    given.server.spec.endpoints.drain_seconds = 30;
    say(&mut given, []);
    given.cluster("west").endpoint.as_mut().unwrap().reason = "NoAddress".to_owned();
    given.apply();
    say(&mut given, [("a.example", pending())]);
    let west = west(&given);
    assert!(west.draining_since.is_some() && !west.ready);
}

#[test]
fn what_was_published_and_is_no_longer_allowed_goes_though_a_name_is_not_resolved() {
    let mut given = named([("a.example", pending())]);
    given.cluster("west").allowed_cidrs = vec!["198.51.100.0/24".parse().unwrap()];
    assert_eq!(shown(&given).0, ":0");
}

#[test]
fn a_name_that_leads_nowhere_is_refused_with_its_address() {
    let (published, said) = shown(&named([(
        "a.example",
        resolved(&["127.0.0.1", "203.0.113.8"], Some("refused")),
    )]));
    assert_eq!(published, "203.0.113.8:80");
    assert!(
        said.starts_with("False AddressRefused: west reports what may not be published: 127.0.0.1 of a.example (loopback)"),
        "{said}"
    );
}

#[test]
fn a_cluster_that_falls_silent_keeps_its_names() {
    let mut given = named([("a.example", resolved(&["203.0.113.8"], None))]);
    given.apply();
    given.hush("west");
    assert_eq!(given.plan().slices, slices(&given));
}
