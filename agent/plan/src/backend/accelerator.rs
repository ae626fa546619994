//! The accelerator that each replica of a placement needs, with all that its Pods need for it.

use std::collections::BTreeMap;

use crds::{
    reason,
    v1alpha1::{
        AcceleratorProfileSpec, PlacementAccelerator, RuntimeClass, RuntimeClassPolicy, Variable,
    },
};
use k8s_openapi::api::core::v1::Toleration;

use crate::{PlacementInput, gateway::Refusal};

/// Whose device plugins offer resources of a domain. Of any other, the domain is the vendor's name.
const VENDORS: [(&str, &str); 20] = [
    ("amd.com", "amd"),
    ("aws.amazon.com", "aws"),
    ("birentech.com", "biren"),
    ("cambricon.com", "cambricon"),
    ("enflame.com", "enflame"),
    ("google.com", "google"),
    ("gpu.intel.com", "intel"),
    ("habana.ai", "habana"),
    ("huawei.com", "huawei"),
    ("hygon.com", "hygon"),
    ("ibm.com", "ibm"),
    ("iluvatar.ai", "iluvatar"),
    ("iluvatar.com", "iluvatar"),
    ("kunlunxin.com", "kunlunxin"),
    ("metax-tech.com", "metax"),
    ("mthreads.com", "mthreads"),
    ("nvidia.com", "nvidia"),
    ("rebellions.ai", "rebellions"),
    ("vastaitech.com", "vastai"),
    ("volcano.sh", "nvidia"),
];
/// The vendor whose Pods need a RuntimeClass where the container runtime has none of its own for them, and its usual name.
const WITH_RUNTIME_CLASS: (&str, &str) = ("nvidia", "nvidia");

/// What the Pods of a placement need for their accelerator.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Accelerator<'a> {
    pub(super) vendor: &'a str,
    pub(super) resource: &'a str,
    pub(super) count: u32,
    pub(super) runtime_class: Option<&'a str>,
    pub(super) node_selector: Option<&'a BTreeMap<String, String>>,
    pub(super) tolerations: Vec<Toleration>,
    pub(super) env: &'a [Variable],
    pub(super) supplemental_groups: &'a [i64],
}

/// The accelerator of a placement; `None` when it needs none.
pub(super) fn accelerator<'a>(
    input: &PlacementInput<'a>,
) -> Result<Option<Accelerator<'a>>, Refusal> {
    let Some(PlacementAccelerator {
        wanted, content, ..
    }) = &input.placement.spec.accelerator
    else {
        return Ok(None);
    };
    let content = content.as_ref();
    let own = wanted.resource_name.as_ref();
    let Some(name) = own.or_else(|| content.map(|content| &content.resource_name)) else {
        return Err(invalid("neither profile nor resourceName says which"));
    };
    let resource = name.0.as_str();
    let count = wanted.count;
    let counts = content.map_or(&[][..], |content| &content.counts);
    if !counts.is_empty() && !counts.contains(&count) {
        let counts: Vec<_> = counts.iter().map(ToString::to_string).collect();
        let counts = counts.join(", ");
        return Err(invalid(&format!(
            "count is {count}, and one Pod takes {resource} only in counts of {counts}"
        )));
    }
    if let Some(resources) = &input.placement.spec.resources
        && (resources.requests.contains_key(resource) || resources.limits.contains_key(resource))
    {
        return Err(invalid(&format!(
            "spec.resources names {resource} as well: take it out there, spec.accelerator.count says how many"
        )));
    }
    let vendor = content.map_or_else(|| vendor(name.domain()), |content| &content.vendor);
    Ok(Some(Accelerator {
        vendor,
        resource,
        count,
        runtime_class: runtime_class(input, wanted.runtime_class_name.as_deref(), content, vendor)?,
        node_selector: content.map(|content| &content.node_selector),
        tolerations: tolerations(content, resource),
        env: content.map_or(&[], |content| &content.env),
        supplemental_groups: content.map_or(&[], |content| &content.supplemental_groups),
    }))
}

/// The vendor of a resource's domain.
fn vendor(domain: &str) -> &str {
    let known = VENDORS.iter().find(|(known, _)| *known == domain);
    known.map_or(domain, |(_, vendor)| vendor)
}

/// Device plugins' own advice is to taint nodes by the resource that they offer.
fn tolerations(content: Option<&AcceleratorProfileSpec>, resource: &str) -> Vec<Toleration> {
    content.map_or_else(
        || {
            vec![Toleration {
                key: Some(resource.to_owned()),
                operator: Some("Exists".to_owned()),
                ..Toleration::default()
            }]
        },
        |content| content.tolerations.clone(),
    )
}

/// The RuntimeClass of the Pods. One that replicas have stays theirs when it goes: nothing that serves is restarted for it.
fn runtime_class<'a>(
    input: &PlacementInput<'a>,
    own: Option<&'a str>,
    content: Option<&'a AcceleratorProfileSpec>,
    vendor: &str,
) -> Result<Option<&'a str>, Refusal> {
    let (vendor_of, usual) = WITH_RUNTIME_CLASS;
    let (name, policy) = match (own, content) {
        (Some(""), _) => return Ok(None),
        (Some(own), _) => (own, RuntimeClassPolicy::Required),
        (None, Some(content)) => match &content.runtime_class {
            None => return Ok(None),
            Some(RuntimeClass { name, policy }) => (name.as_str(), *policy),
        },
        (None, None) if vendor == vendor_of => (usual, RuntimeClassPolicy::IfPresent),
        (None, None) => return Ok(None),
    };
    if input.runtime_classes.contains(name) || live_class(input) == Some(name) {
        return Ok(Some(name));
    }
    match policy {
        RuntimeClassPolicy::IfPresent => Ok(None),
        RuntimeClassPolicy::Required => Err(Refusal::new(
            reason::RUNTIME_CLASS_MISSING,
            format!(
                "there is no RuntimeClass {name} in this cluster: install what brings it, or set spec.accelerator.runtimeClassName (\"\" for none)"
            ),
        )),
    }
}

/// The RuntimeClass of the replicas that are there.
fn live_class<'a>(input: &PlacementInput<'a>) -> Option<&'a str> {
    let name = input.placement.metadata.name.as_deref()?;
    let template = &input.deployment(name)?.spec.as_ref()?.template;
    template.spec.as_ref()?.runtime_class_name.as_deref()
}

fn invalid(message: &str) -> Refusal {
    Refusal::new(
        reason::INVALID_ACCELERATOR,
        format!("spec.accelerator: {message}"),
    )
}
