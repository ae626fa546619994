//! A server that is changed while it serves, and its profile.

use crds::v1alpha1::RuntimeProfile;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{SOON, namespace, server, shared};

#[tokio::test]
async fn changed_replicas_resources_and_images_roll_out_in_every_member() {
    let fleet = shared().await;
    namespace(&fleet, "changed").await;
    let profiles: Api<RuntimeProfile> = Api::all(fleet.hub().client().await.unwrap());
    let mut profile = profiles.get("echo").await.unwrap();
    profile.metadata = ObjectMeta {
        name: Some("changing".to_owned()),
        ..ObjectMeta::default()
    };
    let profile = profiles
        .create(&PostParams::default(), &profile)
        .await
        .unwrap();
    let mut wanted = server("changed", &["east", "west"]);
    "changing".clone_into(&mut wanted.spec.runtime.profile);
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("changed", "hello").await.unwrap();

    wanted.spec.replicas = 2;
    let resources = json!({"requests": {"cpu": "11m", "memory": "17Mi"}});
    wanted.spec.resources = serde_json::from_value(resources).unwrap();
    fleet.apply(&wanted).await.unwrap();
    let ready = fleet.ready("changed", "hello").await.unwrap();
    assert_eq!(ready.status.unwrap().summary.replicas.text, "4/4");
    // Of an image's name the bed runs every tag.
    let image = format!("{}-other", profile.spec.images[0].image);
    let images = Patch::Merge(json!({"spec": {"images": [{"vendor": "none", "image": image}]}}));
    profiles
        .patch("changing", &PatchParams::default(), &images)
        .await
        .unwrap();

    for name in ["east", "west"] {
        let member = fleet.member(name).unwrap();
        let api: Api<Deployment> = Api::namespaced(member.client().await.unwrap(), "changed");
        let changed = |deployment: Option<&Deployment>| {
            let spec = deployment.and_then(|deployment| deployment.spec.as_ref());
            let status = deployment.and_then(|deployment| deployment.status.as_ref());
            let pod = spec.and_then(|spec| spec.template.spec.as_ref());
            let runs = pod.and_then(|pod| pod.containers[0].image.as_deref());
            let counts = |status: &DeploymentStatus| {
                [
                    status.replicas,
                    status.updated_replicas,
                    status.ready_replicas,
                ]
            };
            let judged = status.and_then(|status| status.observed_generation);
            runs == Some(image.as_str())
                && judged == deployment.and_then(|deployment| deployment.metadata.generation)
                && status.map(counts) == Some([Some(2); 3])
        };
        let changed = e2e::wait::until(api, "hello", SOON, changed).await;
        let spec = changed.unwrap().unwrap().spec.unwrap();
        let container = spec.template.spec.unwrap().containers.remove(0);
        let requests = container.resources.unwrap().requests.unwrap();
        let quantity = |text: &str| Some(Quantity(text.to_owned()));
        assert_eq!(requests.get("cpu").cloned(), quantity("11m"), "{name}");
        assert_eq!(requests.get("memory").cloned(), quantity("17Mi"), "{name}");
    }
    fleet.ready("changed", "hello").await.unwrap();
}
