//! What is known of one placement and of its cluster. Everything comes from watch caches; nothing is asked for here.

use std::{collections::BTreeSet, sync::Arc};

use crds::v1alpha1::{GatewayReference, ServerPlacement};
use gateway_api::{gateways::Gateway, httproutes::HttpRoute};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod, Service},
};
use kube::ResourceExt;

use crate::ObjectId;

/// All that a plan is made of.
#[derive(Clone, Copy, Debug)]
pub struct PlacementInput<'a> {
    /// The placement, as the API server holds it: with a name, a namespace and a UID.
    pub placement: &'a ServerPlacement,
    /// The Gateway for placements that name none.
    pub default_gateway: Option<&'a GatewayReference>,
    /// The Gateway that [`effective_gateway`](crate::effective_gateway) names.
    pub gateway: GatewayFact<'a>,
    /// The Service that the source of the endpoint names.
    pub service: ServiceFact<'a>,
    /// The nodes of the cluster; `None`: they are not known yet. Only source NodePort reads them.
    pub nodes: Option<&'a [Arc<Node>]>,
    /// The objects that the placement controls.
    pub owned: &'a [ObjectId],
    /// The RuntimeClasses of the cluster, by name.
    pub runtime_classes: &'a BTreeSet<String>,
    /// The Deployments that the placement controls. Of their specification nothing but the RuntimeClass of the Pods.
    pub deployments: &'a [Arc<Deployment>],
    /// The traffic routes that the placement controls.
    pub routes: &'a [Arc<HttpRoute>],
    /// The Pods that carry the server's label, without their specification.
    pub pods: &'a [Arc<Pod>],
}

impl<'a> PlacementInput<'a> {
    /// The Deployment of that name, if the placement controls it.
    pub fn deployment(&self, name: &str) -> Option<&'a Deployment> {
        named(self.deployments, name)
    }

    /// The traffic route of that name, if the placement controls it.
    pub fn route(&self, name: &str) -> Option<&'a HttpRoute> {
        named(self.routes, name)
    }
}

fn named<'a, K: ResourceExt>(objects: &'a [Arc<K>], name: &str) -> Option<&'a K> {
    let mut objects = objects.iter().map(AsRef::as_ref);
    objects.find(|object| object.meta().name.as_deref() == Some(name))
}

/// What is known of a Gateway.
#[derive(Clone, Copy, Debug)]
pub enum GatewayFact<'a> {
    /// The API server does not know the Gateway API.
    ApiMissing,
    /// There is none of that name.
    NotFound,
    /// As it is.
    Found(&'a Gateway),
}

/// What is known of a Service that may be anybody's.
#[derive(Clone, Copy, Debug)]
pub enum ServiceFact<'a> {
    /// The Services of the cluster are not known yet, or nobody asked for one.
    Unlisted,
    /// There is none of that name.
    NotFound,
    /// As it is.
    Found(&'a Service),
}
