mod order;

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use proptest::prelude::*;

use super::*;

/// What an actor says when it is asked, or run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Yes,
    No,
    Killed,
    Pending,
    MayPass,
    /// Some of it was taken, and some may pass.
    Partly,
    Never,
}

const KILL: &str = "Killed";

impl Says {
    fn verdict(self) -> Result<Verdict, Failure> {
        let failure = |passing| Failure {
            reason: "Broken".to_owned(),
            message: "what, where, and what to do".to_owned(),
            passing,
            again: Again::OnEvent,
        };
        match self {
            Self::Yes => Ok(Verdict::yes("", "Done", "")),
            Self::No => Ok(Verdict::no("", "Failed", "")),
            Self::Killed => Ok(Verdict::no("", KILL, "")),
            Self::Pending => Ok(Verdict::unknown("", "Pending", "")),
            Self::MayPass => Err(failure(true)),
            Self::Partly => Err(Failure {
                again: Again::AtOnce,
                ..failure(true)
            }),
            Self::Never => Err(failure(false)),
        }
    }

    fn state(self) -> State {
        match self {
            Self::Yes => State::True,
            Self::No | Self::Killed | Self::Never => State::False,
            Self::Pending | Self::MayPass | Self::Partly => State::Unknown,
        }
    }

    fn fails(self) -> bool {
        matches!(self, Self::MayPass | Self::Partly | Self::Never)
    }
}

#[derive(Debug)]
struct Step {
    kind: &'static str,
    found: Says,
    ran: Says,
    gates: bool,
    asked: AtomicUsize,
    runs: AtomicUsize,
}

impl Step {
    fn new(index: usize, (found, ran, gates): (Says, Says, bool)) -> Arc<Self> {
        Arc::new(Self {
            kind: ["A", "B", "C", "D", "E", "F"][index],
            found,
            ran,
            gates,
            asked: AtomicUsize::new(0),
            runs: AtomicUsize::new(0),
        })
    }
}

impl ConditionActor<Conditions> for Step {
    fn condition_type(&self) -> &'static str {
        self.kind
    }

    fn retrieve<'a>(
        &'a self,
        _: &'a Conditions,
        _: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        std::future::ready(self.found.verdict()).boxed()
    }

    fn run<'a>(&'a self, _: &'a Conditions, _: Verdict) -> BoxFuture<'a, Result<Ran, Failure>> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        std::future::ready(self.ran.verdict().map(Ran::waits)).boxed()
    }

    fn gates(&self, _: &Conditions) -> bool {
        self.gates
    }
}

/// A resource that has nothing but conditions.
#[derive(Debug, Default)]
struct Conditions {
    before: Vec<Condition>,
    put: Vec<Verdict>,
}

struct Steps(Vec<Arc<dyn ConditionActor<Conditions>>>);

impl Plugin<Conditions> for Steps {
    fn actors(&self) -> &[Arc<dyn ConditionActor<Conditions>>] {
        &self.0
    }

    fn conditions<'a>(&self, resource: &'a Conditions) -> &'a [Condition] {
        &resource.before
    }

    fn put_condition(&self, resource: &mut Conditions, verdict: Verdict) {
        resource.put.push(verdict);
    }
}

struct Passed {
    steps: Vec<Arc<Step>>,
    put: Vec<Verdict>,
    outcome: Outcome,
}

impl Passed {
    fn runs(&self) -> Vec<usize> {
        let runs = |step: &Arc<Step>| step.runs.load(Ordering::Relaxed);
        self.steps.iter().map(runs).collect()
    }
}

fn pass(pace: Pace, steps: &[(Says, Says, bool)]) -> Passed {
    let steps: Vec<_> = (0..).zip(steps).map(|(i, of)| Step::new(i, *of)).collect();
    let actor =
        |step: &Arc<Step>| -> Arc<dyn ConditionActor<Conditions>> { Arc::<Step>::clone(step) };
    let actors = steps.iter().map(actor).collect();
    let mut resource = Conditions::default();
    let engine = Engine {
        pace,
        kill_reason: Some(KILL),
    };
    let plugin = Steps(actors);
    let pass = engine.run(&plugin, &mut resource);
    // Nothing of it waits: a pass that did not end at once never would.
    let outcome = pass.now_or_never().expect("a pass ends");
    Passed {
        steps,
        put: resource.put,
        outcome,
    }
}

