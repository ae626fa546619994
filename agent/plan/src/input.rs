//! What is known of one placement and of its cluster. Everything comes from watch caches; nothing is asked for here.

use std::sync::Arc;

use crds::v1alpha1::{GatewayReference, ServerPlacement};
use gateway_api::{gateways::Gateway, httproutes::HttpRoute};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};

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
    /// The objects that the placement controls.
    pub owned: &'a [ObjectId],
    /// The Deployment, if the placement controls it.
    pub deployment: Option<&'a Deployment>,
    /// The first traffic route, if the placement controls it.
    pub route: Option<&'a HttpRoute>,
    /// The Pods that carry the server's label.
    pub pods: &'a [Arc<Pod>],
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
