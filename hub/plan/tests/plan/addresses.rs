//! Where a cluster admits traffic: which addresses are taken from its report, and what is said of the others.

use std::net::IpAddr;

use hub_plan::facts::EndpointFacts;

use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::{
    given::{Given, healthy, silent, west},
    shown::verdict,
};

fn at(addresses: &[&str]) -> Given {
    let mut given = healthy();
    given.cluster("west").endpoint.as_mut().unwrap().addresses = addresses
        .iter()
        .map(|address| (*address).to_owned())
        .collect();
    given
}

#[test]
fn an_endpoint_that_is_not_reported_yet_is_on_its_way() {
    let mut given = healthy();
    given.cluster("west").endpoint = None;
    let west = west(&given);
    assert_eq!(
        verdict(&west.endpoint),
        "Unknown Applying: west has not reported an endpoint yet"
    );
    assert_eq!((west.addresses.len(), west.port), (0, 0));
}

#[test]
fn an_endpoint_without_addresses_says_why_in_the_agents_words() {
    let mut given = healthy();
    given.cluster("west").endpoint = Some(EndpointFacts {
        port: 80,
        reason: "NoAddress".to_owned(),
        message: "Gateway infra/public has no address yet".to_owned(),
        ..EndpointFacts::default()
    });
    let west = west(&given);
    assert_eq!(
        verdict(&west.endpoint),
        "False NoAddress: Gateway infra/public has no address yet"
    );
    assert_eq!(west.port, 0);
}

/// The agent of west does not know its endpoint yet.
fn unknown() -> EndpointFacts {
    EndpointFacts {
        reason: "Applying".to_owned(),
        message: "the agent does not know the nodes yet".to_owned(),
        ..EndpointFacts::default()
    }
}

#[test]
fn an_endpoint_that_the_agent_does_not_know_yet_stays_as_it_was_published() {
    let mut given = healthy();
    given.cluster("west").endpoint = Some(unknown());
    let west = west(&given);
    assert_eq!(west.addresses, ["203.0.113.2".parse::<IpAddr>().unwrap()]);
    assert_eq!(
        verdict(&west.endpoint),
        "Unknown Applying: the agent does not know the nodes yet"
    );
    assert_eq!(given.plan().slices, slices(&given));
}

#[test]
fn an_endpoint_on_its_way_out_does_not_come_back_while_the_agent_does_not_know() {
    let mut given = healthy();
    given.server.spec.endpoints.drain_seconds = 30;
    given.cluster("west").endpoint = Some(EndpointFacts {
        reason: "NoAddress".to_owned(),
        ..EndpointFacts::default()
    });
    given.apply();
    given.cluster("west").endpoint = Some(unknown());
    assert!(west(&given).draining_since.is_some());
    assert_eq!(given.plan().slices, slices(&given));
}

/// The slices that are there.
fn slices(given: &Given) -> Vec<EndpointSlice> {
    let slices = given.observed.slices.iter();
    slices.map(|slice| slice.as_ref().clone()).collect()
}

#[test]
fn an_endpoint_says_at_how_many_addresses_it_admits_traffic() {
    let west = west(&at(&["203.0.113.2", "2001:db8::1", "203.0.113.2"]));
    assert_eq!(
        verdict(&west.endpoint),
        "True Provisioned: west admits traffic at 2 addresses"
    );
}

#[test]
fn every_address_that_is_refused_is_named_with_the_rule() {
    let west = west(&at(&["127.0.0.1", "203.0.113.2", "gateway.example"]));
    assert_eq!(
        verdict(&west.endpoint),
        "False AddressRefused: west reports what may not be published: 127.0.0.1 (loopback), gateway.example (no IP address)"
    );
}

