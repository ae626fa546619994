//! The Pod of a replica: where it may run, beside whom, and what its container finds there.

use std::collections::BTreeMap;

use crds::v1alpha1::{ServerPlacement, Spreading};
use k8s_openapi::api::core::v1::{
    Affinity, EmptyDirVolumeSource, LocalObjectReference, PodAffinityTerm, PodAntiAffinity,
    PodSecurityContext, PodSpec, TopologySpreadConstraint, Volume, VolumeMount,
    WeightedPodAffinityTerm,
};
use kube::ResourceExt;

use super::{
    LEAVE_SECONDS, MARGIN_SECONDS,
    accelerator::{Accelerator, accelerator},
    container::container,
};
use crate::{
    PlacementInput,
    gateway::Refusal,
    metadata::{TEMPLATE_HASH, label_selector},
    model_config,
};

const HOSTNAME: &str = "kubernetes.io/hostname";
const SHARED_MEMORY: &str = "shared-memory";

/// The Pod, and whether it has an accelerator.
pub(super) fn pod(input: &PlacementInput<'_>) -> Result<(PodSpec, bool), Refusal> {
    let placement = input.placement;
    let spec = &placement.spec;
    let profile = &spec.runtime.content;
    let accelerator = accelerator(input)?;
    let accelerator = accelerator.as_ref();
    let mut container = container(placement, accelerator)?;
    let (mut mounts, mut volumes) = (Vec::new(), Vec::new());
    if let Some((variable, mount, volume)) = model_config::mount(placement) {
        container.env.get_or_insert_default().push(variable);
        mounts.push(mount);
        volumes.push(volume);
    }
    if let Some(size) = &profile.shared_memory {
        mounts.push(VolumeMount {
            name: SHARED_MEMORY.to_owned(),
            mount_path: "/dev/shm".to_owned(),
            ..VolumeMount::default()
        });
        volumes.push(Volume {
            name: SHARED_MEMORY.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                medium: Some("Memory".to_owned()),
                size_limit: Some(size.to_kubernetes()),
            }),
            ..Volume::default()
        });
    }
    container.volume_mounts = filled(mounts);
    let grace = profile
        .drain_seconds
        .saturating_add(LEAVE_SECONDS)
        .saturating_add(MARGIN_SECONDS);
    let secrets = spec.image_pull_secrets.iter();
    let secrets = secrets.map(|secret| LocalObjectReference {
        name: secret.name.clone(),
    });
    let mut tolerations = spec.tolerations.clone();
    tolerations.extend(
        accelerator
            .into_iter()
            .flat_map(|one| one.tolerations.clone()),
    );
    let groups = accelerator.map_or(&[][..], |one| one.supplemental_groups);
    let pod = PodSpec {
        service_account_name: Some(placement.name_any()),
        automount_service_account_token: Some(false),
        // A Service named vllm would set VLLM_PORT, which that runtime reads and can't.
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(grace.into()),
        image_pull_secrets: filled(secrets.collect()),
        node_selector: node_selector(&spec.node_selector, accelerator),
        tolerations: filled(tolerations),
        runtime_class_name: accelerator
            .and_then(|one| one.runtime_class)
            .map(ToOwned::to_owned),
        security_context: filled(groups.to_vec()).map(|groups| PodSecurityContext {
            supplemental_groups: Some(groups),
            ..PodSecurityContext::default()
        }),
        affinity: affinity(placement),
        topology_spread_constraints: spread(placement),
        containers: vec![container],
        volumes: filled(volumes),
        ..PodSpec::default()
    };
    Ok((pod, accelerator.is_some()))
}

/// What the server asks for beats what the accelerator's nodes usually have.
fn node_selector(
    own: &BTreeMap<String, String>,
    accelerator: Option<&Accelerator<'_>>,
) -> Option<BTreeMap<String, String>> {
    let mut all = accelerator
        .and_then(|accelerator| accelerator.node_selector)
        .cloned()
        .unwrap_or_default();
    all.extend(own.clone());
    (!all.is_empty()).then_some(all)
}

/// Also with one replica: to scale must not change the template, which would restart what serves. And of one revision alone:
/// else a roll-out could not place the new beside the old.
fn affinity(placement: &ServerPlacement) -> Option<Affinity> {
    let apart = PodAffinityTerm {
        label_selector: Some(label_selector(placement)),
        topology_key: HOSTNAME.to_owned(),
        match_label_keys: Some(vec![TEMPLATE_HASH.to_owned()]),
        ..PodAffinityTerm::default()
    };
    let anti = match placement.spec.spreading {
        Spreading::None => return None,
        Spreading::Preferred => PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![
                WeightedPodAffinityTerm {
                    weight: 100,
                    pod_affinity_term: apart,
                },
            ]),
            ..PodAntiAffinity::default()
        },
        Spreading::Required => PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![apart]),
            ..PodAntiAffinity::default()
        },
    };
    Some(Affinity {
        pod_anti_affinity: Some(anti),
        ..Affinity::default()
    })
}

/// Evenly, where more replicas than nodes have to share.
fn spread(placement: &ServerPlacement) -> Option<Vec<TopologySpreadConstraint>> {
    (placement.spec.spreading != Spreading::None).then(|| {
        vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: HOSTNAME.to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            label_selector: Some(label_selector(placement)),
            match_label_keys: Some(vec![TEMPLATE_HASH.to_owned()]),
            ..TopologySpreadConstraint::default()
        }]
    })
}

/// A list that is empty is not written.
pub(super) fn filled<T>(items: Vec<T>) -> Option<Vec<T>> {
    (!items.is_empty()).then_some(items)
}
