//! Who is asked and run when, and what each is handed.

use std::sync::Mutex;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::*;

/// What an actor was called for, in the order of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Asked, with what its condition said before.
    Asked(&'static str, Option<&'static str>),
    Ran(&'static str),
}

const KINDS: [&str; 6] = ["A", "B", "C", "D", "E", "F"];
const REASONS: [&str; 6] = ["WasA", "WasB", "WasC", "WasD", "WasE", "WasF"];

/// Says the same each time, and writes down each call.
struct Listed {
    kind: &'static str,
    found: Says,
    ran: Says,
    gates: bool,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl ConditionActor<Conditions> for Listed {
    fn condition_type(&self) -> &'static str {
        self.kind
    }

    fn retrieve<'a>(
        &'a self,
        _: &'a Conditions,
        previous: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        let said = |reason: &&str| previous.is_some_and(|previous| previous.reason == *reason);
        let previous = REASONS.into_iter().find(said);
        let call = Call::Asked(self.kind, previous);
        self.calls.lock().unwrap().push(call);
        std::future::ready(self.found.verdict()).boxed()
    }

    fn run<'a>(&'a self, _: &'a Conditions, _: Verdict) -> BoxFuture<'a, Result<Ran, Failure>> {
        self.calls.lock().unwrap().push(Call::Ran(self.kind));
        std::future::ready(self.ran.verdict().map(Ran::waits)).boxed()
    }

    fn gates(&self, _: &Conditions) -> bool {
        self.gates
    }
}

/// Passes over a resource that has these conditions, each of which gives a reason of its own: the calls of each pass, and what
/// was put in it.
fn passes(
    pace: Pace,
    steps: &[(Says, Says, bool)],
    before: &[usize],
) -> Vec<(Vec<Call>, Vec<Verdict>)> {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let actor = |(kind, (found, ran, gates)): (&&'static str, &(Says, Says, bool))| {
        let listed = Listed {
            kind,
            found: *found,
            ran: *ran,
            gates: *gates,
            calls: Arc::clone(&calls),
        };
        let actor: Arc<dyn ConditionActor<Conditions>> = Arc::new(listed);
        actor
    };
    let plugin = Steps(KINDS.iter().zip(steps).map(actor).collect());
    let condition = |index: &usize| Condition {
        type_: KINDS[*index].to_owned(),
        status: "Unknown".to_owned(),
        reason: REASONS[*index].to_owned(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    };
    let engine = Engine {
        pace,
        kill_reason: None,
    };
    let pass = |_| {
        let mut resource = Conditions {
            before: before.iter().map(condition).collect(),
            put: Vec::new(),
        };
        let pass = engine.run(&plugin, &mut resource);
        pass.now_or_never().expect("a pass ends");
        (std::mem::take(&mut *calls.lock().unwrap()), resource.put)
    };
    (0..2).map(pass).collect()
}

fn before() -> impl Strategy<Value = Vec<usize>> {
    proptest::sample::subsequence((0..6).collect::<Vec<_>>(), 0..=6).prop_shuffle()
}

proptest! {
    #[test]
    fn each_is_asked_once_before_any_is_run_and_both_in_their_order(pace in pace(), steps in steps()) {
        for (calls, _) in passes(pace, &steps, &[]) {
            let (asked, ran) = calls.split_at(steps.len());
            let everyone: Vec<_> = KINDS.iter().take(steps.len()).map(|kind| Call::Asked(kind, None)).collect();
            prop_assert_eq!(asked, everyone);
            let order: Vec<_> = ran.iter().map(|call| KINDS.iter().position(|kind| *call == Call::Ran(kind))).collect();
            prop_assert!(order.iter().all(Option::is_some) && order.is_sorted());
        }
    }

    #[test]
    fn each_is_handed_the_condition_that_it_owns_and_no_other(pace in pace(), steps in steps(), before in before()) {
        for (calls, _) in passes(pace, &steps, &before) {
            for (index, call) in calls.iter().take(steps.len()).enumerate() {
                let previous = before.contains(&index).then_some(REASONS[index]);
                prop_assert_eq!(*call, Call::Asked(KINDS[index], previous));
            }
        }
    }

    #[test]
    fn of_what_answers_the_same_two_passes_come_to_the_same(pace in pace(), steps in steps(), before in before()) {
        let passes = passes(pace, &steps, &before);
        prop_assert_eq!(&passes[0], &passes[1]);
    }
}
