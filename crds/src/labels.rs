//! Every label, annotation, finalizer and field manager that Inferfleet writes.

/// On each object that a component applies: which component, so that its watches see nothing else.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The recommended label of Kubernetes for the name of an application.
pub const APP_NAME: &str = "app.kubernetes.io/name";

/// The field manager of the hub, and its value of [`MANAGED_BY`].
pub const HUB: &str = "inferfleet-hub";

/// The field manager of an agent, and its value of [`MANAGED_BY`].
pub const AGENT: &str = "inferfleet-agent";

/// Name of the InferenceServer that an object serves. The one label in Pod selectors: it never changes.
pub const SERVER: &str = "inferfleet.io/server";

/// Name of the MemberCluster that an EndpointSlice speaks of.
pub const CLUSTER: &str = "inferfleet.io/cluster";

/// The label of the Multi-Cluster Services API (KEP-1645) for the same.
pub const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";

/// Ties an EndpointSlice to its Service (EndpointSlice API).
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Who keeps an EndpointSlice (EndpointSlice API).
pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Our value of [`SLICE_MANAGED_BY`].
pub const SLICE_MANAGER: &str = "inferfleet.io";

/// Annotation of an InferenceServer: the revisions of the profiles that it is pinned to, by name, as JSON.
pub const PROFILE_REVISIONS: &str = "inferfleet.io/profile-revisions";

/// Label of a ControllerRevision: the name of the profile that it is of.
pub const PROFILE: &str = "inferfleet.io/profile";

/// Annotation of an EndpointSlice: since when its endpoints drain (RFC 3339).
pub const DRAINING_SINCE: &str = "inferfleet.io/draining-since";

/// Annotation of an EndpointSlice: since when the cluster could not be heard that had served, and was made unready for it
/// (RFC 3339).
pub const SILENT_SINCE: &str = "inferfleet.io/silent-since";

/// Annotation of an EndpointSlice: the host names that addresses of its cluster came from, with a comma between two.
pub const HOSTNAMES: &str = "inferfleet.io/hostnames";

/// Annotation of a ServerPlacement: UID of the InferenceServer in the hub.
pub const SERVER_UID: &str = "inferfleet.io/server-uid";

/// Annotation of a ServerPlacement: the hub's generation of its value.
pub const GENERATION: &str = "inferfleet.io/generation";

/// Annotation of a ServerPlacement: SHA-256 of its value as the hub sent it, hexadecimal.
pub const HASH: &str = "inferfleet.io/hash";

/// Finalizer of a MemberCluster: held until its part is gone, or its agent can't be heard.
pub const LEAVE: &str = "inferfleet.io/leave";

/// Finalizer of an InferenceServer: held until every member has confirmed that its part is gone.
pub const CLEANUP: &str = "inferfleet.io/cleanup";

/// The response header that a traffic route puts on its probe path: UID of the InferenceServer.
pub const PLACEMENT_HEADER: &str = "inferfleet-placement";