#[test]
fn of_many_addresses_that_are_refused_the_first_are_named() {
    let many: Vec<_> = (1..=12).map(|number| format!("127.0.0.{number}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let said = verdict(&west(&at(&many)).endpoint);
    assert!(
        said.ends_with("127.0.0.7 (loopback), 127.0.0.8 (loopback) and 4 more"),
        "{said}"
    );
    let said = verdict(&west(&at(&many[..8])).endpoint);
    assert!(said.ends_with("127.0.0.8 (loopback)"), "{said}");
}

#[test]
fn each_rule_has_a_name() {
    for (address, rule) in [
        ("0.0.0.0", "unspecified"),
        ("::", "unspecified"),
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("169.254.0.1", "link-local"),
        ("fe80::1", "link-local"),
        ("::ffff:203.0.113.9", "IPv4-mapped"),
    ] {
        let said = verdict(&west(&at(&[address])).endpoint);
        assert!(said.ends_with(&format!("{address} ({rule})")), "{said}");
    }
}

/// The addresses that are published where these ranges are allowed, or are the hub's own.
fn published(allowed: &[&str], own: &[&str], addresses: &[&str]) -> String {
    let mut given = at(addresses);
    let parse = |ranges: &[&str]| ranges.iter().map(|range| range.parse().unwrap()).collect();
    given.cluster("west").allowed_cidrs = parse(allowed);
    given.refused_cidrs = parse(own);
    let addresses = west(&given).addresses;
    let addresses: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
    addresses.join(" ")
}

#[test]
fn an_allowed_range_goes_from_its_first_address_to_its_last() {
    assert_eq!(
        published(
            &["203.0.113.64/26", "2001:db8::/64"],
            &[],
            &[
                "203.0.113.63",
                "203.0.113.64",
                "203.0.113.127",
                "203.0.113.128",
                "2001:db8::",
                "2001:db8::ffff:ffff:ffff:ffff",
                "2001:db8:0:1::",
            ],
        ),
        "203.0.113.64 203.0.113.127 2001:db8:: 2001:db8::ffff:ffff:ffff:ffff"
    );
}

#[test]
fn an_allowed_range_of_one_family_allows_nothing_of_the_other() {
    let addresses = ["203.0.113.9", "2001:db8::9"];
    assert_eq!(published(&["0.0.0.0/0"], &[], &addresses), "203.0.113.9");
    assert_eq!(published(&["::/0"], &[], &addresses), "2001:db8::9");
}

#[test]
fn a_range_may_be_given_by_any_address_in_it() {
    let addresses = ["203.0.113.1", "203.0.114.1"];
    assert_eq!(
        published(&["203.0.113.77/24"], &[], &addresses),
        "203.0.113.1"
    );
}

#[test]
fn an_address_that_leads_nowhere_is_refused_though_its_range_is_allowed() {
    let addresses = ["127.0.0.1", "::ffff:203.0.113.9", "203.0.113.9"];
    assert_eq!(
        published(&["0.0.0.0/0", "::/0"], &[], &addresses),
        "203.0.113.9"
    );
}

#[test]
fn the_hubs_own_ranges_are_refused_though_they_are_allowed() {
    let (own, addresses) = (
        ["10.96.0.0/12"],
        ["10.95.255.255", "10.96.0.1", "10.112.0.0"],
    );
    assert_eq!(published(&[], &own, &addresses), "10.95.255.255 10.112.0.0");
    assert_eq!(
        published(&["10.0.0.0/8"], &own, &addresses),
        "10.95.255.255 10.112.0.0"
    );
}

#[test]
fn a_refusal_by_a_range_says_which() {
    let mut given = at(&["10.96.0.1", "198.51.100.1", "203.0.113.9"]);
    given.refused_cidrs = vec!["10.96.0.0/12".parse().unwrap()];
    given.cluster("west").allowed_cidrs = vec!["203.0.113.0/24".parse().unwrap()];
    assert_eq!(
        verdict(&west(&given).endpoint),
        "False AddressRefused: west reports what may not be published: 10.96.0.1 (in 10.96.0.0/12, the hub's own), 198.51.100.1 (outside of allowedCidrs)"
    );
}

#[test]
fn no_address_is_published_that_stays_within_a_machine_or_a_link() {
    for address in [
        "0.0.0.0",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.0.0",
        "169.254.255.255",
        "224.0.0.0",
        "239.255.255.255",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "febf::1",
        "ff02::1",
        "::ffff:203.0.113.9",
    ] {
        assert_eq!(west(&at(&[address])).addresses.len(), 0, "{address}");
    }
}

#[test]
fn private_addresses_and_neighbours_of_refused_ranges_are_published() {
    for address in [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "126.255.255.255",
        "128.0.0.1",
        "169.253.255.255",
        "169.255.0.0",
        "223.255.255.255",
        "::2",
        "fc00::1",
        "fec0::1",
        "2001:db8::1",
    ] {
        assert_eq!(west(&at(&[address])).addresses.len(), 1, "{address}");
    }
}

#[test]
fn a_silent_cluster_keeps_addresses_and_port() {
    let mut given = healthy();
    given.cluster("west").endpoint.as_mut().unwrap().port = 8080;
    given.apply();
    *given.cluster("west") = silent();
    let west = west(&given);
    assert_eq!(west.addresses, ["203.0.113.2".parse::<IpAddr>().unwrap()]);
    assert_eq!(west.port, 8080);
    assert_eq!(
        verdict(&west.endpoint),
        "Unknown ClusterNotConnected: the agent of west can't be heard; its endpoint stays as it was last published"
    );
}
