//! In which order things go: of a deleted server, of a target that becomes another, of a Gateway, of a whole namespace.

use std::fmt::Debug;

use crds::labels;
use crds::v1alpha1::{InferenceServer, ServerPlacement};
use e2e::Installed;
use e2e::installed::condition;
use gateway_api::apis::standard::gateways::Gateway;
use gateway_api::apis::standard::httproutes::HttpRoute;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::endpoints::until_stands;
use super::lifecycle::{empty, in_hub, in_member};
use super::timeline::{Timeline, endpoints_stand, in_order, is_there};
use super::{SOON, alone, namespace, server, shared};

const DRAIN: u32 = 3;
/// Holds an object that was told to go, so that the others can be looked at.
const PIN: &str = "e2e.inferfleet.io/pin";

/// The example with a drain, in a new namespace; returns once it is Ready.
async fn draining(fleet: &Installed, namespace: &str, targets: &[&str]) -> InferenceServer {
    self::namespace(fleet, namespace).await;
    let mut wanted = server(namespace, targets);
    wanted.spec.endpoints.drain_seconds = DRAIN;
    fleet.apply(&wanted).await.unwrap();
    fleet.ready(namespace, "hello").await.unwrap();
    wanted
}

async fn member<K>(fleet: &Installed, namespace: &str) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    let client = fleet.member("east").unwrap().client().await.unwrap();
    Api::namespaced(client, namespace)
}

async fn pin<K: Clone + Debug + DeserializeOwned>(api: &Api<K>, name: &str) {
    // Nobody else has a finalizer on it before it is told to go.
    let patch = Patch::Merge(json!({"metadata": {"finalizers": [PIN]}}));
    api.patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Returns once nothing but the pin holds it any more.
async fn until_pinned_alone<K>(api: &Api<K>, name: &str)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let alone = |object: Option<&K>| {
        object.is_some_and(|object| {
            let meta = object.meta();
            meta.deletion_timestamp.is_some() && object.finalizers() == [PIN]
        })
    };
    e2e::wait::until(api.clone(), name, SOON, alone)
        .await
        .unwrap();
}

/// Lets go of what nothing else holds.
async fn unpin<K>(api: &Api<K>, name: &str)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    until_pinned_alone(api, name).await;
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// When it was told to go.
fn told_to_go(meta: &ObjectMeta) -> Timestamp {
    let Some(Time(moment)) = meta.deletion_timestamp else {
        panic!("it was not told to go");
    };
    moment
}

/// Since when the endpoints of east drain.
async fn drains_since(fleet: &Installed, namespace: &str) -> Timestamp {
    let slices = super::slices(fleet.hub(), namespace).await;
    let slice = slices.get("hello-endpoints-east-ipv4-0").await.unwrap();
    slice.annotations()[labels::DRAINING_SINCE].parse().unwrap()
}

/// What happens to everything of a server, in the hub and in east.
async fn everything(fleet: &Installed, namespace: &'static str) -> (Timeline, Timeline) {
    let mut hub = Timeline::new(fleet.hub(), namespace).await;
    hub.follow::<HttpRoute>(is_there).await;
    hub.follow::<EndpointSlice>(endpoints_stand).await;
    hub.follow::<Service>(is_there).await;
    let mut east = Timeline::new(fleet.member("east").unwrap(), namespace).await;
    east.follow::<HttpRoute>(is_there).await;
    east.follow::<ServerPlacement>(is_there).await;
    east.follow::<Deployment>(is_there).await;
    east.follow::<Service>(is_there).await;
    east.follow::<Pod>(is_there).await;
    (hub, east)
}

