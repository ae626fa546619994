//! What a plan is with other drivers than those that are here.

use std::sync::Arc;

use agent_plan::{
    Backend, DeploymentBackend, Drivers, Endpoint, EndpointSource, Kind, Object, Observed, Outcome,
    Outcomes, PathRouting, PlacementInput, PlacementPlan, Refusal, Report, Routing, judge,
    metadata, plan,
};
use crds::condition::{State, Verdict};
use gateway_api::httproutes::HttpRoute;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};

use crate::given::{World, id, now, shown};

/// A ConfigMap, and a second Deployment, beside what is there.
#[derive(Debug)]
struct More;

impl Backend for More {
    fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<Object>, Refusal> {
        let mut objects = DeploymentBackend.render(input)?;
        objects.push(Object::ConfigMap(ConfigMap {
            metadata: metadata(input.placement, "llama-settings".to_owned()),
            ..ConfigMap::default()
        }));
        objects.push(Object::Deployment(Box::new(Deployment {
            metadata: metadata(input.placement, "llama-cache".to_owned()),
            ..Deployment::default()
        })));
        Ok(objects)
    }

    fn observe(&self, input: &PlacementInput<'_>) -> Observed {
        DeploymentBackend.observe(input)
    }
}

/// A second route, to the same place.
#[derive(Debug)]
struct TwoRoutes;

impl Routing for TwoRoutes {
    fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<HttpRoute>, Refusal> {
        let mut routes = PathRouting.render(input)?;
        routes.extend(routes.clone().into_iter().map(|mut route| {
            route.metadata.name = Some("llama-traffic-1".to_owned());
            route
        }));
        Ok(routes)
    }

    fn observe(&self, input: &PlacementInput<'_>) -> Verdict {
        PathRouting.observe(input)
    }
}

/// None, for a reason of its own.
#[derive(Debug)]
struct Nowhere;

impl EndpointSource for Nowhere {
    fn resolve(&self, _input: &PlacementInput<'_>) -> Result<Endpoint, Refusal> {
        Err(Refusal::new("Nowhere", "é".repeat(600)))
    }
}

fn others() -> Drivers {
    Drivers {
        backend: Arc::new(More),
        routing: Arc::new(TwoRoutes),
        endpoint_source: Arc::new(Nowhere),
    }
}

fn planned(world: &World) -> PlacementPlan {
    world.ask(|input| plan(&others(), input))
}

/// The report when one object, by name, was refused, and all else is as planned.
fn without(world: &World, kind: Kind, name: &str) -> Report {
    let planned = planned(world);
    let refused = Outcome::Refused {
        reason: crds::reason::NAME_CONFLICT,
        message: "another's".to_owned(),
    };
    let mut outcomes: Outcomes = planned
        .objects
        .iter()
        .map(|object| (object.id(), Outcome::Current))
        .collect();
    outcomes.insert(id(kind, name), refused);
    world.ask(|input| judge(&others(), input, &planned, &outcomes, now()))
}

fn failed(report: &Report) -> Vec<&str> {
    let verdicts = report.verdicts.iter();
    let failed = verdicts.filter(|verdict| verdict.state == State::False);
    failed.map(|verdict| verdict.kind).collect()
}

#[test]
fn what_another_driver_renders_is_planned_in_its_step() {
    let names: Vec<String> = planned(&World::well())
        .objects
        .iter()
        .map(|object| object.id().name)
        .collect();
    assert_eq!(
        names,
        [
            "llama-model-config",
            "llama",
            "llama",
            "llama",
            "llama",
            "llama-settings",
            "llama-cache",
            "llama-traffic-0",
            "llama-traffic-1",
        ]
    );
}

#[test]
fn an_object_fails_the_step_of_the_driver_that_renders_it_and_no_other() {
    let world = World::well();
    for (kind, name, step) in [
        (Kind::ConfigMap, "llama-settings", "BackendProvision"),
        (
            Kind::ConfigMap,
            "llama-model-config",
            "ModelConfigProvision",
        ),
        (Kind::HttpRoute, "llama-traffic-1", "TrafficRouteProvision"),
    ] {
        assert_eq!(failed(&without(&world, kind, name)), [step], "{name}");
    }
}

#[test]
fn replicas_are_judged_only_when_every_deployment_is_as_planned() {
    let report = without(&World::well(), Kind::Deployment, "llama-cache");
    assert_eq!(
        shown(&report.verdicts[3]),
        "Unknown StartingBackend: 2 of 2 replicas ready; the Deployment is not yet as planned"
    );
}

#[test]
fn a_step_that_is_done_names_the_kinds_that_its_backend_renders() {
    let report = without(&World::well(), Kind::HttpRoute, "llama-traffic-1");
    assert_eq!(
        shown(&report.verdicts[0]),
        "True Provisioned: ServiceAccount, Deployment, Service, PodDisruptionBudget and ConfigMap are as planned"
    );
}

#[test]
fn what_another_driver_does_not_render_any_more_is_removed() {
    let mut world = World::well();
    let objects = planned(&world).objects;
    world.owned = objects.iter().map(Object::id).collect();
    assert_eq!(planned(&world).removals, []);
    assert_eq!(
        world.plan().removals,
        [
            id(Kind::ConfigMap, "llama-settings"),
            id(Kind::Deployment, "llama-cache"),
            id(Kind::HttpRoute, "llama-traffic-1"),
        ]
    );
}

#[test]
fn why_another_source_gives_no_endpoint_is_told_within_bounds() {
    let report = without(&World::well(), Kind::HttpRoute, "llama-traffic-1");
    let refusal = report.endpoint.unwrap_err();
    assert_eq!(refusal.reason, "Nowhere");
    assert!(refusal.message.len() <= 512);
}
