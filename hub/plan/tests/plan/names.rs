//! What the objects of two servers of one namespace are called.

use std::collections::BTreeMap;

use crate::given::{cluster, healthy, server, serving};

/// Names that are made to meet: each ends as what follows from another begins or ends.
const SERVERS: [&str; 9] = [
    "a",
    "a-discovery",
    "a-discovery-0",
    "a-discovery-hostnames",
    "a-discovery-hostnames-0",
    "a-endpoints",
    "a-endpoints-w1",
    "a-endpoints-east",
    "a-endpoints-east-ipv4-0",
];
const CLUSTERS: [(&str, u32); 5] = [
    ("east", 1),
    ("endpoints-east", 2),
    ("w1-east", 3),
    ("east-ipv4-0", 4),
    ("endpoints", 5),
];

/// Kind and name of everything that the hub makes for a server of that name.
fn names(name: &str) -> Vec<String> {
    let mut given = healthy();
    given.server = server(&CLUSTERS);
    given.server.metadata.name = Some(name.to_owned());
    given.server.spec.routing.hostnames = vec!["a.example.com".to_owned()];
    for (target, _) in CLUSTERS {
        given
            .clusters
            .insert(cluster(target), serving("203.0.113.7"));
    }
    let plan = given.plan();
    let services = plan.services.iter().map(|one| ("Service", &one.metadata));
    let slices = plan.slices.iter().map(|one| ("slice", &one.metadata));
    let routes = plan.routes.iter().map(|one| ("route", &one.metadata));
    let all = services.chain(slices).chain(routes);
    all.map(|(kind, metadata)| format!("{kind} {}", metadata.name.as_ref().unwrap()))
        .collect()
}

#[test]
fn of_two_servers_only_slices_meet_and_only_for_a_cluster_that_is_called_endpoints() {
    let mut makers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for server in SERVERS {
        for name in names(server) {
            makers.entry(name).or_default().push(server);
        }
    }
    makers.retain(|_, makers| makers.len() > 1);
    let met: Vec<_> = makers.into_iter().collect();
    // Of `a` for the cluster `endpoints-east`, and of `a-endpoints` for `east`.
    assert_eq!(
        met,
        [(
            "slice a-endpoints-endpoints-east-ipv4-0".to_owned(),
            vec!["a", "a-endpoints"]
        )]
    );
}
