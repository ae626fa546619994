//! The rules of all that is rendered, whoever renders it.

use std::collections::BTreeSet;

use crds::v1alpha1::ServerPlacement;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::{Breach, Rule, TIMES, facts::Facts, refused};
use crate::{Object, PlacementInput, Refusal, metadata::metadata};

/// What is rendered, or why nothing is.
pub(super) type Rendered = Result<Vec<Object>, Refusal>;

/// The objects of a placement in a cluster where all is well, which keep every rule that is not of one driver alone.
pub(super) fn objects(
    facts: &Facts,
    render: impl Fn(&PlacementInput<'_>) -> Rendered,
) -> Result<Vec<Object>, Breach> {
    let first = render(&facts.input());
    for _ in 1..TIMES {
        let again = render(&facts.input());
        same(Rule::SameAnswer, &first, &again)?;
    }
    let objects = match &first {
        Ok(objects) => objects,
        Err(refusal) => {
            refused("a refusal to render", refusal)?;
            let seen = format!("it is refused: {} ({})", refusal.message, refusal.reason);
            return Err(Rule::Served.broken(seen));
        }
    };
    for object in objects {
        belongs(object, &facts.placement)?;
    }
    let stranger = stranger(facts);
    for object in render(&stranger.input()).into_iter().flatten() {
        belongs(&object, &stranger.placement)?;
    }
    let mut ids = BTreeSet::new();
    for id in objects.iter().map(Object::id) {
        let shown = format!("{} {} is there twice", id.kind.as_str(), id.name);
        Rule::DistinctIds.holds(ids.insert(id), || shown)?;
    }
    for state in facts.states(objects) {
        same(Rule::StatusFree, &first, &render(&state.input()))?;
    }
    Ok(objects.clone())
}

/// The placement of another namespace that is most like this one: what a driver knows of one is nothing of the other.
fn stranger(facts: &Facts) -> Facts {
    let mut facts = facts.clone();
    let metadata = &mut facts.placement.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    metadata.namespace = Some(format!("not-{namespace}"));
    metadata.uid = Some("uid-of-another-namespace".to_owned());
    facts
}

/// Where what is needed is missing, rendering says why or goes on.
pub(super) fn refusals(
    facts: &Facts,
    render: impl Fn(&PlacementInput<'_>) -> Rendered,
) -> Result<(), Breach> {
    let (mut without_gateway, mut without_api) = (facts.clone(), facts.clone());
    without_gateway.gateway = None;
    without_api.gateway_api = false;
    for facts in [without_gateway, without_api] {
        if let Err(refusal) = render(&facts.input()) {
            refused("a refusal to render", &refusal)?;
        }
    }
    Ok(())
}

/// Kind and name, for people.
pub(super) fn shown(object: &Object) -> String {
    let id = object.id();
    format!("{} {}", id.kind.as_str(), id.name)
}

fn belongs(object: &Object, placement: &ServerPlacement) -> Result<(), Breach> {
    let (_kind, live) = object.parts();
    let shown = shown(object);
    let name = placement.name_any();
    let ObjectMeta {
        namespace,
        labels,
        owner_references,
        ..
    } = metadata(placement, String::new());

    let own = live.name.as_deref().unwrap_or_default();
    let rest = own.strip_prefix(&name);
    let named = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    Rule::Name.holds(named, || format!("{shown} is of placement {name}"))?;
    Rule::Namespace.holds(live.namespace == namespace, || {
        format!("{shown} is in {:?}", live.namespace)
    })?;
    let carried = live.labels.clone().unwrap_or_default();
    let missing = labels
        .iter()
        .flatten()
        .find(|(label, value)| carried.get(*label) != Some(value));
    Rule::Labels.holds(missing.is_none(), || format!("{shown} lacks {missing:?}"))?;
    let owners = live.owner_references.clone().unwrap_or_default();
    let controllers: Vec<_> = owners
        .iter()
        .filter(|owner| owner.controller == Some(true))
        .collect();
    let wanted: Vec<_> = owner_references.iter().flatten().collect();
    Rule::Owner.holds(controllers == wanted && !wanted.is_empty(), || {
        format!("{shown} is controlled by {controllers:?}, and not by {wanted:?}")
    })
}

fn same(rule: Rule, before: &Rendered, after: &Rendered) -> Result<(), Breach> {
    rule.holds(before == after, || match (before, after) {
        (Ok(before), Ok(after)) => {
            let changed = before.iter().find(|object| !after.contains(object));
            let added = after.iter().find(|object| !before.contains(object));
            match changed.or(added) {
                Some(object) => format!("{} is rendered in two ways", shown(object)),
                None => "the order of the objects changes".to_owned(),
            }
        }
        (Err(refusal), _) | (_, Err(refusal)) => format!(
            "rendering it is refused at one time: {} ({})",
            refusal.message, refusal.reason
        ),
    })
}
