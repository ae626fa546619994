//! Objects of somebody else that have the name of one of ours.

use crds::v1alpha1::InferenceServer;
use e2e::Cluster;
use e2e::installed::condition;
use gateway_api::apis::standard::httproutes::HttpRoute;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use super::{namespace, server, shared};

const NAMES: &str = "foreign";

/// An object in the way of a server of its own.
struct Foreign {
    server: &'static str,
    /// Which step says so.
    step: &'static str,
    api: Api<DynamicObject>,
    made: DynamicObject,
    /// How the condition's message names it, and who owns it.
    message: String,
}

/// Makes an object of that name, which `owner` controls, if anybody does.
async fn foreign<K>(
    cluster: &Cluster,
    (server, step): (&'static str, &'static str),
    name: &str,
    owner: Option<&ConfigMap>,
    content: Value,
) -> Foreign
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    let resource = ApiResource::erase::<K>(&());
    let client = cluster.client().await.unwrap();
    let api: Api<DynamicObject> = Api::namespaced_with(client, NAMES, &resource);
    let mut object = DynamicObject::new(name, &resource).data(content);
    object.metadata.owner_references = owner
        .and_then(|owner| owner.controller_owner_ref(&()))
        .map(|owner| vec![owner]);
    let made = api.create(&PostParams::default(), &object).await.unwrap();
    let owner = owner.map_or_else(
        || "somebody who set no controller".to_owned(),
        |owner| format!("ConfigMap {} ({})", owner.name_any(), owner.uid().unwrap()),
    );
    let kind = &resource.kind;
    Foreign {
        server,
        step,
        api,
        made,
        message: format!("{kind} {NAMES}/{name} exists and belongs to {owner}"),
    }
}

/// An object that may own others.
async fn owner(cluster: &Cluster) -> ConfigMap {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client().await.unwrap(), NAMES);
    let owner = serde_json::from_value(json!({"metadata": {"name": "theirs"}})).unwrap();
    api.create(&PostParams::default(), &owner).await.unwrap()
}

/// One of each kind that is in the way in the hub, and of each step in a member.
async fn all(hub: &Cluster, east: &Cluster) -> Vec<Foreign> {
    let (in_hub, in_east) = (owner(hub).await, owner(east).await);
    let (in_hub, in_east) = (Some(&in_hub), Some(&in_east));
    let service = json!({"spec": {"ports": [{"port": 1234}]}});
    let slice = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["203.0.113.9"]}]});
    let route = json!({"spec": {"hostnames": ["theirs.example.com"]}});
    let deployment = json!({"spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "theirs"}},
        "template": {
            "metadata": {"labels": {"app": "theirs"}},
            "spec": {"containers": [{"name": "theirs", "image": "test.invalid/theirs:1"}]},
        },
    }});
    let (publish, lead) = ("EndpointPublish", "DiscoveryRouteProvision");
    let provision = "BackendProvision";
    vec![
        foreign::<Service>(
            hub,
            ("of-nobody", publish),
            "of-nobody-endpoints",
            None,
            service.clone(),
        )
        .await,
        foreign::<Service>(
            hub,
            ("service", publish),
            "service-endpoints",
            in_hub,
            service.clone(),
        )
        .await,
        foreign::<EndpointSlice>(
            hub,
            ("slice", publish),
            "slice-endpoints-east-ipv4-0",
            in_hub,
            slice,
        )
        .await,
        foreign::<HttpRoute>(
            hub,
            ("route", lead),
            "route-discovery-0",
            in_hub,
            route.clone(),
        )
        .await,
        foreign::<Deployment>(
            east,
            ("deployment", provision),
            "deployment",
            in_east,
            deployment,
        )
        .await,
        foreign::<Service>(east, ("backend", provision), "backend", in_east, service).await,
        foreign::<ConfigMap>(
            east,
            ("models", "ModelConfigProvision"),
            "models-model-config",
            in_east,
            json!({"data": {}}),
        )
        .await,
        foreign::<HttpRoute>(
            east,
            ("traffic", "TrafficRouteProvision"),
            "traffic-traffic-0",
            in_east,
            route,
        )
        .await,
    ]
}

#[tokio::test]
async fn an_object_of_somebody_else_is_never_touched_and_its_owner_is_named() {
    let fleet = shared().await;
    namespace(&fleet, NAMES).await;
    let all = all(fleet.hub(), fleet.member("east").unwrap()).await;
    for one in &all {
        let mut wanted = server(NAMES, &["east"]);
        wanted.metadata.name = Some(one.server.to_owned());
        fleet.apply(&wanted).await.unwrap();
    }
    for one in &all {
        let told = |server: &InferenceServer| {
            condition(server, one.step).is_some_and(|condition| {
                condition.status == "False"
                    && condition.reason == "NameConflict"
                    && condition.message.contains(&one.message)
            })
        };
        let told = fleet.server_until(NAMES, one.server, told).await;
        told.unwrap_or_else(|error| panic!("{}: {error:#}", one.message));
    }
    for one in &all {
        let now = one.api.get(&one.made.name_any()).await.unwrap();
        // Its own controllers may count it: what it says, and whose it is, is as it was.
        let said = |object: &DynamicObject| {
            let mut data = object.data.clone();
            data.as_object_mut().unwrap().remove("status");
            (
                object.metadata.owner_references.clone(),
                object.metadata.labels.clone(),
                data,
            )
        };
        assert_eq!(said(&now), said(&one.made), "{}", one.message);
        assert_eq!(
            now.metadata.generation, one.made.metadata.generation,
            "{}",
            one.message
        );
        let managers = now.metadata.managed_fields.into_iter().flatten();
        let ours = managers
            .filter_map(|entry| entry.manager)
            .find(|name| name.starts_with("inferfleet"));
        assert_eq!(ours, None, "{}", one.message);
    }
}
