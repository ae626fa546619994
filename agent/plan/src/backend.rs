//! The model servers: a ServiceAccount, a Deployment and a Service. How these are is for `health` to say.

use std::collections::BTreeMap;

use crds::{
    reason,
    v1alpha1::{Probe, Resources, RuntimeProfileSpec, ServerPlacement, VENDOR_NONE},
};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{
            self as core, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, Lifecycle,
            LifecycleHandler, ObjectFieldSelector, PodSpec, PodTemplateSpec, ResourceRequirements,
            Service, ServiceAccount, ServicePort, ServiceSpec, SleepAction,
            TopologySpreadConstraint,
        },
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use kube::ResourceExt;

use crate::{
    Object, PlacementInput,
    drivers::{Backend, Observed},
    gateway::Refusal,
    health,
    metadata::{label_selector, metadata, object_labels, selector},
    model_config,
    substitution::Names,
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

/// Readiness is asked for each second: that is how late traffic starts, and a GET costs a runtime nothing.
const READY_PERIOD_SECONDS: u32 = 1;
/// Liveness restarts a replica; it is in no hurry, and patient with a busy one.
const LIVE_PERIOD_SECONDS: u32 = 10;
const LIVE_TIMEOUT_SECONDS: i32 = 5;
/// How long a probe may fail when the profile does not say: as with Kubernetes' own defaults (3 × 10 s).
const FAILURE_SECONDS: u32 = 30;

/// One Pod a replica: the backend of an agent that is given no other.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeploymentBackend;

impl Backend for DeploymentBackend {
    /// A ServiceAccount, a Deployment and a Service, all of the placement's name.
    fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<Object>, Refusal> {
        let placement = input.placement;
        Ok(vec![
            Object::ServiceAccount(ServiceAccount {
                metadata: metadata(placement, placement.name_any()),
                automount_service_account_token: Some(false),
                ..ServiceAccount::default()
            }),
            Object::Deployment(Box::new(deployment(placement)?)),
            Object::Service(Box::new(service(placement))),
        ])
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

fn deployment(placement: &ServerPlacement) -> Result<Deployment, Refusal> {
    Ok(Deployment {
        metadata: metadata(placement, placement.name_any()),
        spec: Some(DeploymentSpec {
            replicas: Some(clamped(placement.spec.replicas)),
            selector: label_selector(placement),
            // A replica leaves only when its successor is ready.
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(IntOrString::String("25%".to_owned())),
                    max_unavailable: Some(IntOrString::Int(0)),
                }),
            }),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(object_labels(placement)),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(placement)?),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    })
}

fn pod(placement: &ServerPlacement) -> Result<PodSpec, Refusal> {
    let profile = &placement.spec.runtime.content;
    let mut container = container(placement)?;
    let mut volumes = None;
    if let Some((variable, mount, volume)) = model_config::mount(placement) {
        container.env.get_or_insert_default().push(variable);
        container.volume_mounts = Some(vec![mount]);
        volumes = Some(vec![volume]);
    }
    let grace = profile
        .drain_seconds
        .saturating_add(LEAVE_SECONDS)
        .saturating_add(MARGIN_SECONDS);
    Ok(PodSpec {
        service_account_name: Some(placement.name_any()),
        automount_service_account_token: Some(false),
        termination_grace_period_seconds: Some(grace.into()),
        // Also with one replica: to scale must not change the template, which would restart what serves.
        topology_spread_constraints: Some(vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "kubernetes.io/hostname".to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            label_selector: Some(label_selector(placement)),
            ..TopologySpreadConstraint::default()
        }]),
        containers: vec![container],
        volumes,
        ..PodSpec::default()
    })
}

