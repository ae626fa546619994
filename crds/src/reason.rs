//! Every reason that a condition or a report can give, but for `HashMismatch` of the session itself. A reason is for programs; the sentence beside it is for people.

/// All is as it should be.
pub const SERVING: &str = "Serving";
/// A step is done.
pub const PROVISIONED: &str = "Provisioned";
/// The specification can be carried out.
pub const VALID: &str = "Valid";
/// What was to go is gone.
pub const REMOVED: &str = "Removed";
/// The InferenceServer is being deleted.
pub const DELETING: &str = "Deleting";
/// The members are being emptied, since spec.decommission says so.
pub const DECOMMISSIONING: &str = "Decommissioning";
/// Every member is empty, since spec.decommission says so.
pub const DECOMMISSIONED: &str = "Decommissioned";
/// The MemberCluster is being deleted.
pub const CLUSTER_LEAVING: &str = "ClusterLeaving";

/// A target names a MemberCluster that does not exist.
pub const CLUSTER_NOT_FOUND: &str = "ClusterNotFound";
/// A target's MemberCluster has no live session, or has not reported in it.
pub const CLUSTER_NOT_CONNECTED: &str = "ClusterNotConnected";
/// So much of the fleet fell silent at once that the hub suspects itself: nothing is taken for lost.
pub const FLEET_SILENT: &str = "FleetSilent";
/// A cluster that could not be heard is back, and has to stay a while before it takes traffic again.
pub const SETTLING: &str = "Settling";
/// The hub has not reached the endpoint yet, and it takes no traffic before.
pub const PROBING: &str = "Probing";
/// The hub does not reach the model servers at the endpoint.
pub const ENDPOINT_UNREACHABLE: &str = "EndpointUnreachable";
/// The endpoint takes no new traffic, on its way out; or replicas of an older revision are still to leave.
pub const DRAINING: &str = "Draining";
/// A target's MemberCluster takes no servers of this namespace.
pub const NAMESPACE_NOT_ALLOWED: &str = "NamespaceNotAllowed";
/// A target's MemberCluster never enrolled.
pub const CLUSTER_NOT_JOINED: &str = "ClusterNotJoined";
/// `spec.runtime.profile` names a RuntimeProfile that does not exist.
pub const PROFILE_NOT_FOUND: &str = "RuntimeProfileNotFound";
/// There is no such revision of the RuntimeProfile as `spec.runtime.profileRevision` names, or as the server is pinned to.
pub const PROFILE_REVISION_NOT_FOUND: &str = "ProfileRevisionNotFound";
/// What a profile says is not recorded yet: no server is given what its next edit would change.
pub const RECORDING_PROFILE: &str = "RecordingProfile";
/// The RuntimeProfile asks for something that can't be rendered.
pub const INVALID_PROFILE: &str = "InvalidProfile";
/// `spec.accelerator` names an AcceleratorProfile that does not exist.
pub const ACCELERATOR_PROFILE_NOT_FOUND: &str = "AcceleratorProfileNotFound";
/// `spec.accelerator` asks for something that can't be.
pub const INVALID_ACCELERATOR: &str = "InvalidAccelerator";
/// The RuntimeProfile has no image for the vendor of the accelerator.
pub const BACKEND_UNSUPPORTED: &str = "BackendUnsupported";
/// The namespace is one that routes need for themselves.
pub const NAMESPACE_REFUSED: &str = "NamespaceRefused";

/// The agent has not yet said that it applied this value.
pub const APPLYING: &str = "Applying";
/// The namespace does not exist in the member cluster.
pub const NAMESPACE_MISSING: &str = "NamespaceMissing";
/// The endpoint is known, and nothing of it is published before the cluster is routable.
pub const NOT_ROUTABLE: &str = "NotRoutable";
/// What is to be published is not written yet.
pub const PUBLISHING: &str = "Publishing";
/// An object of that name exists, and somebody else owns it.
pub const NAME_CONFLICT: &str = "NameConflict";
/// The API server refused an object.
pub const APPLY_REFUSED: &str = "ApplyRefused";
/// The API server could not be reached or answered with an error of its own.
pub const APPLY_FAILED: &str = "ApplyFailed";
/// The hub's value can't be read by this agent.
pub const INVALID_PLACEMENT: &str = "InvalidPlacement";
/// What an agent reported can't be shown or used as it stands.
pub const INVALID_REPORT: &str = "InvalidReport";
/// The placement is being removed from the member cluster.
pub const REMOVING: &str = "Removing";