#[tokio::test]
async fn of_a_deleted_server_goes_the_route_then_the_traffic_then_the_members_part_then_what_is_published()
 {
    const NAMES: &str = "order";
    let fleet = shared().await;
    draining(&fleet, NAMES, &["east"]).await;
    let routes: Api<HttpRoute> = member(&fleet, NAMES).await;
    let placements: Api<ServerPlacement> = member(&fleet, NAMES).await;
    pin(&routes, "hello-traffic-0").await;
    pin(&placements, "hello").await;
    let (hub, east) = everything(&fleet, NAMES).await;
    let servers: Api<InferenceServer> = Api::namespaced(fleet.hub().client().await.unwrap(), NAMES);
    servers
        .delete("hello", &DeleteParams::default())
        .await
        .unwrap();

    // While the member's route can't go, its part stands, and what leads there is published.
    east.until(&["HTTPRoute hello-traffic-0: going"]).await;
    let since = drains_since(&fleet, NAMES).await;
    let route = routes.get("hello-traffic-0").await.unwrap();
    // Moments of an object are in whole seconds, cut off.
    let drained = since + SignedDuration::from_secs((DRAIN - 1).into());
    assert!(
        told_to_go(&route.metadata) >= drained,
        "{since}: {:?}",
        route.metadata
    );
    let last = [
        "HTTPRoute hello-discovery-0: gone",
        "EndpointSlice hello-endpoints-east-ipv4-0: draining",
    ];
    let told = hub.until(&last).await;
    assert_eq!(told[told.len() - 2..], last);
    assert!(
        east.told()
            .iter()
            .all(|one| one.ends_with(": there") || one.starts_with("HTTPRoute"))
    );

    // While the member has not confirmed, it is still published.
    unpin(&routes, "hello-traffic-0").await;
    until_pinned_alone(&placements, "hello").await;
    let waits = |server: &InferenceServer| {
        condition(server, "Cleanup").is_some_and(|cleanup| cleanup.message.contains("east"))
    };
    fleet.server_until(NAMES, "hello", waits).await.unwrap();
    let left = in_hub(fleet.hub(), NAMES).await;
    assert_eq!(
        left,
        [
            "Service hello-endpoints",
            "EndpointSlice hello-endpoints-east-ipv4-0"
        ]
    );
    assert_eq!(hub.told(), told);

    unpin(&placements, "hello").await;
    let gone = |server: Option<&InferenceServer>| server.is_none();
    e2e::wait::until(servers, "hello", SOON, gone)
        .await
        .unwrap();
    let told = hub.until(&["Service hello-endpoints: gone"]).await;
    in_order(
        &told,
        &[
            "EndpointSlice hello-endpoints-east-ipv4-0: draining",
            "EndpointSlice hello-endpoints-east-ipv4-0: gone",
            "Service hello-endpoints: gone",
        ],
    );
    in_order(
        &east.told(),
        &[
            "HTTPRoute hello-traffic-0: gone",
            "ServerPlacement hello: going",
            "Deployment hello: gone",
        ],
    );
}

#[tokio::test]
async fn a_target_that_becomes_another_is_provisioned_there_and_drained_here() {
    const NAMES: &str = "renamed";
    let fleet = shared().await;
    let mut wanted = draining(&fleet, NAMES, &["east"]).await;
    let mut hub = Timeline::new(fleet.hub(), NAMES).await;
    hub.follow::<EndpointSlice>(endpoints_stand).await;
    "west".clone_into(&mut wanted.spec.cluster_targets[0].cluster_id);
    fleet.apply(&wanted).await.unwrap();
    let told = hub
        .until(&[
            "EndpointSlice hello-endpoints-east-ipv4-0: gone",
            "EndpointSlice hello-endpoints-west-ipv4-0: ready",
        ])
        .await;
    in_order(
        &told,
        &[
            "EndpointSlice hello-endpoints-east-ipv4-0: ready",
            "EndpointSlice hello-endpoints-east-ipv4-0: draining",
            "EndpointSlice hello-endpoints-east-ipv4-0: gone",
        ],
    );
    let east = fleet.member("east").unwrap();
    empty("east's objects", async || in_member(east, NAMES).await).await;
    let alone = |server: &InferenceServer| {
        let status = server.status.as_ref();
        status.is_some_and(|status| {
            status.summary.clusters.text == "1/1" && status.clusters.len() == 1
        })
    };
    fleet.server_until(NAMES, "hello", alone).await.unwrap();
    fleet.ready(NAMES, "hello").await.unwrap();
}

