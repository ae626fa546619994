//! The model servers: a ServiceAccount, a Deployment, a Service and a budget for disruptions. How these are is for `health` to
//! say.
//!
//! * `accelerator`: what the Pods need for their accelerator.
//! * `names`: what `$(…)` stands for. `container`, `pod`: what a replica is.

mod accelerator;
mod container;
mod names;
mod pod;

use std::collections::BTreeMap;

use crds::{reason, v1alpha1::ServerPlacement};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{PodTemplateSpec, Service, ServiceAccount, ServicePort, ServiceSpec},
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use kube::ResourceExt;

pub(crate) use self::names::readiness_path;
use crate::{
    Object, PlacementInput,
    drivers::{Backend, Observed},
    gateway::Refusal,
    health,
    metadata::{label_selector, metadata, object_labels, selector},
};

/// The port that takes the traffic, by name, of container and Service.
const HTTP: &str = "http";
/// The port of a placement's Service: traffic routes send there.
pub const SERVICE_PORT: i32 = 80;
/// The container that serves.
pub(crate) const CONTAINER: &str = "server";

/// A terminating replica still takes requests for this long: so long a gateway may need to learn that it is leaving.
const LEAVE_SECONDS: u32 = 5;
/// Between the end of the drain and the kill.
const MARGIN_SECONDS: u32 = 5;

/// One Pod a replica: the backend of an agent that is given no other.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeploymentBackend;

impl Backend for DeploymentBackend {
    /// A ServiceAccount, a Deployment, a Service and a PodDisruptionBudget, all of the placement's name.
    fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<Object>, Refusal> {
        let placement = input.placement;
        let mut objects = vec![
            Object::ServiceAccount(ServiceAccount {
                metadata: metadata(placement, placement.name_any()),
                automount_service_account_token: Some(false),
                ..ServiceAccount::default()
            }),
            Object::Deployment(Box::new(deployment(input)?)),
            Object::Service(Box::new(service(placement))),
        ];
        objects.extend(budget(placement));
        Ok(objects)
    }

    /// By the Deployment's status; its Pods say why, where it is not well.
    fn observe(&self, input: &PlacementInput<'_>) -> Observed {
        let placement = input.placement;
        let deployment = input.deployment(&placement.name_any());
        let replicas = health::replicas(placement, deployment);
        let health = deployment.map_or_else(
            || health::unplanned(replicas),
            |deployment| health::verdict(placement, deployment, input.pods),
        );
        Observed { replicas, health }
    }
}

fn service(placement: &ServerPlacement) -> Service {
    Service {
        metadata: metadata(placement, placement.name_any()),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector(placement)),
            ports: Some(vec![ServicePort {
                name: Some(HTTP.to_owned()),
                port: SERVICE_PORT,
                protocol: Some("TCP".to_owned()),
                target_port: Some(IntOrString::String(HTTP.to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn deployment(input: &PlacementInput<'_>) -> Result<Deployment, Refusal> {
    let placement = input.placement;
    let (pod, has_accelerator) = pod::pod(input)?;
    let rolling_update = if has_accelerator {
        // There is seldom a free accelerator for a successor: it would wait for the one that its predecessor has.
        RollingUpdateDeployment {
            max_surge: Some(IntOrString::Int(0)),
            max_unavailable: Some(IntOrString::Int(1)),
        }
    } else {
        // A replica leaves only when its successor is ready.
        RollingUpdateDeployment {
            max_surge: Some(IntOrString::String("25%".to_owned())),
            max_unavailable: Some(IntOrString::Int(0)),
        }
    };
    Ok(Deployment {
        metadata: metadata(placement, placement.name_any()),
        spec: Some(DeploymentSpec {
            replicas: Some(clamped(placement.spec.replicas)),
            selector: label_selector(placement),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(rolling_update),
            }),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(object_labels(placement)),
                    annotations: scraped(placement)?,
                    ..ObjectMeta::default()
                }),
                spec: Some(pod),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    })
}

/// Where Prometheus' usual configuration finds a Pod's metrics.
fn scraped(placement: &ServerPlacement) -> Result<Option<BTreeMap<String, String>>, Refusal> {
    let profile = &placement.spec.runtime.content;
    let Some(metrics) = &profile.metrics else {
        return Ok(None);
    };
    let mut ports = profile.ports.iter();
    let port = ports
        .find(|port| port.name == metrics.port)
        .ok_or_else(|| {
            let message = format!("no port is named {}", metrics.port);
            invalid(placement, "spec.metrics.port", &message)
        })?;
    let annotations = [
        ("scrape", "true".to_owned()),
        ("port", port.port.to_string()),
        ("path", metrics.path.clone()),
    ];
    let annotations = annotations.map(|(name, value)| (format!("prometheus.io/{name}"), value));
    Ok(Some(annotations.into()))
}

/// Of one replica alone none: to keep it would keep its node from being drained, and a budget of one changes nothing.
fn budget(placement: &ServerPlacement) -> Option<Object> {
    let asked = placement.spec.disruption;
    if placement.spec.replicas <= 1 && asked.is_none() {
        return None;
    }
    let away = asked.map_or(1, |disruption| disruption.max_unavailable);
    Some(Object::PodDisruptionBudget(Box::new(PodDisruptionBudget {
        metadata: metadata(placement, placement.name_any()),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(clamped(away))),
            selector: Some(label_selector(placement)),
            // A replica that is not ready serves nobody, and must not hold up a drain.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    })))
}

fn invalid(placement: &ServerPlacement, field: &str, message: &str) -> Refusal {
    let profile = &placement.spec.runtime.profile;
    Refusal::new(
        reason::INVALID_PROFILE,
        format!("RuntimeProfile {profile}, {field}: {message}"),
    )
}

/// Kubernetes counts in signed numbers.
fn clamped(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
