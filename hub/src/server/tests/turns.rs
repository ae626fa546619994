//! A pass ends, whatever its steps say.

use std::sync::Mutex;

use proptest::prelude::*;

use super::*;

const KINDS: [&str; 4] = ["A", "B", "C", "D"];

/// What a step says when it is asked, or run.
#[derive(Clone, Copy, Debug)]
enum Says {
    Yes,
    No,
    Pending,
    Acted,
    Waits,
    Fails,
}

impl Says {
    fn verdict(self, kind: &'static str) -> Result<Ran, Failure> {
        let pending = Verdict::unknown(kind, "Pending", "not done");
        Ok(match self {
            Self::Yes => Ran::waits(Verdict::yes(kind, "Done", "")),
            Self::No => Ran::waits(Verdict::no(kind, "Failed", "not done")),
            Self::Pending => Ran::waits(pending),
            Self::Acted => Ran::acted(pending),
            Self::Waits => Ran::after(pending, Duration::from_secs(1)),
            Self::Fails => {
                return Err(Failure {
                    reason: "Broken".to_owned(),
                    message: "no".to_owned(),
                    passing: true,
                    again: Again::AtOnce,
                });
            }
        })
    }
}

/// A step that says one thing after the other, and begins anew.
struct Erratic {
    kind: &'static str,
    says: Vec<(Says, Says)>,
    asked: Arc<Mutex<usize>>,
}

impl Erratic {
    fn says(&self, turn: usize) -> (Says, Says) {
        self.says[turn % self.says.len()]
    }
}

impl ConditionActor<Pass> for Erratic {
    fn condition_type(&self) -> &'static str {
        self.kind
    }

    fn retrieve<'a>(
        &'a self,
        _: &'a Pass,
        _: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        let mut asked = self.asked.lock().unwrap();
        let (found, _) = self.says(*asked);
        *asked += 1;
        assert!(*asked <= KINDS.len() + 1, "the pass goes round for ever");
        let found = found.verdict(self.kind).map(|ran| ran.verdict);
        Box::pin(std::future::ready(found))
    }

    fn run<'a>(&'a self, _: &'a Pass, _: Verdict) -> BoxFuture<'a, Result<Ran, Failure>> {
        let (_, ran) = self.says(*self.asked.lock().unwrap());
        Box::pin(std::future::ready(ran.verdict(self.kind)))
    }
}

fn says() -> impl Strategy<Value = Says> {
    use Says::{Acted, Fails, No, Pending, Waits, Yes};
    prop::sample::select(vec![Yes, Yes, No, Pending, Acted, Acted, Waits, Fails])
}

fn steps() -> impl Strategy<Value = Vec<Vec<(Says, Says)>>> {
    let says = prop::collection::vec((says(), says()), 1..4);
    prop::collection::vec(says, 1..=KINDS.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_pass_ends_whatever_its_steps_say(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _guard = runtime.enter();
        let api = api();
        let turns: Vec<_> = steps.iter().map(|_| Arc::<Mutex<usize>>::default()).collect();
        let actors = KINDS.into_iter().zip(&steps).zip(&turns).map(|((kind, says), turns)| {
            let actor: actors::Actor = Arc::new(Erratic {
                kind,
                says: says.clone(),
                asked: Arc::clone(turns),
            });
            actor
        });
        let plugin = Arc::new(Steps::new(actors.collect()).unwrap());
        let reconciler = reconciler(&api, |_, _| plugin);
        runtime.block_on(reconciler.reconcile(key()));
        for asked in turns {
            let asked = *asked.lock().unwrap();
            prop_assert!(asked >= 1 && asked <= steps.len() + 1, "asked {} times", asked);
        }
    }
}

type Change = Box<dyn FnOnce() + Send>;

/// A step during which a user changes the server.
struct Interrupted(Mutex<Option<Change>>);

impl ConditionActor<Pass> for Interrupted {
    fn condition_type(&self) -> &'static str {
        "Interrupted"
    }

    fn retrieve<'a>(
        &'a self,
        _: &'a Pass,
        _: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        if let Some(change) = self.0.lock().unwrap().take() {
            change();
        }
        let verdict = Verdict::no("Interrupted", "Failed", "is told at once");
        Box::pin(std::future::ready(Ok(verdict)))
    }

    fn run<'a>(&'a self, _: &'a Pass, found: Verdict) -> BoxFuture<'a, Result<Ran, Failure>> {
        Box::pin(std::future::ready(Ok(Ran::waits(found))))
    }
}

#[tokio::test]
async fn a_status_speaks_of_no_specification_that_it_was_not_planned_from() {
    for what in ["changed", "made anew", "nothing"] {
        let api = api();
        let step = Arc::new(Interrupted(Mutex::default()));
        let actor: actors::Actor = Arc::<Interrupted>::clone(&step);
        let steps = Arc::new(Steps::new(vec![actor]).unwrap());
        let reconciler = reconciler(&api, |_, _| steps);
        let servers = reconciler.parts.caches.servers.clone();
        *step.0.lock().unwrap() = Some(Box::new(move || {
            let mut server = (*servers.get(&key()).unwrap()).clone();
            server.metadata.resource_version = Some("1000".to_owned());
            match what {
                "changed" => server.metadata.generation = Some(2),
                "made anew" => server.metadata.uid = Some("another".to_owned()),
                _ => {}
            }
            servers.note(server);
        }));
        let _next = reconciler.reconcile(key()).await;
        let told = api.get("llama").unwrap()["status"] != json!(null);
        assert_eq!(told, what == "nothing", "{what}");
    }
}
