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

/// What is in the way in the hub: one of each kind, and a Service of nobody.
async fn in_hub(hub: &Cluster) -> Vec<Foreign> {
    let owner = owner(hub).await;
    let owner = Some(&owner);
    let service = json!({"spec": {"ports": [{"port": 1234}]}});
    let slice = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["203.0.113.9"]}]});
    let route = json!({"spec": {"hostnames": ["theirs.example.com"]}});
    let publishes = |server| (server, "EndpointPublish");
    let (nobodys, one) = (publishes("nobodys"), publishes("service"));
    let leads = ("route", "DiscoveryRouteProvision");
    let of_slice = publishes("slice");
    vec![
        foreign::<Service>(hub, nobodys, "nobodys-endpoints", None, service.clone()).await,
        foreign::<Service>(hub, one, "service-endpoints", owner, service).await,
        foreign::<EndpointSlice>(hub, of_slice, "slice-endpoints-east-ipv4-0", owner, slice).await,
        foreign::<HttpRoute>(hub, leads, "route-discovery-0", owner, route).await,
    ]
}

/// What is in the way in a member: one for each step, and a Service.
async fn in_member(east: &Cluster) -> Vec<Foreign> {
    let owner = owner(east).await;
    let owner = Some(&owner);
    let service = json!({"spec": {"ports": [{"port": 1234}]}});
    let route = json!({"spec": {"hostnames": ["theirs.example.com"]}});
    let deployment = json!({"spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "theirs"}},
        "template": {
            "metadata": {"labels": {"app": "theirs"}},
            "spec": {"containers": [{"name": "theirs", "image": "test.invalid/theirs:1"}]},
        },
    }});
    let models = json!({"data": {"theirs": "kept"}});
    let provisions = |server| (server, "BackendProvision");
    let (runs, backend) = (provisions("deployment"), provisions("backend"));
    let lists = ("models", "ModelConfigProvision");
    let leads = ("traffic", "TrafficRouteProvision");
    vec![
        foreign::<Deployment>(east, runs, "deployment", owner, deployment).await,
        foreign::<Service>(east, backend, "backend", owner, service).await,
        foreign::<ConfigMap>(east, lists, "models-model-config", owner, models).await,
        foreign::<HttpRoute>(east, leads, "traffic-traffic-0", owner, route).await,
    ]
}

#[tokio::test]
async fn an_object_of_somebody_else_is_never_touched_and_its_owner_is_named() {
    let fleet = shared().await;
    namespace(&fleet, NAMES).await;
    let mut all = in_hub(fleet.hub()).await;
    all.extend(in_member(fleet.member("east").unwrap()).await);
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
