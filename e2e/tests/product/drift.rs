//! Whatever another hand deletes or changes of what is ours is put right, in every kind that hub and agents write; what
//! others add stays theirs.

use crds::labels;
use crds::v1alpha1::ServerPlacement;
use e2e::Cluster;
use gateway_api::apis::standard::httproutes::HttpRoute;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use super::{SOON, server, serving, shared};

const NAMES: &str = "drifted";

/// One object of ours, and what another hand may do to it.
struct Owned {
    api: Api<DynamicObject>,
    kind: String,
    name: &'static str,
    /// A change of what we say.
    change: Value,
    /// What we say of it while all is well.
    before: Value,
}

async fn owned<K>(cluster: &Cluster, name: &'static str, change: Value) -> Owned
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    let resource = ApiResource::erase::<K>(&());
    let client = cluster.client().await.unwrap();
    let api: Api<DynamicObject> = Api::namespaced_with(client, NAMES, &resource);
    let before = said(&api.get(name).await.unwrap());
    let kind = resource.kind;
    Owned {
        api,
        kind,
        name,
        change,
        before,
    }
}

/// Every kind that the hub writes, and every kind that an agent does.
async fn all(hub: &Cluster, east: &Cluster) -> Vec<Owned> {
    // A port of another number would be theirs, and stay beside ours.
    let port = json!({"spec": {"ports": [{"name": "other", "port": 80}]}});
    let rules = json!({"spec": {"rules": [{"backendRefs": [{"name": "other", "port": 81}]}]}});
    let scaled = json!({"spec": {"replicas": 3}});
    vec![
        owned::<HttpRoute>(hub, "hello-discovery-0", rules.clone()).await,
        owned::<EndpointSlice>(
            hub,
            "hello-endpoints-east-ipv4-0",
            json!({"endpoints": [{"addresses": ["203.0.113.9"]}]}),
        )
        .await,
        owned::<Service>(hub, "hello-endpoints", port.clone()).await,
        owned::<HttpRoute>(east, "hello-traffic-0", rules).await,
        owned::<Service>(east, "hello", port).await,
        owned::<Deployment>(east, "hello", scaled.clone()).await,
        owned::<ConfigMap>(
            east,
            "hello-model-config",
            json!({"data": {"model-list.json": "{}"}}),
        )
        .await,
        owned::<ServiceAccount>(east, "hello", json!({"automountServiceAccountToken": true})).await,
        owned::<ServerPlacement>(east, "hello", scaled).await,
    ]
}

/// What we say of an object: without what the API server and its controllers say.
fn said(object: &DynamicObject) -> Value {
    let mut said = object.data.clone();
    let fields = said.as_object_mut().unwrap();
    fields.remove("status");
    if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|field, _| !field.starts_with("clusterIP"));
    }
    let mut annotations = object.annotations().clone();
    annotations.retain(|name, _| name.starts_with("inferfleet.io/"));
    let mut labels = object.labels().clone();
    labels.remove("theirs");
    // A new owner has a new UID, which the hash of what we say knows.
    annotations.remove("inferfleet.io/applied-hash");
    let owners = object.owner_references().iter();
    let owners: Vec<_> = owners.map(|owner| (&owner.kind, &owner.name)).collect();
    json!({"said": said, "annotations": annotations, "labels": labels, "owners": owners})
}

