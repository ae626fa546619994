//! A driver of the agent in place of its own, each held to its contract. `docs/extending.md` explains them, and quotes them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeSet, net::IpAddr};

use agent::{Agent, SetTwice};
use agent_plan::{
    Backend, ConfiguredSource, DeploymentBackend, Doubt, Endpoint, EndpointSource, GatewayFact,
    Object, Observed, PathRouting, PlacementInput, Refusal, Routing, SERVICE_PORT, ServiceFact,
    contract, label_selector, metadata, mount, object_labels, selector,
};
use crds::{
    condition::{HEALTH_CHECK, Verdict},
    v1alpha1::{GatewayReference, Replicas},
};
use gateway_api::{
    gateways::Gateway,
    httproutes::{
        HttpRoute, HttpRouteRulesFilters, HttpRouteRulesFiltersRequestHeaderModifier,
        HttpRouteRulesFiltersRequestHeaderModifierSet, HttpRouteRulesFiltersType,
    },
};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            Container, ContainerPort, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec,
        },
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use kube::ResourceExt;
use serde_json::{Value, json};

/// Every replica has a container beside its runtime that collects its logs.
#[derive(Debug)]
struct WithLogCollector<B> {
    inner: B,
    image: String,
}

impl<B: Backend> Backend for WithLogCollector<B> {
    fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<Object>, Refusal> {
        let mut objects = self.inner.render(input)?;
        for object in &mut objects {
            if let Object::Deployment(deployment) = object {
                let template = &mut deployment.spec.get_or_insert_default().template;
                let pod = template.spec.get_or_insert_default();
                pod.containers.push(Container {
                    name: "log-collector".to_owned(),
                    image: Some(self.image.clone()),
                    ..Container::default()
                });
            }
        }
        Ok(objects)
    }

    fn observe(&self, input: &PlacementInput<'_>) -> Observed {
        self.inner.observe(input)
    }
}

/// Every request that comes in by the cluster's Gateway says of which cluster it is.
#[derive(Debug)]
struct WithClusterHeader<R> {
    inner: R,
    cluster: String,
}

impl<R: Routing> Routing for WithClusterHeader<R> {
    fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<HttpRoute>, Refusal> {
        let mut routes = self.inner.render(input)?;
        let rules = routes.iter_mut().flat_map(|route| &mut route.spec.rules);
        for rule in rules.flatten() {
            let filters = rule.filters.get_or_insert_default();
            filters.push(HttpRouteRulesFilters {
                r#type: HttpRouteRulesFiltersType::RequestHeaderModifier,
                request_header_modifier: Some(HttpRouteRulesFiltersRequestHeaderModifier {
                    set: Some(vec![HttpRouteRulesFiltersRequestHeaderModifierSet {
                        name: "x-cluster".to_owned(),
                        value: self.cluster.clone(),
                    }]),
                    ..HttpRouteRulesFiltersRequestHeaderModifier::default()
                }),
                ..HttpRouteRulesFilters::default()
            });
        }
        Ok(routes)
    }

    fn observe(&self, input: &PlacementInput<'_>) -> Verdict {
        self.inner.observe(input)
    }

    fn doubt(&self, input: &PlacementInput<'_>) -> Option<Doubt> {
        self.inner.doubt(input)
    }
}

/// The cluster is reached at one more address, which no object in it names.
#[derive(Debug)]
struct WithAddress<S> {
    inner: S,
    address: IpAddr,
}

impl<S: EndpointSource> EndpointSource for WithAddress<S> {
    fn resolve(&self, input: &PlacementInput<'_>) -> Result<Endpoint, Refusal> {
        let mut endpoint = self.inner.resolve(input)?;
        endpoint.addresses.insert(self.address);
        Ok(endpoint)
    }
}

/// The cluster is reached at one address and port, whatever is in it.
#[derive(Debug)]
struct VirtualAddress {
    address: IpAddr,
    port: u16,
}

impl EndpointSource for VirtualAddress {
    fn resolve(&self, _input: &PlacementInput<'_>) -> Result<Endpoint, Refusal> {
        Ok(Endpoint {
            addresses: [self.address].into(),
            port: self.port,
            ..Endpoint::default()
        })
    }
}

/// One image for every profile, and nothing but what it needs.
#[derive(Debug)]
struct OneImage {
    image: String,
}

