//! Passes over one server, with steps of a test's own.

mod hold;
mod logs;
mod namespaces;
mod turns;

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::{Method, StatusCode};
use crds::{
    condition::{VALIDATION, Verdict},
    v1alpha1::InferenceServerStatus,
};
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use operator::conditions::{ConditionActor, Failure, Ran};

use super::{plugin::Steps, *};
use crate::{
    apply::Applier,
    endpoints::{DiscoverySlices, ReportedEndpoints},
    fake::{FakeApi, SERVERS, held},
    models::SpecifiedModel,
    probe::Http,
    resolve::System,
    routing::{GatewayRoutes, Routing},
};

/// How long the hub has run when a test begins.
const RUNS_FOR: Duration = Duration::from_mins(1);

/// One step, which says the same each time that it is taken.
struct Step {
    ran: Result<Again, Failure>,
    runs: AtomicUsize,
}

impl ConditionActor<Pass> for Step {
    fn condition_type(&self) -> &'static str {
        "Step"
    }

    fn retrieve<'a>(
        &'a self,
        _: &'a Pass,
        _: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        let verdict = Verdict::unknown("Step", "Pending", "not done");
        Box::pin(std::future::ready(Ok(verdict)))
    }

    fn run<'a>(&'a self, _: &'a Pass, verdict: Verdict) -> BoxFuture<'a, Result<Ran, Failure>> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let ran = self.ran.clone().map(|again| Ran { verdict, again });
        Box::pin(std::future::ready(ran))
    }
}

impl ServerPlugin for Steps {
    fn creation(&self) -> &Steps {
        self
    }

    fn deletion(&self) -> &Steps {
        self
    }
}

/// A hub's API server with the server `team/llama` in it.
fn api() -> FakeApi {
    let api = FakeApi::default();
    let server = held(crate::contract::server("team", "llama"), 1);
    let path = format!("{SERVERS}/llama");
    api.put(&path, serde_json::to_value(&server).unwrap());
    api
}

/// What reconciles it, by the steps that `plugin` makes of the hub's own publisher and routing.
fn reconciler(
    api: &FakeApi,
    plugin: impl FnOnce(&Arc<dyn Publisher>, &Arc<dyn Routing>) -> Arc<dyn ServerPlugin>,
) -> Arc<Reconciler> {
    let (caches, clock) = (api.caches(), Clock::running_for(RUNS_FOR));
    let metrics = Arc::new(Metrics::new(clock));
    let applier = Arc::new(Applier::new(api.client(), clock, Arc::clone(&metrics)));
    let publisher = DiscoverySlices::new(caches.clone(), Arc::clone(&applier), clock);
    let publisher: Arc<dyn Publisher> = Arc::new(publisher);
    let routing: Arc<dyn Routing> = Arc::new(GatewayRoutes::new(caches.clone(), applier));
    let placer = Placer::new(
        caches.clone(),
        clock,
        Arc::clone(&publisher),
        Arc::new(SpecifiedModel),
    );
    let plugin = plugin(&publisher, &routing);
    Arc::new(Reconciler::new(Parts {
        client: api.client(),
        caches,
        placer: Arc::new(placer),
        resolver: Arc::new(Resolver::new(System::load())),
        prober: Arc::new(Prober::new(Http, clock)),
        provider: Arc::new(ReportedEndpoints),
        publisher,
        plugin,
        clock,
        metrics,
        gateway: None,
        refused_cidrs: Vec::new(),
    }))
}

fn key() -> ObjectKey {
    ObjectKey::new("team", "llama")
}

/// Steps of which there is one, which comes to that, and it.
fn one_step(ran: Result<Again, Failure>) -> (Steps, Arc<Step>) {
    let step = Arc::new(Step {
        ran,
        runs: AtomicUsize::new(0),
    });
    let actor: actors::Actor = Arc::<Step>::clone(&step);
    (Steps::new(vec![actor]).unwrap(), step)
}

/// What reconciles the server by one step that comes to that.
fn stepping(api: &FakeApi, ran: Result<Again, Failure>) -> (Arc<Reconciler>, Arc<Step>) {
    let (steps, step) = one_step(ran);
    (reconciler(api, |_, _| Arc::new(steps)), step)
}

/// A failure that is told at once.
fn broken() -> Failure {
    Failure {
        reason: "Broken".to_owned(),
        message: "no".to_owned(),
        passing: false,
        again: Again::OnEvent,
    }
}

