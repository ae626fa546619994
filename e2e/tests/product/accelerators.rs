//! A server that needs an accelerator, in a member that gains what it needs while its agent runs.

use crds::v1alpha1::{AcceleratorProfile, InferenceServer, RuntimeProfile};
use e2e::Installed;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, PodSpec};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{SOON, namespace, server, shared};

/// The resource of the profile of that name: another for each test, since the nodes are the same.
fn resource(profile: &str) -> String {
    format!("chips.example.com/{profile}")
}

/// The Pod of a Deployment's template.
fn template(deployment: Option<&Deployment>) -> Option<&PodSpec> {
    deployment?.spec.as_ref()?.template.spec.as_ref()
}

fn class(deployment: Option<&Deployment>) -> Option<&str> {
    template(deployment)?.runtime_class_name.as_deref()
}

/// A server that asks for two chips by a profile of that name.
async fn asking(fleet: &Installed, namespace: &str, profile: &str) -> InferenceServer {
    super::namespace(fleet, namespace).await;
    let mut wanted = server(namespace, &["east"]);
    let accelerator = json!({"profile": profile, "count": 2});
    wanted.spec.accelerator = serde_json::from_value(accelerator).unwrap();
    // The profile's image of vendor none does for a chip that does not exist.
    wanted.spec.runtime.image = Some(echo_image(fleet).await);
    wanted
}

/// There is an AcceleratorProfile of that name, with a RuntimeClass that is called the same.
async fn describe(fleet: &Installed, name: &str) {
    let spec = json!({
        "vendor": "example", "resourceName": resource(name), "runtimeClass": {"name": name},
    });
    let profile = AcceleratorProfile::new(name, serde_json::from_value(spec).unwrap());
    let profiles: Api<AcceleratorProfile> = Api::all(fleet.hub().client().await.unwrap());
    let created = profiles.create(&PostParams::default(), &profile).await;
    created.unwrap();
}

/// The nodes have chips of a profile, as a device plugin would have it.
async fn plug_in(member: &kube::Client, profile: &str) {
    let nodes: Api<Node> = Api::all(member.clone());
    for node in nodes.list(&ListParams::default()).await.unwrap() {
        let chips = json!({resource(profile): "16"});
        let status = Patch::Merge(json!({"status": {"capacity": chips, "allocatable": chips}}));
        let (name, parameters) = (node.name_any(), PatchParams::default());
        let patched = nodes.patch_status(&name, &parameters, &status).await;
        patched.unwrap();
    }
}

#[tokio::test]
async fn a_server_serves_once_the_accelerator_that_it_asks_for_is_known_and_there() {
    let fleet = shared().await;
    let wanted = asking(&fleet, "accelerated", "npu-late").await;
    fleet.apply(&wanted).await.unwrap();
    let missing = |server: &InferenceServer| {
        let status = server.status.as_ref();
        status.is_some_and(|status| status.summary.reason == "AcceleratorProfileNotFound")
    };
    let named = fleet.server_until("accelerated", "hello", missing).await;
    named.unwrap();

    describe(&fleet, "npu-late").await;
    let unschedulable = |server: &InferenceServer| {
        let mut clusters = server.status.iter().flat_map(|status| &status.clusters);
        clusters.any(|cluster| {
            cluster.reason == "Unschedulable" && cluster.message.contains(&resource("npu-late"))
        })
    };
    let waits = fleet
        .server_until("accelerated", "hello", unschedulable)
        .await;
    waits.unwrap();

    let member = fleet.member("east").unwrap().client().await.unwrap();
    plug_in(&member, "npu-late").await;
    fleet.ready("accelerated", "hello").await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(member, "accelerated");
    let deployment = deployments.get("hello").await.unwrap();
    assert_eq!(class(Some(&deployment)), None);
    let container = &template(Some(&deployment)).unwrap().containers[0];
    let resources = container.resources.as_ref().unwrap();
    assert_eq!(
        resources.limits.as_ref().unwrap()[&resource("npu-late")].0,
        "2"
    );
}

#[tokio::test]
async fn a_runtime_class_that_appears_is_taken_and_one_that_goes_restarts_nothing() {
    let fleet = shared().await;
    let member = fleet.member("east").unwrap().client().await.unwrap();
    plug_in(&member, "npu-classed").await;
    describe(&fleet, "npu-classed").await;
    let mut wanted = asking(&fleet, "classed", "npu-classed").await;
    fleet.apply(&wanted).await.unwrap();
    fleet.ready("classed", "hello").await.unwrap();

    let deployments: Api<Deployment> = Api::namespaced(member.clone(), "classed");
    let classes: Api<RuntimeClass> = Api::all(member);
    let npu = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "npu-classed"}, "handler": "npu",
    });
    let npu: RuntimeClass = serde_json::from_value(npu).unwrap();
    classes.create(&PostParams::default(), &npu).await.unwrap();
    let has_class = |deployment: Option<&Deployment>| class(deployment) == Some("npu-classed");
    let taken = e2e::wait::until(deployments.clone(), "hello", SOON, has_class).await;
    taken.unwrap();
    fleet.ready("classed", "hello").await.unwrap();

    let gone = classes
        .delete("npu-classed", &DeleteParams::default())
        .await;
    gone.unwrap();
    wanted.spec.replicas += 1;
    fleet.apply(&wanted).await.unwrap();
    let scaled = |deployment: Option<&Deployment>| {
        let spec = deployment.and_then(|deployment| deployment.spec.as_ref());
        spec.is_some_and(|spec| spec.replicas == i32::try_from(wanted.spec.replicas).ok())
    };
    let scaled = e2e::wait::until(deployments, "hello", SOON, scaled).await;
    assert_eq!(class(scaled.unwrap().as_ref()), Some("npu-classed"));
}

/// The image that the profile `echo` runs.
async fn echo_image(fleet: &Installed) -> String {
    let profiles: Api<RuntimeProfile> = Api::all(fleet.hub().client().await.unwrap());
    let echo = profiles.get("echo").await.unwrap();
    echo.spec.images[0].image.clone()
}

#[tokio::test]
async fn several_replicas_have_a_budget_for_disruptions_and_one_has_none() {
    let fleet = shared().await;
    namespace(&fleet, "budget").await;
    let mut wanted = server("budget", &["east"]);
    wanted.spec.replicas = 2;
    fleet.apply(&wanted).await.unwrap();
    let member = fleet.member("east").unwrap().client().await.unwrap();
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(member, "budget");
    let allows_one = |budget: Option<&PodDisruptionBudget>| {
        let status = budget.and_then(|budget| budget.status.as_ref());
        status.is_some_and(|status| status.expected_pods == 2 && status.disruptions_allowed == 1)
    };
    e2e::wait::until(budgets.clone(), "hello", SOON, allows_one)
        .await
        .unwrap();
    wanted.spec.replicas = 1;
    fleet.apply(&wanted).await.unwrap();
    let is_gone = |budget: Option<&PodDisruptionBudget>| budget.is_none();
    e2e::wait::until(budgets, "hello", SOON, is_gone)
        .await
        .unwrap();
}
