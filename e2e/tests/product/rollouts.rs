//! A server that is changed while it serves, and its profile.

use crds::v1alpha1::{InferenceServer, RevisionNumber, RuntimeProfile};
use e2e::Installed;
use e2e::installed::NAMESPACE;
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{SOON, namespace, server, shared};

/// Waits until a member has rolled its Deployment out, with so many replicas, and it is as asked.
async fn rolled_out(
    fleet: &Installed,
    (member, namespace): (&str, &str),
    replicas: i32,
    is_asked: impl Fn(&Container) -> bool,
) {
    let client = fleet.member(member).unwrap().client().await.unwrap();
    let api: Api<Deployment> = Api::namespaced(client, namespace);
    let changed = |deployment: Option<&Deployment>| {
        let spec = deployment.and_then(|deployment| deployment.spec.as_ref());
        let status = deployment.and_then(|deployment| deployment.status.as_ref());
        let pod = spec.and_then(|spec| spec.template.spec.as_ref());
        let counts = |status: &DeploymentStatus| {
            [
                status.replicas,
                status.updated_replicas,
                status.ready_replicas,
            ]
        };
        let judged = status.and_then(|status| status.observed_generation);
        pod.is_some_and(|pod| is_asked(&pod.containers[0]))
            && judged == deployment.and_then(|deployment| deployment.metadata.generation)
            && status.map(counts) == Some([Some(replicas); 3])
    };
    e2e::wait::until(api, "hello", SOON, changed).await.unwrap();
}

#[tokio::test]
async fn changed_replicas_and_resources_roll_out_in_every_member() {
    let fleet = shared().await;
    namespace(&fleet, "changed").await;
    let mut wanted = server("changed", &["east", "west"]);
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("changed", "hello").await.unwrap();

    wanted.spec.replicas = 2;
    let resources = json!({"requests": {"cpu": "11m", "memory": "17Mi"}});
    wanted.spec.resources = serde_json::from_value(resources).unwrap();
    fleet.apply(&wanted).await.unwrap();
    let ready = fleet.ready("changed", "hello").await.unwrap();
    assert_eq!(ready.status.unwrap().summary.replicas.text, "4/4");
    let asks = |container: &Container| {
        let resources = container.resources.as_ref();
        let requests = resources.and_then(|resources| resources.requests.as_ref());
        let asks = |name: &str, text: &str| {
            requests.and_then(|requests| requests.get(name)) == Some(&Quantity(text.to_owned()))
        };
        asks("cpu", "11m") && asks("memory", "17Mi")
    };
    for name in ["east", "west"] {
        rolled_out(&fleet, (name, "changed"), 2, asks).await;
    }
}

#[tokio::test]
async fn an_edited_profile_restarts_nothing_until_its_revision_is_named() {
    let fleet = shared().await;
    namespace(&fleet, "pinned").await;
    let hub = fleet.hub().client().await.unwrap();
    let profiles: Api<RuntimeProfile> = Api::all(hub.clone());
    let mut profile = profiles.get("echo").await.unwrap();
    profile.metadata = ObjectMeta {
        name: Some("changing".to_owned()),
        ..ObjectMeta::default()
    };
    let created = profiles.create(&PostParams::default(), &profile).await;
    let first = created.unwrap().spec.images[0].image.clone();
    let mut wanted = server("pinned", &["east", "west"]);
    "changing".clone_into(&mut wanted.spec.runtime.profile);
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("pinned", "hello").await.unwrap();

    // Of an image's name the bed runs every tag.
    let second = format!("{first}-other");
    let images = Patch::Merge(json!({"spec": {"images": [{"vendor": "none", "image": second}]}}));
    let parameters = PatchParams::default();
    let edited = profiles.patch("changing", &parameters, &images).await;
    edited.unwrap();
    let records: Api<ControllerRevision> = Api::namespaced(hub, NAMESPACE);
    let is_there = |record: Option<&ControllerRevision>| record.is_some();
    let record = e2e::wait::until(records, "runtimeprofile-changing-2", SOON, is_there).await;
    record.unwrap();
    // What members are told after it has the image of before.
    wanted.spec.replicas = 2;
    fleet.apply(&wanted).await.unwrap();
    let is_first = |container: &Container| container.image.as_ref() == Some(&first);
    for name in ["east", "west"] {
        rolled_out(&fleet, (name, "pinned"), 2, is_first).await;
    }
    wanted.spec.runtime.profile_revision = Some(RevisionNumber("2".to_owned()));
    fleet.apply(&wanted).await.unwrap();
    let is_second = |container: &Container| container.image.as_ref() == Some(&second);
    for name in ["east", "west"] {
        rolled_out(&fleet, (name, "pinned"), 2, is_second).await;
    }
    let moved = |server: &InferenceServer| {
        let status = server.status.as_ref();
        status.and_then(|status| status.profile_revision.as_deref()) == Some("2")
    };
    let moved = fleet.server_until("pinned", "hello", moved).await;
    moved.unwrap();
}
