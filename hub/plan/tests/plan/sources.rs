//! Which source of its endpoint a placement carries.

use std::collections::BTreeSet;

use crds::v1alpha1::{
    Address, EndpointSource, PortReference, ServerPlacementSpec, ServiceReference, Source,
};
use hub_plan::placements::{Site, placements};

use crate::given::{cluster, profiles, server};

fn given(address: &str) -> EndpointSource {
    EndpointSource {
        source: Source::Static,
        addresses: vec![Address(address.to_owned())],
        port: Some(80),
        ..EndpointSource::default()
    }
}

fn of_service(source: Source) -> EndpointSource {
    EndpointSource {
        source,
        service: Some(ServiceReference {
            namespace: "infra".to_owned(),
            name: "gate".to_owned(),
            port: PortReference::Name("http".to_owned()),
        }),
        ..EndpointSource::default()
    }
}

/// The placements of `east` and `west`, whose MemberClusters have this source, where `east`'s target may have its own.
fn planned(
    member: Option<EndpointSource>,
    own: Option<EndpointSource>,
) -> Vec<ServerPlacementSpec> {
    let mut server = server(&[("east", 1), ("west", 1)]);
    server.spec.cluster_targets[0].endpoint = own;
    let site = Site {
        gateway: None,
        endpoint: member,
        model: server.spec.model.clone().map(Into::into),
        withheld: false,
    };
    let sites = ["east", "west"].map(|name| (cluster(name), site.clone()));
    placements(&server, &profiles(), &sites.into(), &BTreeSet::new()).specs
}

#[test]
fn a_placement_of_the_default_source_is_the_same_bytes_as_before_there_were_others() {
    let before = r#"{"runtime":{"profile":"echo","revision":"1","content":{"images":[{"vendor":"none","image":"inferfleet/echo:1"}],"ports":[{"name":"http","port":8080}],"probes":{"readiness":{"path":"/ready"}},"drainSeconds":5}},"model":{"uri":"hf://org/llama"},"replicas":2}"#;
    for source in [None, Some(EndpointSource::default())] {
        let specs = planned(source.clone(), source);
        assert_eq!(specs.len(), 1);
        assert_eq!(serde_json::to_string(&specs[0]).unwrap(), before);
    }
}

#[test]
fn a_placement_carries_the_source_of_its_member_cluster() {
    let specs = planned(Some(of_service(Source::NodePort)), None);
    assert_eq!(specs.len(), 1);
    assert_eq!(specs[0].endpoint, Some(of_service(Source::NodePort)));
}

#[test]
fn a_targets_own_source_beats_the_member_clusters_as_a_whole() {
    let specs = planned(
        Some(of_service(Source::Service)),
        Some(given("203.0.113.9")),
    );
    let found: Vec<_> = specs.into_iter().map(|spec| spec.endpoint).collect();
    assert_eq!(
        found,
        [
            Some(given("203.0.113.9")),
            Some(of_service(Source::Service))
        ]
    );
}

#[test]
fn a_target_may_go_back_to_the_gateway() {
    let specs = planned(
        Some(of_service(Source::Service)),
        Some(EndpointSource::default()),
    );
    let found: Vec<_> = specs.into_iter().map(|spec| spec.endpoint).collect();
    assert_eq!(found, [None, Some(of_service(Source::Service))]);
}

#[test]
fn what_a_source_does_not_read_changes_no_placement() {
    for (source, plain) in [
        (Source::Static, given("203.0.113.9")),
        (Source::Service, of_service(Source::Service)),
        (Source::NodePort, of_service(Source::NodePort)),
    ] {
        let all = EndpointSource {
            source,
            service: of_service(source).service,
            ..given("203.0.113.9")
        };
        assert_eq!(planned(Some(all), None), planned(Some(plain), None));
    }
}