#[tokio::test]
async fn a_gateway_that_is_deleted_drains_its_endpoints_and_comes_back() {
    const NAMES: &str = "gateless";
    let fleet = alone().await;
    draining(&fleet, NAMES, &["east", "west"]).await;
    let mut hub = Timeline::new(fleet.hub(), NAMES).await;
    hub.follow::<EndpointSlice>(endpoints_stand).await;
    let client = fleet.member("east").unwrap().client().await.unwrap();
    let gateways: Api<Gateway> = Api::namespaced(client, "infra");
    let gateway = gateways.get("public").await.unwrap();
    gateways
        .delete("public", &DeleteParams::default())
        .await
        .unwrap();

    let told = hub
        .until(&["EndpointSlice hello-endpoints-east-ipv4-0: gone"])
        .await;
    in_order(
        &told,
        &[
            "EndpointSlice hello-endpoints-east-ipv4-0: ready",
            "EndpointSlice hello-endpoints-east-ipv4-0: draining",
            "EndpointSlice hello-endpoints-east-ipv4-0: gone",
        ],
    );
    let said = |server: &InferenceServer| {
        condition(server, "EndpointPublish").is_some_and(|publish| {
            publish.reason == "GatewayNotFound" && publish.message.contains("east")
        })
    };
    fleet.server_until(NAMES, "hello", said).await.unwrap();
    until_stands(&fleet, NAMES, "west", Some("ready")).await;

    let mut again = Gateway::new("public", gateway.spec);
    again.metadata.namespace = Some("infra".to_owned());
    gateways
        .create(&PostParams::default(), &again)
        .await
        .unwrap();
    until_stands(&fleet, NAMES, "east", Some("ready")).await;
    fleet.ready(NAMES, "hello").await.unwrap();
    let told = hub.told();
    let of_west: Vec<_> = told.iter().filter(|one| one.contains("west")).collect();
    assert_eq!(
        of_west,
        ["EndpointSlice hello-endpoints-west-ipv4-0: ready"],
        "west's traffic is its own"
    );
}

/// What the hub has counted of this until now.
async fn counted(fleet: &Installed, metric: &str) -> u64 {
    let metrics = super::main_path::metrics(fleet).await;
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(metric));
    lines
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

#[tokio::test]
async fn a_server_goes_with_its_namespace_and_its_members_are_emptied() {
    const NAMES: &str = "ended";
    let fleet = alone().await;
    draining(&fleet, NAMES, &["east", "west"]).await;
    let passes = counted(&fleet, "inferfleet_hub_reconciles_total").await;
    // As it is held, it is the last that is left of the namespace.
    let servers: Api<InferenceServer> = Api::namespaced(fleet.hub().client().await.unwrap(), NAMES);
    let namespaces: Api<Namespace> = Api::all(fleet.hub().client().await.unwrap());
    let server = servers.get("hello").await.unwrap();
    let mut finalizers = server.finalizers().to_vec();
    finalizers.push(PIN.to_owned());
    let pinned = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    servers
        .patch("hello", &PatchParams::default(), &pinned)
        .await
        .unwrap();
    namespaces
        .delete(NAMES, &DeleteParams::default())
        .await
        .unwrap();

    until_pinned_alone(&servers, "hello").await;
    for name in ["east", "west"] {
        let left = in_member(fleet.member(name).unwrap(), NAMES).await;
        assert_eq!(left, Vec::<String>::new(), "{name} had confirmed");
    }
    assert_eq!(in_hub(fleet.hub(), NAMES).await, Vec::<String>::new());
    unpin(&servers, "hello").await;
    let gone = |namespace: Option<&Namespace>| namespace.is_none();
    e2e::wait::until(namespaces, NAMES, SOON, gone)
        .await
        .unwrap();
    // Some for each event of its two members and what it owned. A loop makes that many each second.
    let passes = counted(&fleet, "inferfleet_hub_reconciles_total").await - passes;
    assert!(passes < 200, "{passes} passes");
}
