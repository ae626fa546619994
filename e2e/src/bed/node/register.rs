//! The node as the API server sees it: its Node object and its Lease.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::NODE;
use crate::bed::addresses::Addresses;
use crate::bed::fake::NODE_LABEL;
use crate::bed::manifests::{self, MANAGER};
use crate::clock;

/// A kubelet's lease: 40 s long, renewed every 10 s.
const LEASE_SECONDS: i32 = 40;
const RENEW_EVERY: Duration = Duration::from_secs(10);

pub(super) async fn node(client: &Client, addresses: Addresses) -> Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": NODE, "labels": {
            "kubernetes.io/hostname": NODE,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            NODE_LABEL: "process",
        }},
        "spec": {"podCIDR": addresses.pods().to_string()},
    });
    manifests::apply(client, &object).await.context("register the process node")?;
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(client.clone());
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    nodes.patch_status(NODE, &params, &Patch::Strategic(json!({"status": status(addresses)}))).await?;
    Ok(())
}

fn status(addresses: Addresses) -> Value {
    let resources = json!({"cpu": "64", "memory": "64Gi", "pods": "250", "ephemeral-storage": "64Gi"});
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": "the test bed's process node",
            "lastHeartbeatTime": clock::time(), "lastTransitionTime": clock::time(),
        })
    };
    json!({
        "capacity": resources,
        "allocatable": resources,
        "addresses": [
            {"type": "InternalIP", "address": addresses.node().to_string()},
            {"type": "Hostname", "address": NODE},
        ],
        "conditions": [
            condition("Ready", "True", "KubeletReady"),
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID"),
        ],
        "nodeInfo": {
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "operatingSystem": "linux", "osImage": "this machine", "kernelVersion": "this machine's",
            "containerRuntimeVersion": "process://1", "kubeletVersion": "v0.0.0-bed", "kubeProxyVersion": "",
            "bootID": "", "machineID": "", "systemUUID": "",
        },
    })
}

/// Renews the Lease for ever. A failure is tried again with the next turn, as a kubelet does.
pub(super) async fn keep_lease(client: Client) -> Result<()> {
    let leases = Api::<Lease>::namespaced(client, "kube-node-lease");
    let mut turns = tokio::time::interval(RENEW_EVERY);
    loop {
        turns.tick().await;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": NODE},
            "spec": {
                "holderIdentity": NODE, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": clock::micro_time(),
            },
        });
        let params = PatchParams::apply(MANAGER).force();
        if let Err(error) = leases.patch(NODE, &params, &Patch::Apply(&lease)).await {
            tracing::debug!(%error, "renew the node's lease");
        }
    }
}
