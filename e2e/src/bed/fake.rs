//! Fake nodes: kwok plays the kubelet for nodes that don't exist and for all Pods on them.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::addresses::Addresses;
use super::controlplane::program;
use super::manifests;
use super::net::Netns;
use super::pki::Pki;
use super::process::Recipe;
use crate::control::ClusterSpec;

/// The label that says which kind of node it is: `fake` or `process`.
pub(crate) const NODE_LABEL: &str = "bed.inferfleet.io/node";

/// Adds the nodes and starts kwok, if any are wanted.
pub(crate) async fn start(
    spec: &ClusterSpec,
    addresses: Addresses,
    netns: &Netns,
    pki: &Pki,
    client: &Client,
) -> Result<()> {
    if spec.fake_nodes == 0 {
        return Ok(());
    }
    let kubeconfig = pki.kubeconfig(addresses, "bed:kwok", Some("system:masters"))?;
    Recipe::new("kwok", program(spec, "kwok")?, &spec.folder)
        .flag("kubeconfig", &kubeconfig)
        .flag("config", spec.manifests.join("kwok").join("stages.yaml"))
        .flag("manage-all-nodes", "false")
        .flag("manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake")
        .flag("cidr", format!("{}/17", addresses.pod(0x8000)))
        .flag("node-ip", addresses.node().to_string())
        .flag("node-lease-duration-seconds", "40")
        .start(netns)
        .await?;
    for number in 0..spec.fake_nodes {
        manifests::apply(client, &node(number)).await?;
        // Before kwok fills in the rest: it keeps a capacity that is there.
        let nodes = Api::<Node>::all(client.clone());
        let status = Patch::Merge(json!({"status": status(spec)}));
        nodes.patch_status(&name(number), &PatchParams::default(), &status).await?;
    }
    for object in placement_policy(spec) {
        manifests::apply(client, &object).await?;
    }
    Ok(())
}

fn name(number: usize) -> String {
    format!("fake-{number}")
}

fn node(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name(number),
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/hostname": name(number),
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                NODE_LABEL: "fake",
            },
        },
    })
}

fn status(spec: &ClusterSpec) -> Value {
    let mut resources: BTreeMap<&str, &str> = [("cpu", "64"), ("memory", "256Gi"), ("pods", "250")].into();
    resources.extend(spec.fake_capacity.iter().map(|(name, amount)| (name.as_str(), amount.as_str())));
    json!({"capacity": resources, "allocatable": resources})
}

/// Where both kinds of node exist, a Pod goes where it can run: images that stand for a program to the
/// process node, all others to fake nodes. A Pod with a node selector of its own is left alone.
fn placement_policy(spec: &ClusterSpec) -> Vec<Value> {
    let images: Vec<_> = spec.images.keys().map(|image| json!(format!("{image}:")).to_string()).collect();
    let known = format!(
        "object.spec.containers.all(c, [{}].exists(i, (c.image + ':').contains(i)))",
        images.join(", ")
    );
    // Server-side apply can't set a part of a selector, which is atomic; a JSON patch can add one.
    let selector = format!("{{'{NODE_LABEL}': {known} ? 'process' : 'fake'}}");
    let patch = format!("[JSONPatch{{op: 'add', path: '/spec/nodeSelector', value: {selector}}}]");
    vec![
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": "bed-placement"},
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
                }]},
                "matchConditions": [{"name": "free", "expression":
                    "!has(object.spec.nodeSelector) && !has(object.spec.nodeName)"}],
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": "bed-placement"},
            "spec": {"policyName": "bed-placement"},
        }),
    ]
}
