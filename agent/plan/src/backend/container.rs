//! The container of a replica: what runs, with which words, and how its state is asked for.

use std::collections::BTreeMap;

use crds::{
    reason,
    v1alpha1::{
        Probe, Resources, RuntimeProfileSpec, ServerPlacement, ServerVariable, VENDOR_NONE,
        Variable,
    },
};
use k8s_openapi::{
    api::core::v1::{
        self as core, ConfigMapKeySelector, Container, ContainerPort, EnvVar, EnvVarSource,
        HTTPGetAction, Lifecycle, LifecycleHandler, ObjectFieldSelector, ResourceRequirements,
        SecretKeySelector, SleepAction,
    },
    apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString},
};

use super::{
    CONTAINER, HTTP, LEAVE_SECONDS,
    accelerator::Accelerator,
    clamped, invalid,
    names::{names, probe_path},
    pod::filled,
};
use crate::{gateway::Refusal, substitution::Names};

/// Readiness is asked for each second: that is how late traffic starts.
const READY_PERIOD_SECONDS: u32 = 1;
/// Liveness restarts a replica; it is in no hurry.
const LIVE_PERIOD_SECONDS: u32 = 10;
/// A busy runtime answers late, and is none the less ready. Kubernetes would give it a second.
const TIMEOUT_SECONDS: i32 = 5;
/// How long a probe may fail when the profile does not say: as with Kubernetes' own defaults (3 × 10 s).
const FAILURE_SECONDS: u32 = 30;

