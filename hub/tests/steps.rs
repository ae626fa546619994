//! The hub's own steps: what they write, in which order, and what their conditions say of it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use crds::{
    ClusterName,
    condition::{
        CLEANUP, DISCOVERY_ROUTE_PROVISION, ENDPOINT_PUBLISH, ROUTE_CLEANUP, VALIDATION, Verdict,
    },
    v1alpha1::InferenceServer,
};
use futures::future::BoxFuture;
use hub::{
    contract,
    endpoints::{Publication, Publisher, Synced},
    routing::{RouteIntent, Routing},
    server::{
        Pass,
        plugin::{OwnSteps, ServerPlugin, Steps},
    },
};
use hub_plan::memory::PublishedEndpoint;
use operator::conditions::{Again, Engine, Failure, Outcome, Pace};

const ENGINE: Engine = Engine {
    pace: Pace::AllSteps,
    kill_reason: None,
};

/// A world that writes down what it is told.
#[derive(Clone, Default)]
struct World {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    log: Vec<&'static str>,
    /// What is so: `published`, `routed`, `deleted`, and `retired`: something goes once the routes are as planned.
    is: BTreeSet<&'static str>,
    refuses: Option<Failure>,
    wait: Option<Duration>,
}

impl World {
    fn steps(&self) -> OwnSteps {
        let publisher: Arc<dyn Publisher> = Arc::new(self.clone());
        let routing: Arc<dyn Routing> = Arc::new(self.clone());
        OwnSteps::new(&publisher, &routing)
    }

    fn set(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.inner.lock().unwrap());
    }

    fn write(&self, what: &'static str) -> BoxFuture<'_, Result<Synced, Failure>> {
        let mut inner = self.inner.lock().unwrap();
        inner.log.push(what);
        if let Some(failure) = inner.refuses.clone() {
            return Box::pin(std::future::ready(Err(failure)));
        }
        let wait = inner.wait;
        match what {
            "publish" if wait.is_none() => {
                inner.is.insert("published");
            }
            "retire" => {
                inner.is.remove("retired");
            }
            "delete" => {
                inner.is.insert("deleted");
            }
            "route" => {
                inner.is.insert("routed");
            }
            _ => {}
        }
        let synced = Synced { wrote: true, wait };
        Box::pin(std::future::ready(Ok(synced)))
    }

    fn so(&self, what: &'static str) {
        self.inner.lock().unwrap().is.insert(what);
    }

    fn is(&self, what: &str) -> bool {
        self.inner.lock().unwrap().is.contains(what)
    }

    fn log(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.inner.lock().unwrap().log)
    }
}

impl Publisher for World {
    fn get(&self, _: &InferenceServer) -> BTreeMap<ClusterName, PublishedEndpoint> {
        BTreeMap::new()
    }

    fn is_synced(&self, publication: &Publication<'_>) -> bool {
        self.is("published") && !(self.is("retired") && publication.routed)
    }

    fn is_published(&self, _: &Publication<'_>) -> bool {
        self.is("published")
    }

    fn sync<'a>(
        &'a self,
        publication: &'a Publication<'a>,
    ) -> BoxFuture<'a, Result<Synced, Failure>> {
        let retires = self.is("retired") && publication.routed;
        self.write(if retires { "retire" } else { "publish" })
    }

    fn delete<'a>(&'a self, _: &'a InferenceServer) -> BoxFuture<'a, Result<Synced, Failure>> {
        self.write("delete")
    }

    fn is_deleted(&self, _: &InferenceServer) -> bool {
        self.is("deleted")
    }
}

impl Routing for World {
    fn is_synced(&self, _: &RouteIntent<'_>) -> bool {
        self.is("routed")
    }

    fn sync<'a>(&'a self, _: &'a RouteIntent<'a>) -> BoxFuture<'a, Result<Synced, Failure>> {
        self.write("route")
    }
}

fn pass() -> Pass {
    contract::pass(&contract::server("team", "llama"))
}

/// The plan of a server whose profile exists: what `contract` plans without one is held back by nothing, since both clusters
/// hold it already.
async fn run(steps: &Steps, pass: &mut Pass) -> Outcome {
    ENGINE.run(steps, pass).await
}

fn said<'a>(pass: &'a Pass, kind: &str) -> &'a Verdict {
    pass.steps.iter().find(|step| step.kind == kind).unwrap()
}

fn refusal(passing: bool) -> Failure {
    Failure {
        reason: "ApplyRefused".to_owned(),
        message: "Service llama-endpoints: no".to_owned(),
        passing,
        again: Again::OnEvent,
    }
}

#[tokio::test]
async fn what_a_route_names_is_published_before_it() {
    let world = World::default();
    let outcome = run(world.steps().creation(), &mut pass()).await;
    assert_eq!(world.log(), ["publish", "route"]);
    assert_eq!(
        outcome.again,
        Again::AtOnce,
        "the next look sees what was written"
    );
    let outcome = run(world.steps().creation(), &mut pass()).await;
    assert_eq!(world.log(), [""; 0], "what is as planned is not written");
    assert_eq!(outcome.again, Again::OnEvent);
}

#[tokio::test]
async fn no_route_is_written_over_what_could_not_be_published() {
    for (passing, expected) in [(true, "Unknown"), (false, "False")] {
        let world = World::default();
        world.set(|inner| inner.refuses = Some(refusal(passing)));
        let mut pass = pass();
        let outcome = run(world.steps().creation(), &mut pass).await;
        assert_eq!(world.log(), ["publish"]);
        assert_eq!(outcome.failures, ["ApplyRefused"]);
        let verdict = said(&pass, ENDPOINT_PUBLISH);
        assert_eq!(verdict.state.as_str(), expected);
        assert_eq!(verdict.message, "Service llama-endpoints: no");
        assert_eq!(
            said(&pass, DISCOVERY_ROUTE_PROVISION).state.as_str(),
            "Unknown"
        );
    }
}

