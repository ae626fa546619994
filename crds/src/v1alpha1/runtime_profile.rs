//! `RuntimeProfile`: a serving runtime as data.

use k8s_openapi::api::core::v1::SecurityContext;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::environment::Variable;
use crate::Quantity;

/// The vendor of an image that needs no accelerator.
pub const VENDOR_NONE: &str = "none";

/// A serving runtime as data: adding one needs no code.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "inferfleet.io",
    version = "v1alpha1",
    kind = "RuntimeProfile",
    doc = "A serving runtime as data.",
    plural = "runtimeprofiles",
    shortname = "rtp",
    category = "inferfleet",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Image","type":"string","jsonPath":".spec.images[0].image"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    validation = Rule::new("size(self.metadata.name) <= 63").message("metadata.name must have at most 63 characters: its revisions are labelled with it"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.metrics) || self.ports.exists(port, port.name == self.metrics.port)").message("metrics.port must be the name of one of ports"))]
pub struct RuntimeProfileSpec {
    /// The images, one per accelerator vendor.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["vendor".to_owned()]))]
    #[schemars(length(min = 1, max = 32))]
    pub images: Vec<RuntimeImage>,

    /// The command. The image's own when empty. In here, in `args`, in the values of `env` and in the paths of `probes`, `$(…)`
    /// stands for one of `model.name`, `model.uri`, `model.path`, `accelerator.count` and `port.<name>`, and nothing else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 2048)))]
    pub command: Vec<String>,

    /// Arguments of the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 2048)))]
    pub args: Vec<String>,

    /// Environment variables. A server's own of the same name beats one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    #[schemars(length(max = 64))]
    pub env: Vec<Variable>,

    /// The ports that the runtime listens at. One is named `http`: it takes the traffic.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]), validation = Rule::new("self.exists(port, port.name == 'http')").message("one port must be named http: it takes the traffic"))]
    #[schemars(length(min = 1, max = 16))]
    pub ports: Vec<RuntimePort>,

    /// When the runtime has started, is ready, is alive.
    pub probes: Probes,

    /// Where the runtime shows its metrics. Each Pod is annotated with it, as Prometheus' usual configuration reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsEndpoint>,

    /// Size of the shared memory at `/dev/shm`, which counts as memory of the Pod. What the container runtime gives when absent,
    /// most often 64 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_memory: Option<Quantity>,

    /// What the container may do, as in a Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,

    /// How long a replica may take to finish its requests before it ends, in seconds.
    #[serde(default = "thirty")]
    #[schemars(range(min = 0, max = 86_400))]
    pub drain_seconds: u32,
}

/// The image for the accelerators of one vendor.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeImage {
    /// The vendor; `none` for an image that needs no accelerator.
    #[serde(default = "none")]
    #[schemars(length(min = 1, max = 63))]
    pub vendor: String,
    /// The image reference.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
}

/// Where the runtime shows its metrics.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricsEndpoint {
    /// Name of one of `ports`.
    #[schemars(length(min = 1, max = 15))]
    pub port: String,
    /// The path.
    #[serde(default = "metrics_path")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = Rule::new("self.startsWith('/')").message("must start with /"))]
    pub path: String,
}

/// A port of the runtime.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimePort {
    /// The port's name: `http`, `metrics`, …
    #[schemars(length(min = 1, max = 15))]
    pub name: String,
    /// The port's number.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: u16,
}

/// When the runtime has started, is ready, is alive.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probes {
    /// Until it succeeds, the others wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<Probe>,
    /// While it succeeds, the replica takes traffic. The fleet probes its path from outside too.
    pub readiness: Probe,
    /// When it fails, the replica restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness: Option<Probe>,
}

/// A GET at the port `http` that has to answer 2xx or 3xx.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// The path.
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = Rule::new("self.startsWith('/')").message("must start with /"))]
    pub path: String,
    /// For how long it may fail, in seconds, before the failure counts. Kubernetes' default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub failure_seconds: Option<u32>,
}

fn metrics_path() -> String {
    "/metrics".to_owned()
}

const fn thirty() -> u32 {
    30
}

fn none() -> String {
    VENDOR_NONE.to_owned()
}