/// The container, without what the Pod's volumes bring.
pub(super) fn container(
    placement: &ServerPlacement,
    accelerator: Option<&Accelerator<'_>>,
) -> Result<Container, Refusal> {
    let runtime = &placement.spec.runtime;
    let profile = &runtime.content;
    let names = names(placement);
    let mut args = substituted(placement, &names, "args", &profile.args)?;
    args.extend(runtime.args.iter().cloned());
    let command = substituted(placement, &names, "command", &profile.command)?;
    let probe = |field, probe, period| -> Result<core::Probe, Refusal> {
        let path = probe_path(placement, &names, field, probe)?;
        Ok(rendered(probe, path, period))
    };
    let probes = &profile.probes;
    let startup = probes.startup.as_ref();
    let liveness = probes.liveness.as_ref();
    Ok(Container {
        name: CONTAINER.to_owned(),
        image: Some(image(placement, accelerator)?),
        command: filled(command),
        args: filled(args),
        env: Some(environment(placement, &names, accelerator)?),
        ports: Some(ports(placement, profile)?),
        startup_probe: startup
            .map(|startup| probe("startup", startup, READY_PERIOD_SECONDS))
            .transpose()?,
        readiness_probe: Some(probe("readiness", &probes.readiness, READY_PERIOD_SECONDS)?),
        liveness_probe: liveness
            .map(|liveness| probe("liveness", liveness, LIVE_PERIOD_SECONDS))
            .transpose()?,
        lifecycle: Some(Lifecycle {
            pre_stop: Some(LifecycleHandler {
                sleep: Some(SleepAction {
                    seconds: LEAVE_SECONDS.into(),
                }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        resources: requirements(placement.spec.resources.as_ref(), accelerator),
        security_context: profile.security_context.clone(),
        // What it said last is in the status of a server whose container ends, and nobody needs its log.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    })
}

/// The server's own image, or the profile's for the vendor of the accelerator.
fn image(
    placement: &ServerPlacement,
    accelerator: Option<&Accelerator<'_>>,
) -> Result<String, Refusal> {
    let runtime = &placement.spec.runtime;
    if let Some(image) = &runtime.image {
        return Ok(image.clone());
    }
    let images = &runtime.content.images;
    let vendor = accelerator.map_or(VENDOR_NONE, |accelerator| accelerator.vendor);
    if let Some(image) = images.iter().find(|image| image.vendor == vendor) {
        return Ok(image.image.clone());
    }
    let vendors: Vec<_> = images.iter().map(|image| image.vendor.as_str()).collect();
    let others = match vendors.as_slice() {
        [] => String::new(),
        vendors => format!("; it has those of {}", vendors.join(", ")),
    };
    let profile = &runtime.profile;
    let missing = accelerator.map_or_else(
        || "that needs no accelerator (vendor none), and spec.accelerator asks for none".to_owned(),
        |Accelerator { resource, .. }| {
            format!("of vendor {vendor}, whose {resource} spec.accelerator asks for")
        },
    );
    Err(Refusal::new(
        reason::BACKEND_UNSUPPORTED,
        format!(
            "RuntimeProfile {profile} has no image {missing}: add one to the profile, or set spec.runtime.image{others}"
        ),
    ))
}

fn substituted(
    placement: &ServerPlacement,
    names: &Names,
    field: &str,
    texts: &[String],
) -> Result<Vec<String>, Refusal> {
    let texts = texts.iter().enumerate().map(|(index, text)| {
        names.substitute(text).map_err(|error| {
            let path = format!("spec.{field}[{index}]");
            invalid(placement, &path, &error.to_string())
        })
    });
    texts.collect()
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

/// Who the Pod is, then what accelerator, profile and server say: a later one of the same name beats an earlier.
fn environment(
    placement: &ServerPlacement,
    names: &Names,
    accelerator: Option<&Accelerator<'_>>,
) -> Result<Vec<EnvVar>, Refusal> {
    let runtime = &placement.spec.runtime;
    let mut all = identity();
    for variable in accelerator.map_or(&[][..], |accelerator| accelerator.env) {
        set(&mut all, plain(variable, variable.value.clone()));
    }
    for variable in &runtime.content.env {
        let value = names.substitute(&variable.value).map_err(|error| {
            let path = format!("spec.env[{}]", variable.name);
            invalid(placement, &path, &error.to_string())
        })?;
        set(&mut all, plain(variable, value));
    }
    for variable in &runtime.env {
        set(&mut all, of_server(variable));
    }
    Ok(all)
}

/// In the place of the one that it beats: a variable may speak of those before it.
fn set(all: &mut Vec<EnvVar>, variable: EnvVar) {
    match all.iter_mut().find(|one| one.name == variable.name) {
        Some(one) => *one = variable,
        None => all.push(variable),
    }
}

fn plain(variable: &Variable, value: String) -> EnvVar {
    EnvVar {
        name: variable.name.clone(),
        value: Some(value),
        ..EnvVar::default()
    }
}

fn of_server(variable: &ServerVariable) -> EnvVar {
    let secret = variable.secret_key_ref.as_ref();
    let map = variable.config_map_key_ref.as_ref();
    let source = EnvVarSource {
        secret_key_ref: secret.map(|reference| SecretKeySelector {
            name: reference.name.clone(),
            key: reference.key.clone(),
            ..SecretKeySelector::default()
        }),
        config_map_key_ref: map.map(|reference| ConfigMapKeySelector {
            name: reference.name.clone(),
            key: reference.key.clone(),
            ..ConfigMapKeySelector::default()
        }),
        ..EnvVarSource::default()
    };
    EnvVar {
        name: variable.name.clone(),
        value: variable.value.clone(),
        value_from: (secret.is_some() || map.is_some()).then_some(source),
    }
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

fn rendered(probe: &Probe, path: String, period_seconds: u32) -> core::Probe {
    let seconds = probe.failure_seconds.unwrap_or(FAILURE_SECONDS);
    core::Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path),
            port: IntOrString::String(HTTP.to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(clamped(period_seconds)),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        failure_threshold: Some(clamped(seconds.div_ceil(period_seconds).max(1))),
        ..core::Probe::default()
    }
}

/// Of an accelerator the limit alone: its request is the same, and the API server says so itself.
fn requirements(
    resources: Option<&Resources>,
    accelerator: Option<&Accelerator<'_>>,
) -> Option<ResourceRequirements> {
    if resources.is_none() && accelerator.is_none() {
        return None;
    }
    let none = Resources::default();
    let Resources { requests, limits } = resources.unwrap_or(&none);
    let quantities = |of: &BTreeMap<String, crds::Quantity>| -> BTreeMap<String, Quantity> {
        of.iter()
            .map(|(name, quantity)| (name.clone(), quantity.to_kubernetes()))
            .collect()
    };
    let (requests, mut limits) = (quantities(requests), quantities(limits));
    if let Some(Accelerator {
        resource, count, ..
    }) = accelerator
    {
        limits.insert((*resource).to_owned(), Quantity(count.to_string()));
    }
    Some(ResourceRequirements {
        requests: (!requests.is_empty()).then_some(requests),
        limits: (!limits.is_empty()).then_some(limits),
        ..ResourceRequirements::default()
    })
}