impl Owned {
    async fn patch(&self, patch: &Value) {
        self.api
            .patch(self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    async fn get(&self) -> DynamicObject {
        self.api.get(self.name).await.unwrap()
    }

    /// Returns once the object is there, is not that one, and says what it said. The watch begins with what is there now: what
    /// was changed before is in it.
    async fn until_right(&self, not: Option<&str>) -> DynamicObject {
        let right = |object: Option<&DynamicObject>| {
            object
                .is_some_and(|object| object.uid().as_deref() != not && said(object) == self.before)
        };
        match e2e::wait::until(self.api.clone(), self.name, SOON, right).await {
            Ok(object) => object.unwrap(),
            Err(error) => {
                let now = self.api.get_opt(self.name).await.unwrap();
                let (kind, now, before) = (&self.kind, now.map(|now| said(&now)), &self.before);
                panic!("{kind} {error:#}: {now:?}, not {before}")
            }
        }
    }

    /// Does everything to it that another hand may do.
    async fn disturb(&self) {
        let uid = self.until_right(None).await.uid();
        self.api
            .delete(self.name, &DeleteParams::default())
            .await
            .unwrap();
        self.until_right(uid.as_deref()).await;

        // What is somebody else's, and no business of ours.
        let theirs = json!({"theirs": "kept"});
        self.patch(&json!({"metadata": {"labels": theirs, "annotations": theirs}}))
            .await;
        self.patch(&self.change).await;
        self.until_right(None).await;
        // Whose it is.
        self.patch(&json!({"metadata": {"ownerReferences": null}}))
            .await;
        self.until_right(None).await;
        // Our watches select by this label.
        self.patch(&json!({"metadata": {"labels": {labels::MANAGED_BY: null}}}))
            .await;
        self.until_right(None).await;
    }

    /// Returns once it is there for the object of that UID.
    async fn until_owned_by(&self, owner: &str) {
        let is_owned = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| {
                let mut owners = object.owner_references().iter();
                owners.any(|one| one.uid == owner)
            })
        };
        e2e::wait::until(self.api.clone(), self.name, SOON, is_owned)
            .await
            .unwrap();
    }

    async fn assert_theirs_is_kept(&self) {
        let now = self.get().await;
        let kept = Some("kept");
        let label = now.labels().get("theirs").map(String::as_str);
        let annotation = now.annotations().get("theirs").map(String::as_str);
        assert_eq!((label, annotation), (kept, kept), "{}", self.kind);
    }
}

#[tokio::test]
async fn what_another_hand_deletes_or_changes_is_put_right_in_every_kind_and_what_it_adds_is_kept()
{
    let fleet = shared().await;
    serving(&fleet, NAMES, &["east"]).await;
    let (hub, east) = (fleet.hub(), fleet.member("east").unwrap());
    let all = all(hub, east).await;
    // The owner first: with it goes what it owns, when the garbage collector comes to that.
    let (placement, others) = all.split_last().unwrap();
    placement.disturb().await;
    let owner = placement.get().await.uid().unwrap();
    let owned = others.iter().rev().filter(|one| {
        let mut owners = one.before["owners"].as_array().unwrap().iter();
        owners.any(|owner| owner[0] == placement.kind.as_str())
    });
    for one in owned {
        one.until_owned_by(&owner).await;
    }
    for one in others.iter().rev() {
        one.disturb().await;
    }
    fleet.ready(NAMES, "hello").await.unwrap();

    // A real change is written into what others have added to.
    let other = east.other_gateway_address(70).unwrap();
    let mut wanted = server(NAMES, &["east"]);
    let fixed =
        json!({"source": "Static", "addresses": [other.ip().to_string()], "port": other.port()});
    wanted.spec.cluster_targets[0].endpoint = serde_json::from_value(fixed).unwrap();
    wanted.spec.replicas = 2;
    wanted.spec.model.as_mut().unwrap().uri = "hf://example/another".to_owned();
    let rule = json!({"rules": [{"path": format!("/{NAMES}/hello/chat"), "to": "/v1/chat"}]});
    wanted.spec.routing = serde_json::from_value(rule).unwrap();
    fleet.apply(&wanted).await.unwrap();
    fleet.ready(NAMES, "hello").await.unwrap();
    for one in &all {
        one.assert_theirs_is_kept().await;
    }
    let slice = all[1].get().await;
    assert_eq!(
        slice.data["endpoints"][0]["addresses"][0],
        other.ip().to_string()
    );
    assert_eq!(all[5].get().await.data["spec"]["replicas"], 2);
}
