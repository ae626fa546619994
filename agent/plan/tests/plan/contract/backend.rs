//! Backends that break one rule each.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use agent_plan::{
    Backend, DeploymentBackend, Object, Observed, PathRouting, PlacementInput, Refusal, Routing,
    contract::{self, Rule},
};
use crds::condition::{BACKEND_PROVISION, HEALTH_CHECK, Verdict};
use k8s_openapi::{
    api::{
        apps::v1::DeploymentSpec,
        core::v1::{ConfigMap, Service},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt;

use super::assert_broken;

type Render = fn(&PlacementInput<'_>, &mut Vec<Object>) -> Result<(), Refusal>;
type Observe = fn(&PlacementInput<'_>, &mut Observed);

/// The backend that is here, with one change.
#[derive(Debug)]
struct Changed {
    render: Render,
    observe: Observe,
}

impl Backend for Changed {
    fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<Object>, Refusal> {
        let mut objects = DeploymentBackend.render(input)?;
        (self.render)(input, &mut objects)?;
        Ok(objects)
    }

    fn observe(&self, input: &PlacementInput<'_>) -> Observed {
        let mut observed = DeploymentBackend.observe(input);
        (self.observe)(input, &mut observed);
        observed
    }
}

fn assert_refused(changes: &[(Rule, Render)]) {
    assert_broken(changes.iter().map(|(rule, render)| {
        let changed = Changed {
            render: *render,
            observe: |_, _| {},
        };
        let result = contract::backend(&changed, &contract::placement());
        (*rule, result)
    }));
}

fn assert_misjudged(changes: &[(Rule, Observe)]) {
    assert_broken(changes.iter().map(|(rule, observe)| {
        let changed = Changed {
            render: |_, _| Ok(()),
            observe: *observe,
        };
        let result = contract::backend(&changed, &contract::placement());
        (*rule, result)
    }));
}

static ASKED: AtomicU32 = AtomicU32::new(0);

fn asked() -> String {
    ASKED.fetch_add(1, Ordering::Relaxed).to_string()
}

fn deployment(objects: &mut [Object]) -> &mut DeploymentSpec {
    let mut found = objects.iter_mut().filter_map(|object| {
        let Object::Deployment(deployment) = object else {
            return None;
        };
        deployment.spec.as_mut()
    });
    found.next().unwrap()
}

fn service(objects: &mut [Object]) -> &mut Service {
    let mut found = objects.iter_mut().filter_map(|object| {
        let Object::Service(service) = object else {
            return None;
        };
        Some(&mut **service)
    });
    found.next().unwrap()
}

fn template(objects: &mut [Object]) -> &mut ObjectMeta {
    let template = &mut deployment(objects).template;
    template.metadata.as_mut().unwrap()
}

/// Notes something where it restarts replicas.
fn annotate(objects: &mut [Object], text: String) {
    let noted = template(objects).annotations.get_or_insert_default();
    noted.insert("example.com/noted".to_owned(), text);
}

#[test]
fn an_answer_that_changes_is_refused() {
    assert_refused(&[(Rule::SameAnswer, |_, objects| {
        annotate(objects, asked());
        Ok(())
    })]);
    assert_misjudged(&[(Rule::SameAnswer, |_, observed| {
        observed.health.message = asked();
    })]);
}

#[test]
fn what_is_rendered_from_what_became_of_it_is_refused() {
    assert_refused(&[
        (Rule::StatusFree, |input, objects| {
            annotate(objects, input.pods.len().to_string());
            Ok(())
        }),
        (Rule::StatusFree, |input, objects| {
            let version = input.placement.resource_version();
            annotate(objects, version.unwrap_or_default());
            Ok(())
        }),
        (Rule::StatusFree, |input, objects| {
            if !input.owned.is_empty() {
                objects.reverse();
            }
            Ok(())
        }),
        (Rule::StatusFree, |input, _| {
            if input.deployments.is_empty() {
                Ok(())
            } else {
                Err(Refusal::new("Once", "it is there already"))
            }
        }),
    ]);
}

#[test]
fn a_refusal_without_words_is_refused() {
    assert_refused(&[
        (Rule::Explained, |_, _| {
            Err(Refusal::new("not camel case", "a sentence"))
        }),
        (Rule::Explained, |_, _| Err(Refusal::new("Mute", " "))),
        (Rule::Served, |_, _| {
            Err(Refusal::new("Unserved", "a sentence"))
        }),
    ]);
    assert_misjudged(&[(Rule::Explained, |_, observed| {
        observed.health.reason = "lowerCase".to_owned();
    })]);
}

#[test]
fn an_object_that_is_not_marked_as_the_placements_is_refused() {
    assert_refused(&[
        (Rule::Owner, |_, objects| {
            service(objects).metadata.owner_references = None;
            Ok(())
        }),
        (Rule::Owner, |_, objects| {
            for owner in service(objects).owner_references_mut() {
                owner.block_owner_deletion = None;
            }
            Ok(())
        }),
        (Rule::Labels, |_, objects| {
            let labels = service(objects).labels_mut();
            labels.remove("app.kubernetes.io/managed-by");
            Ok(())
        }),
        (Rule::Namespace, |_, objects| {
            service(objects).metadata.namespace = Some("team-b".to_owned());
            Ok(())
        }),
        (Rule::Name, |_, objects| {
            service(objects).metadata.name = Some("llama2".to_owned());
            Ok(())
        }),
    ]);
}

#[test]
fn what_is_kept_of_another_placement_of_that_name_is_refused() {
    /// Renders each name once.
    #[derive(Debug, Default)]
    struct Kept(OnceLock<Vec<Object>>);

    impl Backend for Kept {
        fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<Object>, Refusal> {
            let Self(kept) = self;
            let objects = DeploymentBackend.render(input)?;
            Ok(kept.get_or_init(|| objects).clone())
        }

        fn observe(&self, input: &PlacementInput<'_>) -> Observed {
            DeploymentBackend.observe(input)
        }
    }

    let result = contract::backend(&Kept::default(), &contract::placement());
    assert_broken([(Rule::Namespace, result)]);
}

#[test]
fn two_objects_of_one_name_are_refused() {
    assert_refused(&[(Rule::DistinctIds, |_, objects| {
        let again = objects[0].clone();
        objects.push(again);
        Ok(())
    })]);
}

#[test]
fn what_others_render_is_refused() {
    assert_refused(&[
        (Rule::OwnObjects, |input, objects| {
            let route = PathRouting.render(input)?.remove(0);
            objects.push(Object::HttpRoute(Box::new(route)));
            Ok(())
        }),
        (Rule::OwnObjects, |input, objects| {
            let name = format!("{}-model-config", input.placement.name_any());
            objects.push(Object::ConfigMap(ConfigMap {
                metadata: agent_plan::metadata(input.placement, name),
                ..ConfigMap::default()
            }));
            Ok(())
        }),
    ]);
}

#[test]
fn a_backend_that_no_route_reaches_is_refused() {
    assert_refused(&[
        (Rule::Reachable, |_, objects| {
            objects.retain(|object| !matches!(object, Object::Service(_)));
            Ok(())
        }),
        (Rule::Reachable, |_, objects| {
            let spec = service(objects).spec.as_mut().unwrap();
            spec.ports.as_mut().unwrap()[0].port = 81;
            Ok(())
        }),
    ]);
}

#[test]
fn a_selector_that_follows_the_specification_is_refused() {
    assert_refused(&[(Rule::FrozenSelector, |input, objects| {
        let runtime = &input.placement.spec.runtime;
        let label = ("example.com/image", &runtime.content.images[0].image);
        let (name, value) = (label.0.to_owned(), label.1.replace(['/', ':'], "-"));
        let selector = &mut deployment(objects).selector;
        let selected = selector.match_labels.get_or_insert_default();
        selected.insert(name.clone(), value.clone());
        let carried = template(objects).labels.get_or_insert_default();
        carried.insert(name, value);
        Ok(())
    })]);
}

#[test]
fn pods_that_nobody_sees_are_refused() {
    assert_refused(&[
        (Rule::PodLabels, |_, objects| {
            let spec = deployment(objects);
            let selected = spec.selector.match_labels.get_or_insert_default();
            selected.insert("example.com/other".to_owned(), "x".to_owned());
            Ok(())
        }),
        (Rule::PodLabels, |_, objects| {
            let other = [("example.com/other".to_owned(), "x".to_owned())];
            deployment(objects).selector.match_labels = Some(other.clone().into());
            template(objects).labels = Some(other.into());
            Ok(())
        }),
    ]);
}

#[test]
fn a_template_that_follows_the_number_of_replicas_is_refused() {
    assert_refused(&[
        (Rule::ScaleRestartsNothing, |input, objects| {
            annotate(objects, input.placement.spec.replicas.to_string());
            Ok(())
        }),
        (Rule::Served, |input, _| {
            match input.placement.spec.replicas {
                0 => Err(Refusal::new("Nothing", "there is nothing to render")),
                _ => Ok(()),
            }
        }),
    ]);
}

#[test]
fn a_verdict_of_another_step_is_refused() {
    assert_misjudged(&[(Rule::VerdictKind, |_, observed| {
        observed.health.kind = BACKEND_PROVISION;
    })]);
}

#[test]
fn replicas_that_are_miscounted_are_refused() {
    assert_misjudged(&[
        (Rule::Replicas, |_, observed| observed.replicas.wanted = 1),
        (Rule::Replicas, |_, observed| {
            observed.replicas.ready = observed.replicas.wanted;
        }),
        (Rule::Replicas, |_, observed| observed.replicas.ready = 0),
    ]);
}

#[test]
fn what_is_not_there_is_not_taken_for_well_nor_what_is_for_not() {
    assert_misjudged(&[
        (Rule::NotWell, |_, observed| {
            observed.health = Verdict::yes(HEALTH_CHECK, "Well", "as ever");
        }),
        (Rule::NotWell, |input, observed| {
            if !input.deployments.is_empty() {
                observed.health = Verdict::yes(HEALTH_CHECK, "Well", "it is there");
            }
        }),
        (Rule::Served, |_, observed| {
            observed.health = Verdict::unknown(HEALTH_CHECK, "StartingBackend", "as ever");
        }),
    ]);
}
