//! A member whose gateway, or whose source of endpoints, becomes another. At no moment it is without an endpoint.

use std::net::IpAddr;

use e2e::Installed;
use gateway_api::apis::standard::gateways::Gateway;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::record::Record;
use super::{SOON, alone, namespace, server};

/// Returns once west's slice of that family has this address and port.
async fn until_published(fleet: &Installed, namespace: &str, address: IpAddr, port: i32) {
    let api: Api<EndpointSlice> = Api::namespaced(fleet.hub().client().await.unwrap(), namespace);
    let family = if address.is_ipv4() { "ipv4" } else { "ipv6" };
    let slice = format!("hello-endpoints-west-{family}-0");
    let wanted = address.to_string();
    let published = |slice: Option<&EndpointSlice>| {
        slice.is_some_and(|slice| {
            let ports = slice.ports.iter().flatten();
            slice.endpoints[0].addresses == [wanted.clone()]
                && ports.map(|one| one.port).eq([Some(port)])
        })
    };
    e2e::wait::until(api, &slice, SOON, published)
        .await
        .unwrap();
}

async fn set_listener_port(fleet: &Installed, port: u16) {
    let client = fleet.member("west").unwrap().client().await.unwrap();
    let gateways: Api<Gateway> = Api::namespaced(client, "infra");
    let port = json!([{"op": "replace", "path": "/spec/listeners/0/port", "value": port}]);
    let patch = Patch::Json::<()>(serde_json::from_value(port).unwrap());
    gateways
        .patch("public", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_gateway_may_change_its_address_family_port_and_make_room_for_another_source() {
    let fleet = alone().await;
    let west = fleet.member("west").unwrap();
    namespace(&fleet, "gateways").await;
    let mut wanted = server("gateways", &["west"]);
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("gateways", "hello").await.unwrap();
    let first = west.gateway_address().ip();
    let record = Record::start(fleet.hub(), "gateways").await;

    let other = west.other_gateway_address(60).unwrap().ip();
    west.set_gateway_address(other).await.unwrap();
    until_published(&fleet, "gateways", other, 80).await;
    let sixth: IpAddr = "2001:db8::60".parse().unwrap();
    west.set_gateway_address(sixth).await.unwrap();
    until_published(&fleet, "gateways", sixth, 80).await;
    west.set_gateway_address(first).await.unwrap();
    until_published(&fleet, "gateways", first, 80).await;

    set_listener_port(&fleet, 8081).await;
    until_published(&fleet, "gateways", first, 8081).await;
    set_listener_port(&fleet, 80).await;
    until_published(&fleet, "gateways", first, 80).await;

    let fixed = json!({"source": "Static", "addresses": [other.to_string()], "port": 80});
    wanted.spec.cluster_targets[0].endpoint = serde_json::from_value(fixed).unwrap();
    fleet.apply(&wanted).await.unwrap();
    until_published(&fleet, "gateways", other, 80).await;
    wanted.spec.cluster_targets[0].endpoint = None;
    fleet.apply(&wanted).await.unwrap();
    until_published(&fleet, "gateways", first, 80).await;
    fleet.ready("gateways", "hello").await.unwrap();

    for (moment, ready) in record.ready_over_time("west").into_iter().enumerate() {
        assert!(ready > 0, "nothing is left after change {moment}");
    }
}
