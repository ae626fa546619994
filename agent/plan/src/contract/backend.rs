//! The rules of a backend.

use std::collections::BTreeMap;

use crds::{
    condition::{HEALTH_CHECK, State},
    labels, names,
    v1alpha1::{Model, ModelPhase, Resources, RuntimePort, ServerPlacement},
};
use k8s_openapi::{
    api::{apps::v1::DeploymentSpec, core::v1::PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::ResourceExt;

use super::{
    Breach, Rule,
    facts::Facts,
    judged,
    rendered::{objects, refusals, shown},
    steady,
};
use crate::{Backend, Kind, Object, Observed, SERVICE_PORT};

/// The replicas that are asked for where the placement asks for none, or for many.
const REPLICAS: std::ops::RangeInclusive<u32> = 1..=3;

/// Does the backend keep every rule for this placement? It is one that the backend serves, with name, namespace and UID.
///
/// # Errors
///
/// The first rule that it breaks.
pub fn backend(backend: &dyn Backend, placement: &ServerPlacement) -> Result<(), Breach> {
    let mut placement = placement.clone();
    let (least, most) = REPLICAS.into_inner();
    placement.spec.replicas = placement.spec.replicas.clamp(least, most);
    let facts = Facts::well(&placement);

    let rendered = objects(&facts, |input| backend.render(input))?;
    refusals(&facts, |input| backend.render(input))?;
    for object in &rendered {
        own(object, &placement)?;
        pods(object, &placement)?;
    }
    reachable(&rendered, &placement)?;
    frozen(backend, &rendered, &placement)?;
    scaled(backend, &rendered, &placement)?;
    observed(backend, &facts, &rendered)
}

fn own(object: &Object, placement: &ServerPlacement) -> Result<(), Breach> {
    let id = object.id();
    let model_list = names::model_config(&placement.name_any());
    let others = id.kind == Kind::HttpRoute || id.kind == Kind::ConfigMap && id.name == model_list;
    Rule::OwnObjects.holds(!others, || format!("it renders {}", shown(object)))
}

fn reachable(rendered: &[Object], placement: &ServerPlacement) -> Result<(), Breach> {
    let takes = rendered.iter().any(|object| {
        let Object::Service(service) = object else {
            return false;
        };
        let ports = service.spec.iter().flat_map(|spec| spec.ports.iter());
        let mut ports = ports.flatten();
        service.name_any() == placement.name_any() && ports.any(|port| port.port == SERVICE_PORT)
    });
    Rule::Reachable.holds(takes, || "none is rendered".to_owned())
}

fn pods(object: &Object, placement: &ServerPlacement) -> Result<(), Breach> {
    let Object::Deployment(deployment) = object else {
        return Ok(());
    };
    let spec = deployment.spec.clone().unwrap_or_default();
    let metadata = spec.template.metadata.unwrap_or_default();
    let carried = metadata.labels.unwrap_or_default();
    let mut wanted = spec.selector.match_labels.unwrap_or_default();
    wanted.insert(labels::SERVER.to_owned(), placement.name_any());
    let missing = wanted
        .iter()
        .find(|(label, value)| carried.get(*label) != Some(value));
    Rule::PodLabels.holds(missing.is_none(), || {
        format!("those of {} lack {missing:?}", shown(object))
    })
}

/// Something of each Deployment, by its name.
fn deployments<T>(
    rendered: &[Object],
    read: impl Fn(&DeploymentSpec) -> T,
) -> BTreeMap<String, Option<T>> {
    let each = rendered.iter().filter_map(|object| {
        let Object::Deployment(deployment) = object else {
            return None;
        };
        Some((deployment.name_any(), deployment.spec.as_ref().map(&read)))
    });
    each.collect()
}

fn frozen(
    backend: &dyn Backend,
    rendered: &[Object],
    placement: &ServerPlacement,
) -> Result<(), Breach> {
    let selectors = |objects: &[Object]| -> BTreeMap<String, Option<LabelSelector>> {
        deployments(objects, |spec| spec.selector.clone())
    };
    let before = selectors(rendered);
    for changed in respecified(placement) {
        // What the backend does not serve has no selector.
        let Ok(objects) = backend.render(&Facts::well(&changed).input()) else {
            continue;
        };
        for (name, selector) in selectors(&objects) {
            let kept = before.get(&name).is_none_or(|before| *before == selector);
            Rule::FrozenSelector.holds(kept, || {
                let before = before.get(&name);
                format!("that of Deployment {name} was {before:?} and becomes {selector:?}")
            })?;
        }
    }
    Ok(())
}

/// The placement with one thing changed at a time, and its hub's bookkeeping with each.
fn respecified(placement: &ServerPlacement) -> Vec<ServerPlacement> {
    let changes: [fn(&mut ServerPlacement); 8] = [
        |placement| placement.spec.replicas = placement.spec.replicas.saturating_add(1),
        |placement| placement.spec.resources = Some(Resources::default()),
        |placement| placement.spec.runtime.profile.push_str("-2"),
        |placement| placement.spec.runtime.content.drain_seconds = 77,
        |placement| {
            for image in &mut placement.spec.runtime.content.images {
                image.image.push_str("-2");
            }
        },
        |placement| {
            placement.spec.model = Some(Model {
                uri: "s3://models/other".to_owned(),
                name: Some("other".to_owned()),
                deployment: Some("other-7".to_owned()),
                phase: ModelPhase::Staged,
            });
        },
        |placement| {
            placement.spec.runtime.content.args = Vec::new();
            placement.spec.runtime.content.command = vec!["serve".to_owned()];
        },
        |placement| {
            placement.spec.runtime.content.ports.push(RuntimePort {
                name: "contract".to_owned(),
                port: 9,
            });
        },
    ];
    let changed = changes.map(|change| {
        let mut placement = placement.clone();
        change(&mut placement);
        let annotations = placement.annotations_mut();
        annotations.insert(labels::GENERATION.to_owned(), "77".to_owned());
        annotations.insert(labels::HASH.to_owned(), "77".repeat(32));
        placement
    });
    changed.into()
}

fn scaled(
    backend: &dyn Backend,
    rendered: &[Object],
    placement: &ServerPlacement,
) -> Result<(), Breach> {
    let templates = |objects: &[Object]| -> BTreeMap<String, Option<PodTemplateSpec>> {
        deployments(objects, |spec| spec.template.clone())
    };
    let before = templates(rendered);
    for replicas in [0, placement.spec.replicas.saturating_add(7)] {
        let mut scaled = placement.clone();
        scaled.spec.replicas = replicas;
        let Ok(objects) = backend.render(&Facts::well(&scaled).input()) else {
            let seen = format!("{replicas} replicas are refused");
            return Err(Rule::Served.broken(seen));
        };
        for (name, template) in templates(&objects) {
            let kept = before.get(&name).is_none_or(|before| *before == template);
            Rule::ScaleRestartsNothing.holds(kept, || {
                format!("that of Deployment {name} does with {replicas} replicas")
            })?;
        }
    }
    Ok(())
}

fn observed(backend: &dyn Backend, facts: &Facts, rendered: &[Object]) -> Result<(), Breach> {
    let ask = |facts: &Facts| -> Result<Observed, Breach> {
        let observed = steady("observe", || backend.observe(&facts.input()))?;
        judged(HEALTH_CHECK, &observed.health)?;
        Ok(observed)
    };
    let wanted = facts.placement.spec.replicas;
    for (state, cluster, ready) in [
        ("nothing is live", facts.clone(), 0),
        ("no replica is ready", facts.with_live(rendered, false), 0),
        (
            "every replica is ready",
            facts.with_live(rendered, true),
            wanted,
        ),
    ] {
        let Observed { replicas, health } = ask(&cluster)?;
        let counted = (replicas.ready, replicas.wanted) == (ready, wanted);
        Rule::Replicas.holds(counted, || {
            format!(
                "where {state}, {} of {} are ready",
                replicas.ready, replicas.wanted
            )
        })?;
        let is_well = health.state == State::True;
        let rule = if ready == 0 {
            Rule::NotWell
        } else {
            Rule::Served
        };
        rule.holds(is_well == (ready != 0), || {
            let (status, message) = (health.state.as_str(), &health.message);
            format!("where {state}, health is {status}: {message}")
        })?;
    }
    Ok(())
}