#[tokio::test]
async fn what_waits_for_its_turn_is_looked_at_then() {
    let world = World::default();
    let wait = Duration::from_millis(700);
    world.set(|inner| inner.wait = Some(wait));
    let mut pass = pass();
    let outcome = run(world.steps().creation(), &mut pass).await;
    assert_eq!(outcome.wait(), Some(wait));
    assert_eq!(world.log(), ["publish"]);
    assert_eq!(said(&pass, ENDPOINT_PUBLISH).reason, "Publishing");
}

#[tokio::test]
async fn what_is_planned_and_not_published_is_not_called_published() {
    let world = World::default();
    world.set(|inner| inner.refuses = Some(refusal(true)));
    let mut pass = pass();
    run(world.steps().creation(), &mut pass).await;
    assert_ne!(said(&pass, ENDPOINT_PUBLISH).state.as_str(), "True");
}

#[tokio::test]
async fn a_specification_that_can_not_be_carried_out_begins_nothing() {
    let world = World::default();
    let mut pass = pass();
    assert_eq!(pass.judged(VALIDATION).reason, "RuntimeProfileNotFound");
    pass.plan.begun = false;
    let outcome = run(world.steps().creation(), &mut pass).await;
    assert!(outcome.terminal && !outcome.satisfied);
    assert_eq!(world.log(), [""; 0]);
}

#[tokio::test]
async fn what_has_begun_is_kept_right_whatever_becomes_of_the_specification() {
    let world = World::default();
    let mut pass = pass();
    assert!(pass.plan.begun);
    run(world.steps().creation(), &mut pass).await;
    assert_eq!(world.log(), ["publish", "route"]);
}

#[tokio::test]
async fn on_the_way_out_routes_go_first_and_what_is_published_last() {
    let world = World::default();
    let mut server = contract::server("team", "llama");
    server.spec.decommission = true;
    let mut pass = contract::pass(&server);
    assert!(!pass.plan.emptied);
    run(world.steps().deletion(), &mut pass).await;
    assert_eq!(world.log(), ["route", "publish"], "it drains");
    assert_eq!(said(&pass, ROUTE_CLEANUP).reason, "Removing");
    run(world.steps().deletion(), &mut pass).await;
    assert_eq!(world.log(), [""; 0], "members are waited for");
    let mut pass = emptied();
    run(world.steps().deletion(), &mut pass).await;
    assert_eq!(world.log(), ["delete"]);
    assert_eq!(said(&pass, CLEANUP).reason, "Removing");
}

/// A look at a server on its way out of which no member holds a part any more, and no object of the hub's own is there.
fn emptied() -> Pass {
    let mut server = contract::server("team", "llama");
    server.spec.decommission = true;
    let mut pass = contract::pass(&server);
    pass.plan.emptied = true;
    for kind in [ROUTE_CLEANUP, CLEANUP] {
        pass.plan.steps.retain(|step| step.kind != kind);
        pass.plan.steps.push(Verdict::yes(kind, "Removed", ""));
    }
    pass
}

#[tokio::test]
async fn what_a_route_may_lead_to_goes_after_the_route_has_changed() {
    let world = World::default();
    world.so("retired");
    run(world.steps().creation(), &mut pass()).await;
    assert_eq!(world.log(), ["publish", "route"]);
    run(world.steps().creation(), &mut pass()).await;
    assert_eq!(world.log(), ["retire"]);
    let outcome = run(world.steps().creation(), &mut pass()).await;
    assert_eq!(world.log(), [""; 0]);
    assert_eq!(outcome.again, Again::OnEvent);
}

#[tokio::test]
async fn routes_are_gone_only_when_who_keeps_them_says_so() {
    let world = World::default();
    world.so("deleted");
    let mut pass = emptied();
    let outcome = run(world.steps().deletion(), &mut pass).await;
    assert!(!outcome.satisfied);
    assert_eq!(said(&pass, ROUTE_CLEANUP).reason, "Removing");
    assert_eq!(world.log(), ["route"]);
    let mut pass = emptied();
    assert!(run(world.steps().deletion(), &mut pass).await.satisfied);
    assert_eq!(said(&pass, ROUTE_CLEANUP).reason, "Removed");
}

#[tokio::test]
async fn what_is_published_is_gone_only_when_who_publishes_says_so_whatever_it_remembers() {
    let world = World::default();
    world.so("routed");
    let mut pass = emptied();
    let outcome = run(world.steps().deletion(), &mut pass).await;
    assert!(
        !outcome.satisfied,
        "get knows of nothing, and something is there"
    );
    assert_eq!(said(&pass, CLEANUP).reason, "Removing");
    assert_eq!(world.log(), ["delete"]);
    assert!(
        run(world.steps().deletion(), &mut emptied())
            .await
            .satisfied
    );
}

#[tokio::test]
async fn nothing_that_a_route_leads_to_is_deleted_while_the_route_can_not_be() {
    for passing in [true, false] {
        let world = World::default();
        world.set(|inner| inner.refuses = Some(refusal(passing)));
        let mut pass = emptied();
        let outcome = run(world.steps().deletion(), &mut pass).await;
        assert_eq!(world.log(), ["route"]);
        assert_eq!(outcome.failures, ["ApplyRefused"]);
        assert_eq!(said(&pass, ROUTE_CLEANUP).reason, "ApplyRefused");
    }
}