fn container(placement: &ServerPlacement) -> Result<Container, Refusal> {
    let profile = &placement.spec.runtime.content;
    let image = profile
        .images
        .iter()
        .find(|image| image.vendor == VENDOR_NONE)
        .ok_or_else(|| {
            let message = "no image is of vendor none, and no accelerator is asked for";
            invalid(placement, "spec.images", message)
        })?;
    let names = substitutions(placement);
    let substituted = |field: &str, texts: &[String]| -> Result<Option<Vec<String>>, Refusal> {
        let texts: Vec<String> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| {
                names.substitute(text).map_err(|error| {
                    let path = format!("spec.{field}[{index}]");
                    invalid(placement, &path, &error.to_string())
                })
            })
            .collect::<Result<_, _>>()?;
        Ok((!texts.is_empty()).then_some(texts))
    };
    let probes = &profile.probes;
    Ok(Container {
        name: CONTAINER.to_owned(),
        image: Some(image.image.clone()),
        command: substituted("command", &profile.command)?,
        args: substituted("args", &profile.args)?,
        env: Some(identity()),
        ports: Some(ports(placement, profile)?),
        startup_probe: probes
            .startup
            .as_ref()
            .map(|probe| rendered(probe, READY_PERIOD_SECONDS)),
        readiness_probe: Some(rendered(&probes.readiness, READY_PERIOD_SECONDS)),
        liveness_probe: probes.liveness.as_ref().map(|probe| core::Probe {
            timeout_seconds: Some(LIVE_TIMEOUT_SECONDS),
            ..rendered(probe, LIVE_PERIOD_SECONDS)
        }),
        lifecycle: Some(Lifecycle {
            pre_stop: Some(LifecycleHandler {
                sleep: Some(SleepAction {
                    seconds: LEAVE_SECONDS.into(),
                }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        resources: placement.spec.resources.as_ref().map(requirements),
        ..Container::default()
    })
}

/// What `$(…)` may name.
fn substitutions(placement: &ServerPlacement) -> Names {
    let mut names = Names::default();
    let model = placement.spec.model.as_ref();
    names.insert("model.name", model_config::model_name(placement));
    names.insert("model.uri", model.map(|model| model.uri.clone()));
    for port in &placement.spec.runtime.content.ports {
        names.insert(format!("port.{}", port.name), Some(port.port.to_string()));
    }
    names
}

/// One entry a number, since that is what the API server keys them by; `http` keeps its name.
fn ports(
    placement: &ServerPlacement,
    profile: &RuntimeProfileSpec,
) -> Result<Vec<ContainerPort>, Refusal> {
    let http = profile
        .ports
        .iter()
        .find(|port| port.name == HTTP)
        .ok_or_else(|| invalid(placement, "spec.ports", "one port must be named http"))?;
    let mut by_number: BTreeMap<u16, &str> = [(http.port, HTTP)].into();
    for port in &profile.ports {
        by_number.entry(port.port).or_insert(&port.name);
    }
    Ok(by_number
        .into_iter()
        .map(|(number, name)| ContainerPort {
            name: Some(name.to_owned()),
            container_port: number.into(),
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        })
        .collect())
}

/// Who the Pod is, for the runtime to say.
fn identity() -> Vec<EnvVar> {
    [
        ("POD_NAME", "metadata.name"),
        ("POD_NAMESPACE", "metadata.namespace"),
        ("POD_UID", "metadata.uid"),
        ("NODE_NAME", "spec.nodeName"),
    ]
    .map(|(name, path)| EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: path.to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    })
    .into()
}

fn rendered(probe: &Probe, period_seconds: u32) -> core::Probe {
    let seconds = probe.failure_seconds.unwrap_or(FAILURE_SECONDS);
    core::Probe {
        http_get: Some(HTTPGetAction {
            path: Some(probe.path.clone()),
            port: IntOrString::String(HTTP.to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(clamped(period_seconds)),
        failure_threshold: Some(clamped(seconds.div_ceil(period_seconds).max(1))),
        ..core::Probe::default()
    }
}

fn requirements(resources: &Resources) -> ResourceRequirements {
    let Resources { requests, limits } = resources;
    let quantities = |of: &BTreeMap<String, crds::Quantity>| {
        let all: BTreeMap<_, _> = of
            .iter()
            .map(|(name, quantity)| (name.clone(), quantity.to_kubernetes()))
            .collect();
        (!all.is_empty()).then_some(all)
    };
    ResourceRequirements {
        requests: quantities(requests),
        limits: quantities(limits),
        ..ResourceRequirements::default()
    }
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
