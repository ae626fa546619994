//! Clusters of many states, made from the placement that is asked about. Judges nothing.

use std::{collections::BTreeSet, sync::Arc};

use crds::v1alpha1::{
    Address, EndpointSource, GatewayReference, PortReference, ServerPlacement, ServiceReference,
    Source,
};
use gateway_api::{
    gateways::{Gateway, GatewayListeners, GatewaySpec, GatewayStatus, GatewayStatusAddresses},
    httproutes::{
        HttpRoute, HttpRouteParentRefs, HttpRouteStatus, HttpRouteStatusParents,
        HttpRouteStatusParentsParentRef,
    },
};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentStatus},
        core::v1::{
            LoadBalancerIngress, LoadBalancerStatus, Node, NodeAddress, NodeCondition, NodeStatus,
            Pod, PodCondition, PodStatus, Service, ServicePort, ServiceSpec, ServiceStatus,
        },
    },
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference, Time},
    jiff::Timestamp,
};

use crate::{
    GatewayFact, Object, ObjectId, PlacementInput, ServiceFact, gateway::effective_gateway,
    metadata::TEMPLATE_HASH,
};

const HASH: &str = "5d8f";
const PORT: i32 = 80;
/// More Pods say nothing more.
const PODS_MAX: i32 = 10;

/// A cluster, as [`PlacementInput`] shows it.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) placement: ServerPlacement,
    default_gateway: GatewayReference,
    pub(super) gateway_api: bool,
    pub(super) gateway: Option<Gateway>,
    pub(super) services_known: bool,
    pub(super) service: Option<Service>,
    pub(super) nodes: Option<Vec<Arc<Node>>>,
    runtime_classes: BTreeSet<String>,
    owned: Vec<ObjectId>,
    deployments: Vec<Arc<Deployment>>,
    routes: Vec<Arc<HttpRoute>>,
    pods: Vec<Arc<Pod>>,
}

impl Facts {
    /// Nothing is live of the placement, and all that it needs is there.
    pub(super) fn well(placement: &ServerPlacement) -> Self {
        let default_gateway = GatewayReference {
            namespace: "infra".to_owned(),
            name: "public".to_owned(),
            listener: None,
        };
        let source = placement.spec.endpoint.as_ref();
        let kind = source.map(|source| source.source).unwrap_or_default();
        let named = source.and_then(|source| source.service.as_ref());
        // As in an agent: what a source does not need is not watched.
        let service = matches!(kind, Source::Service | Source::NodePort)
            .then_some(named)
            .flatten();
        Self {
            placement: placement.clone(),
            gateway: effective_gateway(placement, Some(&default_gateway)).map(gateway),
            default_gateway,
            gateway_api: true,
            services_known: service.is_some(),
            service: service.map(load_balancer),
            nodes: (kind == Source::NodePort).then(|| vec![Arc::new(node())]),
            runtime_classes: BTreeSet::new(),
            owned: Vec::new(),
            deployments: Vec::new(),
            routes: Vec::new(),
            pods: Vec::new(),
        }
    }

    pub(super) fn input(&self) -> PlacementInput<'_> {
        PlacementInput {
            placement: &self.placement,
            default_gateway: Some(&self.default_gateway),
            gateway: match &self.gateway {
                _ if !self.gateway_api => GatewayFact::ApiMissing,
                None => GatewayFact::NotFound,
                Some(gateway) => GatewayFact::Found(gateway),
            },
            service: match &self.service {
                _ if !self.services_known => ServiceFact::Unlisted,
                None => ServiceFact::NotFound,
                Some(service) => ServiceFact::Found(service),
            },
            nodes: self.nodes.as_deref(),
            runtime_classes: &self.runtime_classes,
            owned: &self.owned,
            deployments: &self.deployments,
            routes: &self.routes,
            pods: &self.pods,
        }
    }

    /// The same with these objects live: every replica is ready and every route accepted, or none is.
    pub(super) fn with_live(&self, objects: &[Object], well: bool) -> Self {
        let mut facts = self.clone();
        facts.owned = objects.iter().map(Object::id).collect();
        for object in objects {
            match object {
                Object::Deployment(deployment) => {
                    let deployment = live_deployment(deployment, well);
                    facts.pods.extend(ready_pods(&deployment));
                    facts.deployments.push(Arc::new(deployment));
                }
                Object::HttpRoute(route) => facts.routes.push(Arc::new(live_route(route, well))),
                Object::ServiceAccount(_)
                | Object::ConfigMap(_)
                | Object::Service(_)
                | Object::PodDisruptionBudget(_) => {}
            }
        }
        facts
    }

    /// The states that a cluster of these objects may be in, none of which any specification names.
    pub(super) fn states(&self, objects: &[Object]) -> [Self; 4] {
        let mut elsewhere = self.with_live(objects, true);
        elsewhere.placement.metadata.generation = Some(9);
        elsewhere.placement.metadata.resource_version = Some("9000".to_owned());
        if let Some(gateway) = &mut elsewhere.gateway {
            gateway.status = None;
        }
        [
            self.clone(),
            self.with_live(objects, true),
            self.with_live(objects, false),
            elsewhere,
        ]
    }
}

/// The placement with each source in turn, its own first.
pub(super) fn with_each_source(placement: &ServerPlacement) -> [ServerPlacement; 5] {
    let of = |source: Source| EndpointSource {
        source,
        service: Some(ServiceReference {
            namespace: "infra".to_owned(),
            name: "gateway".to_owned(),
            port: PortReference::Number(PORT),
        }),
        addresses: vec![Address("203.0.113.20".to_owned())],
        port: Some(8080),
    };
    let with = |endpoint: Option<EndpointSource>| {
        let mut placement = placement.clone();
        placement.spec.endpoint = endpoint;
        placement
    };
    [
        placement.clone(),
        with(None),
        with(of(Source::Service).effective()),
        with(of(Source::NodePort).effective()),
        with(of(Source::Static).effective()),
    ]
}