impl Backend for OneImage {
    fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<Object>, Refusal> {
        let placement = input.placement;
        let name = placement.name_any();
        let replicas = i32::try_from(placement.spec.replicas)
            .map_err(|_error| Refusal::new("TooManyReplicas", "ask for fewer replicas"))?;
        let deployment = Deployment {
            metadata: metadata(placement, name.clone()),
            spec: Some(DeploymentSpec {
                replicas: Some(replicas),
                selector: label_selector(placement),
                template: PodTemplateSpec {
                    metadata: Some(ObjectMeta {
                        labels: Some(object_labels(placement)),
                        ..ObjectMeta::default()
                    }),
                    spec: Some(self.pod(input)),
                },
                ..DeploymentSpec::default()
            }),
            ..Deployment::default()
        };
        let service = Service {
            metadata: metadata(placement, name),
            spec: Some(ServiceSpec {
                selector: Some(selector(placement)),
                ports: Some(vec![ServicePort {
                    port: SERVICE_PORT,
                    target_port: Some(IntOrString::Int(8080)),
                    ..ServicePort::default()
                }]),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        };
        Ok(vec![
            Object::Deployment(Box::new(deployment)),
            Object::Service(Box::new(service)),
        ])
    }

    fn observe(&self, input: &PlacementInput<'_>) -> Observed {
        let live = input.deployment(&input.placement.name_any());
        let ready = live.and_then(|live| live.status.as_ref()?.ready_replicas);
        let wanted = input.placement.spec.replicas;
        let ready = ready.and_then(|ready| u32::try_from(ready).ok());
        let ready = ready.unwrap_or_default();
        let message = format!("{ready} of {wanted} replicas ready");
        let health = if live.is_some() && ready >= wanted {
            Verdict::yes(HEALTH_CHECK, "Serving", message)
        } else {
            Verdict::unknown(HEALTH_CHECK, "StartingBackend", message)
        };
        Observed {
            replicas: Replicas { wanted, ready },
            health,
        }
    }
}

impl OneImage {
    fn pod(&self, input: &PlacementInput<'_>) -> PodSpec {
        let mut container = Container {
            name: "server".to_owned(),
            image: Some(self.image.clone()),
            ports: Some(vec![ContainerPort {
                container_port: 8080,
                ..ContainerPort::default()
            }]),
            ..Container::default()
        };
        let mut pod = PodSpec::default();
        if let Some((variable, mount, volume)) = mount(input.placement) {
            container.env = Some(vec![variable]);
            container.volume_mounts = Some(vec![mount]);
            pod.volumes = Some(vec![volume]);
        }
        pod.containers = vec![container];
        pod
    }
}

fn agent(cluster: &str, address: IpAddr) -> Result<Agent, SetTwice> {
    Agent::builder()
        .backend(WithLogCollector {
            inner: DeploymentBackend,
            image: "registry.example.com/log-collector:1".to_owned(),
        })
        .routing(WithClusterHeader {
            inner: PathRouting,
            cluster: cluster.to_owned(),
        })
        .endpoint_source(WithAddress {
            inner: ConfiguredSource,
            address,
        })
        .build()
}

fn address() -> IpAddr {
    "198.51.100.7".parse().unwrap()
}

fn log_collector() -> WithLogCollector<DeploymentBackend> {
    WithLogCollector {
        inner: DeploymentBackend,
        image: "registry.example.com/log-collector:1".to_owned(),
    }
}

fn cluster_header() -> WithClusterHeader<PathRouting> {
    WithClusterHeader {
        inner: PathRouting,
        cluster: "east".to_owned(),
    }
}

fn one_image() -> OneImage {
    OneImage {
        image: "registry.example.com/server:1".to_owned(),
    }
}

/// What is answered for an ordinary placement whose Gateway is there.
fn ask<T: serde::Serialize>(question: impl Fn(&PlacementInput<'_>) -> T) -> Value {
    let placement = contract::placement();
    let gateway: Gateway = serde_json::from_value(json!({
        "metadata": {"name": "public", "namespace": "infra"},
        "spec": {"gatewayClassName": "any", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    }))
    .unwrap();
    let default_gateway = GatewayReference {
        namespace: "infra".to_owned(),
        name: "public".to_owned(),
        listener: None,
    };
    let answer = question(&PlacementInput {
        placement: &placement,
        default_gateway: Some(&default_gateway),
        gateway: GatewayFact::Found(&gateway),
        service: ServiceFact::Unlisted,
        nodes: None,
        runtime_classes: &BTreeSet::new(),
        owned: &[],
        deployments: &[],
        routes: &[],
        pods: &[],
    });
    serde_json::to_value(answer).unwrap()
}

#[test]
fn a_log_collector_is_in_every_pod_and_nothing_else_changes() {
    contract::backend(&log_collector(), &contract::placement()).unwrap();

    let mut expected = ask(|input| DeploymentBackend.render(input).unwrap());
    let containers = expected.pointer_mut("/1/spec/template/spec/containers");
    containers
        .unwrap()
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "log-collector", "image": "registry.example.com/log-collector:1"}));
    assert_eq!(
        ask(|input| log_collector().render(input).unwrap()),
        expected
    );
}

#[test]
fn a_backend_that_holds_no_other_keeps_the_contract() {
    contract::backend(&one_image(), &contract::placement()).unwrap();
}

#[test]
fn a_header_is_set_by_every_rule() {
    contract::routing(&cluster_header(), &contract::placement()).unwrap();

    let routes = ask(|input| cluster_header().render(input).unwrap());
    let rules = routes.pointer("/0/spec/rules").unwrap().as_array().unwrap();
    for rule in rules {
        let set = rule["filters"].as_array().unwrap().last().unwrap();
        let expected = json!([{"name": "x-cluster", "value": "east"}]);
        assert_eq!(set["requestHeaderModifier"]["set"], expected);
    }
}

#[test]
fn an_address_may_be_added_or_stand_alone() {
    let (inner, address, placement) = (ConfiguredSource, address(), contract::placement());
    contract::endpoint_source(&WithAddress { inner, address }, &placement).unwrap();
    let port = 443;
    contract::endpoint_source(&VirtualAddress { address, port }, &placement).unwrap();
}

#[test]
fn an_agent_takes_one_driver_of_each_kind_or_none() {
    agent("east", address()).unwrap();
    Agent::builder().build().unwrap();
}

#[test]
fn a_driver_that_is_set_twice_keeps_the_agent_from_starting() {
    let twice = Agent::builder()
        .backend(one_image())
        .routing(PathRouting)
        .routing(cluster_header())
        .backend(log_collector());
    assert_eq!(
        twice.build().unwrap_err().to_string(),
        "the agent's routing is set twice: set it once, and wrap one in the other there if both are wanted"
    );
    let sources = Agent::builder()
        .endpoint_source(ConfiguredSource)
        .endpoint_source(ConfiguredSource);
    assert_eq!(sources.build().unwrap_err().driver, "endpoint source");
}
