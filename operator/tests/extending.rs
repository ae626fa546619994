//! A plugin of one's own, found by its kind and tested by the contract of its actors. `docs/extending.md` quotes it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex};

use crds::condition::{State, Verdict};
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use operator::{
    conditions::{ConditionActor, Engine, Failure, Pace, Plugin, Ran, contract},
    registrar::{Error, Registrar},
};

/// What loads models.
type Loader = Arc<Mutex<Vec<String>>>;

/// A roll-out: which model is to be loaded, and what its steps came to.
struct RollOut {
    model: String,
    loader: Loader,
    conditions: Vec<Condition>,
    steps: Vec<Verdict>,
}

impl RollOut {
    fn of(model: &str, loader: &Loader) -> Self {
        Self {
            model: model.to_owned(),
            loader: Arc::clone(loader),
            conditions: Vec::new(),
            steps: Vec::new(),
        }
    }
}

/// The model is loaded.
struct ModelLoaded;

impl ConditionActor<RollOut> for ModelLoaded {
    fn condition_type(&self) -> &'static str {
        "ModelLoaded"
    }

    fn retrieve<'a>(
        &'a self,
        roll_out: &'a RollOut,
        _previous: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        let loaded = roll_out.loader.lock().unwrap().contains(&roll_out.model);
        let verdict = if loaded {
            Verdict::yes("ModelLoaded", "Loaded", "the loader has it")
        } else {
            Verdict::unknown("ModelLoaded", "Loading", "the loader does not have it yet")
        };
        Box::pin(std::future::ready(Ok(verdict)))
    }

    fn run<'a>(
        &'a self,
        roll_out: &'a RollOut,
        found: Verdict,
    ) -> BoxFuture<'a, Result<Ran, Failure>> {
        let mut loaded = roll_out.loader.lock().unwrap();
        if !loaded.contains(&roll_out.model) {
            loaded.push(roll_out.model.clone());
        }
        Box::pin(std::future::ready(Ok(Ran::acted(found))))
    }
}

/// The steps of a roll-out, in their order.
struct Steps(Vec<Arc<dyn ConditionActor<RollOut>>>);

impl Plugin<RollOut> for Steps {
    fn actors(&self) -> &[Arc<dyn ConditionActor<RollOut>>] {
        &self.0
    }

    fn conditions<'a>(&self, roll_out: &'a RollOut) -> &'a [Condition] {
        &roll_out.conditions
    }

    fn put_condition(&self, roll_out: &mut RollOut, verdict: Verdict) {
        roll_out.steps.push(verdict);
    }
}

/// What rolls out to each kind of target.
fn plugins() -> Result<Registrar<dyn Plugin<RollOut>>, Error> {
    let mut plugins = Registrar::<dyn Plugin<RollOut>>::default();
    let steps = Arc::new(Steps(vec![Arc::new(ModelLoaded)]));
    plugins.register("InferenceServer", "", steps)?;
    Ok(plugins)
}

/// One pass of the plugin for such a target.
async fn pass(plugins: &Registrar<dyn Plugin<RollOut>>, roll_out: &mut RollOut) -> bool {
    let engine = Engine {
        pace: Pace::OneStep,
        kill_reason: None,
    };
    let plugin = plugins
        .get("InferenceServer", "")
        .expect("it is registered");
    engine.run(plugin.as_ref(), roll_out).await.satisfied
}

#[tokio::test]
async fn a_plugin_is_found_by_its_kind_and_run_step_by_step() {
    let loader = Loader::default();
    let plugins = plugins().unwrap();
    let mut roll_out = RollOut::of("llama-3", &loader);
    assert!(!pass(&plugins, &mut roll_out).await);
    assert!(pass(&plugins, &mut RollOut::of("llama-3", &loader)).await);
    assert_eq!(roll_out.steps[0].state, State::Unknown);
    assert_eq!(*loader.lock().unwrap(), ["llama-3"]);
    let missing = plugins.get("Offline", "").err();
    let missing = missing.map(|error| error.to_string());
    let expected = "no plugin for Offline:; there are: InferenceServer:";
    assert_eq!(missing.as_deref(), Some(expected));
}

#[tokio::test]
async fn an_actor_keeps_its_contract() {
    let loader = Loader::default();
    let look = || RollOut::of("llama-3", &loader);
    let world = || loader.lock().unwrap().clone();
    contract::condition_actor(&ModelLoaded, look, world)
        .await
        .unwrap();
    assert_eq!(world(), ["llama-3"]);
}