/// One pass over a server whose one step is that; what it comes to, how often the step was taken, and the server after it.
async fn pass(ran: Result<Again, Failure>) -> (Next, usize, serde_json::Value) {
    let api = api();
    let (reconciler, step) = stepping(&api, ran);
    let next = reconciler.reconcile(key()).await;
    let runs = step.runs.load(Ordering::SeqCst);
    (next, runs, api.get("llama").unwrap())
}

#[tokio::test]
async fn a_write_that_is_undone_each_time_ends_the_pass_and_waits_for_an_event() {
    let (next, runs, _) = pass(Ok(Again::AtOnce)).await;
    // The status has its turn then.
    let within = Some(Duration::from_secs(1));
    assert_eq!(next, Next::Recheck { within });
    assert_eq!(runs, 2, "once for each step, and once more");
}

#[tokio::test]
async fn a_failure_is_in_the_status_though_other_writes_wait_for_their_turn() {
    let wait = Duration::from_millis(700);
    let failure = Failure {
        reason: "ApplyRefused".to_owned(),
        message: "EndpointSlice team/llama-west: no".to_owned(),
        passing: false,
        again: Again::After(wait),
    };
    let (next, runs, server) = pass(Err(failure)).await;
    assert_eq!((next, runs), (Next::RetryWithin(wait), 1));
    let conditions = server["status"]["conditions"].as_array().unwrap();
    let step = conditions
        .iter()
        .find(|condition| condition["type"] == "Step");
    let said = step.map(|step| (step["status"].clone(), step["message"].clone()));
    let expected = ("False".into(), "EndpointSlice team/llama-west: no".into());
    assert_eq!(said, Some(expected));
}

#[tokio::test]
async fn a_status_waits_for_what_is_published_but_not_while_some_of_it_always_waits() {
    let api = api();
    let wait = Duration::from_millis(700);
    let (reconciler, _) = stepping(&api, Ok(Again::After(wait)));
    let pass = || Arc::clone(&reconciler).reconcile(key());
    assert_eq!(pass().await, Next::After(wait));
    let server = api.get("llama").unwrap();
    let uid = server["metadata"]["uid"].as_str().unwrap();
    let waiting = reconciler.pace.waiting(&key(), uid).unwrap();
    let mut kinds = waiting.conditions.iter().map(|condition| &condition.type_);
    assert!(kinds.any(|kind| kind == VALIDATION), "the plan's is kept");
    // It began to wait when the hub started.
    reconciler.pace.forget(&key());
    reconciler.pace.hold(&key(), Some(wait), Duration::ZERO);
    let within = Some(wait);
    assert_eq!(pass().await, Next::Recheck { within });
}

#[tokio::test]
async fn a_status_that_could_not_be_written_is_kept() {
    let api = api();
    api.refuse(Method::PATCH, "/llama/status", StatusCode::FORBIDDEN);
    let (reconciler, _) = stepping(&api, Err(broken()));
    let pass = || Arc::clone(&reconciler).reconcile(key());
    let kept = || {
        let server = api.get("llama").unwrap();
        let uid = server["metadata"]["uid"].as_str().unwrap();
        reconciler.pace.waiting(&key(), uid).is_some()
    };
    pass().await;
    assert!(kept());
    api.relent();
    pass().await;
    assert!(!kept());
}

/// Has its say when the steps have been taken.
struct Remarks(Steps);

impl ServerPlugin for Remarks {
    fn creation(&self) -> &Steps {
        &self.0
    }

    fn deletion(&self) -> &Steps {
        &self.0
    }

    fn finish(&self, pass: &Pass, status: &mut InferenceServerStatus) {
        let steps: Vec<_> = pass.steps.iter().map(|step| step.kind).collect();
        status.summary.reason = format!("after {}, {:?}", steps.join(" "), status.state);
    }
}

#[tokio::test]
async fn a_plugin_has_the_last_word_on_the_status_that_its_steps_came_to() {
    let api = api();
    let plugin = Arc::new(Remarks(one_step(Err(broken())).0));
    reconciler(&api, |_, _| plugin).reconcile(key()).await;
    let server = api.get("llama").unwrap();
    assert_eq!(
        server["status"]["summary"]["reason"],
        "after Step, Creating"
    );
}