fn gateway(reference: &GatewayReference) -> Gateway {
    let listener = reference.listener.as_deref().unwrap_or("http");
    Gateway {
        metadata: ObjectMeta {
            name: Some(reference.name.clone()),
            namespace: Some(reference.namespace.clone()),
            ..ObjectMeta::default()
        },
        spec: GatewaySpec {
            gateway_class_name: "any".to_owned(),
            listeners: vec![GatewayListeners {
                name: listener.to_owned(),
                port: PORT,
                protocol: "HTTP".to_owned(),
                ..GatewayListeners::default()
            }],
            ..GatewaySpec::default()
        },
        status: Some(GatewayStatus {
            addresses: Some(vec![GatewayStatusAddresses {
                r#type: None,
                value: "203.0.113.9".to_owned(),
            }]),
            ..GatewayStatus::default()
        }),
    }
}

fn load_balancer(reference: &ServiceReference) -> Service {
    let (name, port) = match &reference.port {
        PortReference::Number(number) => (None, *number),
        PortReference::Name(name) => (Some(name.clone()), PORT),
    };
    Service {
        metadata: ObjectMeta {
            name: Some(reference.name.clone()),
            namespace: Some(reference.namespace.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            type_: Some("LoadBalancer".to_owned()),
            ports: Some(vec![ServicePort {
                name,
                port,
                node_port: Some(30_080),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: Some(ServiceStatus {
            load_balancer: Some(LoadBalancerStatus {
                ingress: Some(vec![LoadBalancerIngress {
                    ip: Some("203.0.113.10".to_owned()),
                    ..LoadBalancerIngress::default()
                }]),
            }),
            ..ServiceStatus::default()
        }),
    }
}

fn node() -> Node {
    Node {
        metadata: ObjectMeta {
            name: Some("node-1".to_owned()),
            ..ObjectMeta::default()
        },
        status: Some(NodeStatus {
            addresses: Some(vec![NodeAddress {
                type_: "InternalIP".to_owned(),
                address: "192.0.2.1".to_owned(),
            }]),
            conditions: Some(vec![NodeCondition {
                type_: "Ready".to_owned(),
                status: "True".to_owned(),
                ..NodeCondition::default()
            }]),
            ..NodeStatus::default()
        }),
        ..Node::default()
    }
}

/// As its API server would hold it, without what the agent does not keep of it.
fn live_deployment(rendered: &Deployment, well: bool) -> Deployment {
    let spec = rendered.spec.as_ref();
    let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    Deployment {
        metadata: ObjectMeta {
            generation: Some(1),
            ..rendered.metadata.clone()
        },
        spec: None,
        status: Some(DeploymentStatus {
            observed_generation: Some(1),
            replicas: Some(replicas),
            updated_replicas: Some(replicas),
            ready_replicas: well.then_some(replicas),
            available_replicas: well.then_some(replicas),
            ..DeploymentStatus::default()
        }),
    }
}

/// As many as the Deployment says are ready, each of its own ReplicaSet.
fn ready_pods(deployment: &Deployment) -> Vec<Arc<Pod>> {
    let name = deployment.metadata.name.clone().unwrap_or_default();
    let status = deployment.status.as_ref();
    let ready = status.and_then(|status| status.ready_replicas).unwrap_or(0);
    let mut labels = deployment.metadata.labels.clone().unwrap_or_default();
    labels.insert(TEMPLATE_HASH.to_owned(), HASH.to_owned());
    let pod = |index: i32| Pod {
        metadata: ObjectMeta {
            name: Some(format!("{name}-{HASH}-{index}")),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels.clone()),
            owner_references: Some(vec![OwnerReference {
                api_version: "apps/v1".to_owned(),
                kind: "ReplicaSet".to_owned(),
                name: format!("{name}-{HASH}"),
                controller: Some(true),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        status: Some(PodStatus {
            conditions: Some(vec![PodCondition {
                type_: "Ready".to_owned(),
                status: "True".to_owned(),
                ..PodCondition::default()
            }]),
            ..PodStatus::default()
        }),
        ..Pod::default()
    };
    (0..ready.min(PODS_MAX))
        .map(|index| Arc::new(pod(index)))
        .collect()
}

/// As each parent that it names has taken or refused it.
fn live_route(rendered: &HttpRoute, well: bool) -> HttpRoute {
    let parents = rendered.spec.parent_refs.iter().flatten();
    let condition = |kind: &str| Condition {
        type_: kind.to_owned(),
        status: if well { "True" } else { "False" }.to_owned(),
        reason: kind.to_owned(),
        message: "so says the contract".to_owned(),
        observed_generation: Some(1),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    };
    let entry = |parent: &HttpRouteParentRefs| HttpRouteStatusParents {
        conditions: ["Accepted", "ResolvedRefs"].map(condition).into(),
        controller_name: "example.com/gateway".to_owned(),
        parent_ref: HttpRouteStatusParentsParentRef {
            group: parent.group.clone(),
            kind: parent.kind.clone(),
            name: parent.name.clone(),
            namespace: parent.namespace.clone(),
            port: parent.port,
            section_name: parent.section_name.clone(),
        },
    };
    HttpRoute {
        metadata: ObjectMeta {
            generation: Some(1),
            ..rendered.metadata.clone()
        },
        spec: rendered.spec.clone(),
        status: Some(HttpRouteStatus {
            parents: parents.map(entry).collect(),
        }),
    }
}