fn says() -> impl Strategy<Value = Says> {
    use Says::{Killed, MayPass, Never, No, Pending, Yes};
    prop::sample::select(vec![Yes, Yes, No, Killed, Pending, MayPass, Never])
}

fn steps() -> impl Strategy<Value = Vec<(Says, Says, bool)>> {
    prop::collection::vec((says(), says(), any::<bool>()), 0..=6)
}

fn pace() -> impl Strategy<Value = Pace> {
    prop::sample::select(vec![Pace::OneStep, Pace::AllSteps])
}

proptest! {
    #[test]
    fn everything_is_asked_once_and_put_once_whatever_becomes_of_another(pace in pace(), steps in steps()) {
        let passed = pass(pace, &steps);
        for (step, verdict) in passed.steps.iter().zip(&passed.put) {
            prop_assert_eq!(step.asked.load(Ordering::Relaxed), 1);
            prop_assert_eq!(step.kind, verdict.kind);
        }
        prop_assert_eq!(passed.put.len(), steps.len());
    }

    #[test]
    fn what_is_not_run_says_what_was_found_and_what_is_says_what_came_of_it(pace in pace(), steps in steps()) {
        let passed = pass(pace, &steps);
        for ((step, runs), verdict) in passed.steps.iter().zip(passed.runs()).zip(&passed.put) {
            let says = if runs == 1 { step.ran } else { step.found };
            prop_assert_eq!(verdict.state, says.state());
        }
    }

    #[test]
    fn nothing_is_run_that_is_done_or_can_not_be_judged_and_nothing_twice(pace in pace(), steps in steps()) {
        let passed = pass(pace, &steps);
        for (step, runs) in passed.steps.iter().zip(passed.runs()) {
            prop_assert!(runs <= 1);
            prop_assert!(runs == 0 || !(step.found == Says::Yes || step.found.fails()));
        }
    }

    #[test]
    fn one_step_runs_at_most_the_first_that_is_not_done(steps in steps()) {
        let passed = pass(Pace::OneStep, &steps);
        let first = steps.iter().position(|(found, ..)| *found != Says::Yes);
        let expected: Vec<_> = (0..).zip(&steps)
            .map(|(index, (found, ..))| usize::from(Some(index) == first && !found.fails()))
            .collect();
        prop_assert_eq!(passed.runs(), expected);
    }

    #[test]
    fn all_steps_runs_what_is_not_done_up_to_a_gate_that_is_not(steps in steps()) {
        let passed = pass(Pace::AllSteps, &steps);
        let mut open = true;
        for ((found, ran, gates), runs) in steps.iter().zip(passed.runs()) {
            let takes = open && *found != Says::Yes && !found.fails();
            prop_assert_eq!(runs, usize::from(takes));
            let says = if takes { *ran } else { *found };
            open &= !(*gates && says.state() != State::True);
        }
    }

    #[test]
    fn satisfied_is_all_found_done_and_ends_it(pace in pace(), steps in steps()) {
        let Passed { outcome, .. } = pass(pace, &steps);
        prop_assert_eq!(outcome.satisfied, steps.iter().all(|(found, ..)| *found == Says::Yes));
        prop_assert!(!outcome.satisfied || (outcome.terminal && outcome.again == Again::OnEvent));
    }

    #[test]
    fn a_run_that_gave_true_is_gone_on_from_at_once_and_nothing_else_is(pace in pace(), steps in steps()) {
        let passed = pass(pace, &steps);
        let done = passed.steps.iter().zip(passed.runs()).any(|(step, runs)| runs == 1 && step.ran == Says::Yes);
        prop_assert_eq!(passed.outcome.again == Again::AtOnce, done);
    }

    #[test]
    fn every_error_is_told_and_none_that_may_pass_ends_it(pace in pace(), steps in steps()) {
        let passed = pass(pace, &steps);
        let errors = passed.steps.iter().zip(passed.runs())
            .filter(|(step, runs)| if *runs == 1 { step.ran.fails() } else { step.found.fails() });
        prop_assert_eq!(passed.outcome.failures.len(), errors.count());
        let only_passing = steps.iter().all(|(found, ran, _)| [found, ran].into_iter().all(|says| says.state() != State::False));
        prop_assert!(!only_passing || !passed.outcome.terminal || passed.outcome.satisfied);
    }

    #[test]
    fn a_false_ends_it_where_order_is_the_point_or_a_gate_says_so(pace in pace(), steps in steps()) {
        let passed = pass(pace, &steps);
        let stops = |step: &Arc<Step>, verdict: &Verdict| match pace {
            Pace::OneStep => verdict.state != State::True || step.runs.load(Ordering::Relaxed) == 1,
            Pace::AllSteps => step.gates && verdict.state != State::True,
        };
        let stopper = passed.steps.iter().zip(&passed.put).find(|(step, verdict)| stops(step, verdict));
        let failed = stopper.is_some_and(|(_, verdict)| verdict.state == State::False);
        prop_assert_eq!(passed.outcome.terminal, failed || passed.outcome.satisfied);
        let killed = stopper.is_some_and(|(_, verdict)| verdict.state == State::False && verdict.reason == KILL);
        prop_assert_eq!(passed.outcome.killed, killed);
    }
}

