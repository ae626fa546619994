//! The objects that a plan is made of, and how they are named.

use gateway_api::httproutes::HttpRoute;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Service, ServiceAccount},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Serialize;

/// One object that is to exist. Large ones are boxed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Object {
    /// What the Pods run as.
    ServiceAccount(ServiceAccount),
    /// The model list.
    ConfigMap(ConfigMap),
    /// The replicas.
    Deployment(Box<Deployment>),
    /// Where the route sends to.
    Service(Box<Service>),
    /// How many replicas may be away while nodes are drained.
    PodDisruptionBudget(Box<PodDisruptionBudget>),
    /// How traffic gets in.
    HttpRoute(Box<HttpRoute>),
}

/// The kinds that a placement may own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// v1
    ServiceAccount,
    /// v1
    ConfigMap,
    /// apps/v1
    Deployment,
    /// v1
    Service,
    /// policy/v1
    PodDisruptionBudget,
    /// gateway.networking.k8s.io/v1
    HttpRoute,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::ServiceAccount,
        Self::ConfigMap,
        Self::Deployment,
        Self::Service,
        Self::PodDisruptionBudget,
        Self::HttpRoute,
    ];

    /// As the API spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ServiceAccount => "ServiceAccount",
            Self::ConfigMap => "ConfigMap",
            Self::Deployment => "Deployment",
            Self::Service => "Service",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::HttpRoute => "HTTPRoute",
        }
    }

    /// Is it nothing without others that it names? Pods wait long for a ServiceAccount that comes late, a route without its Service
    /// is refused for a moment, and no replica is to wait for a budget.
    pub const fn names_others(self) -> bool {
        match self {
            Self::Deployment | Self::PodDisruptionBudget | Self::HttpRoute => true,
            Self::ServiceAccount | Self::ConfigMap | Self::Service => false,
        }
    }
}

/// Names an object of a placement; its namespace is the placement's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

/// Routes as objects.
pub(crate) fn routes(routes: Vec<HttpRoute>) -> Vec<Object> {
    let boxed = routes.into_iter().map(Box::new);
    boxed.map(Object::HttpRoute).collect()
}

impl Object {
    /// Kind and name.
    pub fn id(&self) -> ObjectId {
        let (kind, metadata) = self.parts();
        ObjectId {
            kind,
            name: metadata.name.clone().unwrap_or_default(),
        }
    }

    pub(crate) const fn parts(&self) -> (Kind, &ObjectMeta) {
        match self {
            Self::ServiceAccount(object) => (Kind::ServiceAccount, &object.metadata),
            Self::ConfigMap(object) => (Kind::ConfigMap, &object.metadata),
            Self::Deployment(object) => (Kind::Deployment, &object.metadata),
            Self::Service(object) => (Kind::Service, &object.metadata),
            Self::PodDisruptionBudget(object) => (Kind::PodDisruptionBudget, &object.metadata),
            Self::HttpRoute(object) => (Kind::HttpRoute, &object.metadata),
        }
    }
}
