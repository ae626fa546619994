//! Version `v1alpha1` of the API.
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats each struct inside a function"
)]

mod accelerator;
mod endpoint;
mod environment;
mod inference_server;
mod member_cluster;
mod routing;
mod runtime;
mod runtime_profile;
mod server_placement;
mod status;

pub use accelerator::{
    Accelerator, AcceleratorProfile, AcceleratorProfileSpec, PlacementAccelerator, ResourceName,
    RuntimeClass, RuntimeClassPolicy,
};
pub use endpoint::{
    Address, Cidr, EndpointSource, MemberEndpoint, PortReference, ServiceReference, Source,
};
pub use environment::{KeyReference, LocalReference, ServerVariable, Variable};
pub use inference_server::{
    ClusterTarget, DeletionPolicy, Disruption, EndpointPolicy, InferenceServer,
    InferenceServerSpec, ModelSpec, Overrides, ProbePolicy, Resources, Spreading, WhenSilent,
};
pub use member_cluster::{
    AllowedNamespaces, Enrollment, GatewayReference, JoinToken, MemberCluster, MemberClusterSpec,
    MemberClusterStatus, NamespacesFrom, Released,
};
pub use routing::{Header, HeaderFilter, RouteParent, RouteTimeouts, Routing, RoutingRule};
pub use runtime::{RevisionNumber, Runtime, UpdatePolicy};
pub use runtime_profile::{
    MetricsEndpoint, Probe, Probes, RuntimeImage, RuntimePort, RuntimeProfile, RuntimeProfileSpec,
    VENDOR_NONE,
};
pub use server_placement::{
    Model, ModelPhase, PlacementRuntime, ServerPlacement, ServerPlacementSpec,
};
pub use status::{
    ClusterCounts, ClusterEndpoint, ClusterState, ClusterStatus, InferenceServerStatus, Published,
    ReasonCount, ReplicaCounts, Replicas, ServerState, Summary,
};