#[test]
fn a_step_that_fails_in_one_place_holds_up_no_other() {
    use Says::{MayPass, No, Pending, Yes};
    let passed = pass(
        Pace::AllSteps,
        &[
            (No, No, false),
            (MayPass, Yes, false),
            (Pending, Pending, false),
        ],
    );
    assert_eq!(passed.runs(), [1, 0, 1]);
    assert!(!passed.outcome.terminal && !passed.outcome.satisfied);
    assert_eq!(passed.outcome.failures, ["Broken"]);
}

#[test]
fn an_error_says_what_it_is_in_the_condition() {
    let passed = pass(Pace::AllSteps, &[(Says::Pending, Says::Never, false)]);
    assert_eq!(
        passed.put,
        [Verdict::no("A", "Broken", "what, where, and what to do")]
    );
}

#[test]
fn what_was_taken_beside_a_failure_is_looked_at_at_once_and_the_failure_is_told() {
    let passed = pass(
        Pace::AllSteps,
        &[
            (Says::Pending, Says::Partly, false),
            (Says::Yes, Says::Yes, false),
        ],
    );
    assert_eq!(passed.outcome.again, Again::AtOnce);
    assert_eq!(passed.outcome.failures, ["Broken"]);
}

#[test]
fn what_was_written_is_looked_at_before_what_waits() {
    let wait = Duration::from_secs(1);
    for (wrote, wait, expected) in [
        (true, Some(wait), Again::AtOnce),
        (true, None, Again::AtOnce),
        (false, Some(wait), Again::After(wait)),
        (false, None, Again::OnEvent),
    ] {
        assert_eq!(Again::beside(wrote, wait), expected);
    }
}

#[test]
fn a_pass_waits_for_a_time_only_when_it_says_so() {
    let wait = Duration::from_secs(1);
    for (again, expected) in [
        (Again::After(wait), Some(wait)),
        (Again::AtOnce, None),
        (Again::OnEvent, None),
    ] {
        let outcome = Outcome {
            again,
            ..Outcome::default()
        };
        assert_eq!(outcome.wait(), expected);
    }
}

#[test]
fn the_shortest_wait_counts() {
    let (soon, late) = (Duration::from_secs(1), Duration::from_secs(2));
    let order = [
        Again::AtOnce,
        Again::After(soon),
        Again::After(late),
        Again::OnEvent,
    ];
    assert!(order.is_sorted());
}

#[test]
fn actors_of_one_type_or_of_none_are_no_plugin() {
    let step = |kind| -> Arc<dyn ConditionActor<Conditions>> {
        Arc::new(Step {
            kind,
            found: Says::Yes,
            ran: Says::Yes,
            gates: false,
            asked: AtomicUsize::new(0),
            runs: AtomicUsize::new(0),
        })
    };
    assert_eq!(check(&[step("Ready"), step("Steady")]), Ok(()));
    assert_eq!(
        check(&[step("Ready"), step("Ready")]),
        Err(Unfit::Twice("Ready"))
    );
    for kind in ["", "ready", "Not Ready", "Not-Ready"] {
        assert_eq!(
            check(&[step(kind)]),
            Err(Unfit::NotCamelCase(kind)),
            "{kind}"
        );
    }
}