/// The Gateway API is not installed.
pub const GATEWAY_API_MISSING: &str = "GatewayAPIMissing";
/// No Gateway is named, neither by the MemberCluster nor by the agent.
pub const GATEWAY_NOT_SET: &str = "GatewayNotSet";
/// The Gateway does not exist.
pub const GATEWAY_NOT_FOUND: &str = "GatewayNotFound";
/// The Gateway has no such listener.
pub const LISTENER_NOT_FOUND: &str = "ListenerNotFound";
/// The listener does not speak plain HTTP.
pub const NO_HTTP_LISTENER: &str = "NoHTTPListener";
/// The listener has a hostname, and traffic routes have none.
pub const LISTENER_HOSTNAME_MISMATCH: &str = "ListenerHostnameMismatch";
/// The source of the endpoint has no address yet.
pub const NO_ADDRESS: &str = "NoAddress";
/// The Service that the endpoint comes from does not exist.
pub const SERVICE_NOT_FOUND: &str = "ServiceNotFound";
/// The Service that the endpoint comes from is of a type that admits no traffic that way.
pub const SERVICE_TYPE_MISMATCH: &str = "ServiceTypeMismatch";
/// The Service that the endpoint comes from has no such port.
pub const SERVICE_PORT_NOT_FOUND: &str = "ServicePortNotFound";
/// The port of the Service has no node port.
pub const NO_NODE_PORT: &str = "NoNodePort";
/// No node is Ready and schedulable.
pub const NO_READY_NODE: &str = "NoReadyNode";
/// What the source of the endpoint needs is not given.
pub const INVALID_SOURCE: &str = "InvalidSource";
/// The hub can't resolve a DNS name of the endpoint.
pub const HOSTNAME_NOT_RESOLVED: &str = "HostnameNotResolved";
/// An address may not be published.
pub const ADDRESS_REFUSED: &str = "AddressRefused";
/// Every target has weight 0.
pub const NO_TRAFFIC: &str = "NoTraffic";
/// A rule of `spec.routing.rules` may not be served.
pub const RULE_REFUSED: &str = "RuleRefused";
/// The installed Gateway API lacks a field that the specification needs.
pub const ROUTE_FIELD_UNKNOWN: &str = "RouteFieldUnknown";
/// The Gateway's listeners take no routes from this namespace, or of this kind.
pub const ROUTE_NOT_ALLOWED: &str = "RouteNotAllowed";
/// The route waits for the verdict of its gateway.
pub const ROUTE_PENDING: &str = "RoutePending";
/// The gateway does not accept the route.
pub const ROUTE_NOT_ACCEPTED: &str = "RouteNotAccepted";
/// The gateway can't resolve what the route refers to.
pub const REFS_NOT_RESOLVED: &str = "RefsNotResolved";

/// Our reason where a Gateway says False of a route, by its condition and by its own reason (Gateway API, `RouteConditionReason`).
pub fn of_refused_route(condition: &str, theirs: &str) -> &'static str {
    match (condition, theirs) {
        ("ResolvedRefs", _) => REFS_NOT_RESOLVED,
        (_, "NotAllowedByListeners") => ROUTE_NOT_ALLOWED,
        (_, "NoMatchingListenerHostname") => LISTENER_HOSTNAME_MISMATCH,
        (_, "NoMatchingParent") => LISTENER_NOT_FOUND,
        (_, _) => ROUTE_NOT_ACCEPTED,
    }
}

/// A quota does not admit more Pods.
pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
/// A webhook or an admission policy refuses Pods.
pub const ADMISSION_DENIED: &str = "AdmissionDenied";
/// Pod Security refuses Pods.
pub const POLICY_DENIED: &str = "PolicyDenied";
/// The cluster lacks a RuntimeClass that the accelerator requires, or that Pods have had so far.
pub const RUNTIME_CLASS_MISSING: &str = "RuntimeClassMissing";
/// The API server refuses to make Pods, for none of the reasons above.
pub const POD_CREATE_FAILED: &str = "PodCreateFailed";
/// No node can take a Pod.
pub const UNSCHEDULABLE: &str = "Unschedulable";
/// An image can't be had.
pub const IMAGE_PULL_BACK_OFF: &str = "ImagePullBackOff";
/// A container can't be made or started.
pub const CREATE_CONTAINER_ERROR: &str = "CreateContainerError";
/// A container ends again and again.
pub const CRASH_LOOP_BACK_OFF: &str = "CrashLoopBackOff";
/// A container is killed for its memory.
pub const OOM_KILLED: &str = "OOMKilled";
/// A container runs, its start is over, and its probe does not succeed.
pub const PROBE_FAILING: &str = "ProbeFailing";
/// A Pod's node can't be heard.
pub const NODE_NOT_READY: &str = "NodeNotReady";
/// The runtime runs, and loads its model.
pub const MODEL_LOADING: &str = "ModelLoading";
/// A Pod was thrown out or not taken by its node, and another is not ready yet in its place.
pub const EVICTED: &str = "Evicted";
/// A Pod made room for one of higher priority, and another is not ready yet in its place.
pub const PREEMPTED: &str = "Preempted";
/// Pods start.
pub const STARTING_BACKEND: &str = "StartingBackend";
/// `replicas` is 0.
pub const SCALED_TO_ZERO: &str = "ScaledToZero";
/// Fewer clusters are routable than `minReadyClusters` asks for.
pub const TOO_FEW_CLUSTERS: &str = "TooFewReadyClusters";
/// MemberCluster: an agent enrolled.
pub const ENROLLED: &str = "Enrolled";
/// MemberCluster: its agent has a live session.
pub const SESSION_OPEN: &str = "SessionOpen";
