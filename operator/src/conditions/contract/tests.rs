//! Each rule is broken by somebody.

use std::{sync::Mutex, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::*;

/// One thing that is done wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    IsOfNoType,
    ChangesItsType,
    WritesWhenAsked,
    ChangesItsMind,
    NeverFindsItDone,
    WritesEachTime,
    NeverEnds,
    GivesNoReason,
    FailsWithoutReason,
    FailsWithoutSentence,
}

/// Counts up to three, one a run.
struct Counter {
    wrong: Wrong,
    /// What it says of when to go on.
    again: Again,
    count: Mutex<u32>,
    asked: Mutex<u32>,
}

impl Counter {
    fn new(wrong: Wrong, again: Again) -> Self {
        Self {
            wrong,
            again,
            count: Mutex::default(),
            asked: Mutex::default(),
        }
    }

    fn count(&self) -> u32 {
        *self.count.lock().unwrap()
    }

    /// The rule that it breaks.
    async fn breaks(&self) -> Option<&'static str> {
        let kept = condition_actor(self, || self.count(), || self.count()).await;
        kept.err().map(|breach| breach.rule)
    }

    fn is(&self, wrong: Wrong) -> bool {
        self.wrong == wrong
    }

    fn failure(&self) -> Failure {
        let text = |wrong, text: &str| if self.is(wrong) { "" } else { text }.to_owned();
        Failure {
            reason: text(Wrong::FailsWithoutReason, "Broken"),
            message: text(Wrong::FailsWithoutSentence, "what, where, and what to do"),
            passing: true,
            again: Again::OnEvent,
        }
    }

    fn fails(&self) -> bool {
        self.is(Wrong::FailsWithoutReason) || self.is(Wrong::FailsWithoutSentence)
    }

    fn found(&self, count: u32, asked: u32) -> Verdict {
        let changes = self.is(Wrong::ChangesItsMind) && asked.is_multiple_of(2);
        if count >= 3 && !self.is(Wrong::NeverFindsItDone) {
            Verdict::yes("Counted", "Done", "")
        } else if changes {
            Verdict::unknown("Counted", "Resting", "it was counting a moment ago")
        } else if self.is(Wrong::GivesNoReason) {
            Verdict::unknown("Counted", "no reason", "it counts")
        } else {
            Verdict::unknown("Counted", "Counting", "it counts")
        }
    }
}

impl ConditionActor<u32> for Counter {
    fn condition_type(&self) -> &'static str {
        let asked = *self.asked.lock().unwrap();
        if self.is(Wrong::IsOfNoType) {
            "no type"
        } else if self.is(Wrong::ChangesItsType) && asked > 0 {
            "Recounted"
        } else {
            "Counted"
        }
    }

    fn retrieve<'a>(
        &'a self,
        count: &'a u32,
        _: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        let mut asked = self.asked.lock().unwrap();
        *asked += 1;
        if self.is(Wrong::WritesWhenAsked) {
            *self.count.lock().unwrap() += 1;
        }
        Box::pin(std::future::ready(Ok(self.found(*count, *asked))))
    }

    fn run<'a>(&'a self, count: &'a u32, found: Verdict) -> BoxFuture<'a, Result<Ran, Failure>> {
        let mut there = self.count.lock().unwrap();
        if self.is(Wrong::WritesEachTime) {
            *there += 1;
        } else if !self.is(Wrong::NeverEnds) {
            *there = count + 1;
        }
        let ran = if self.fails() {
            Err(self.failure())
        } else {
            let verdict = if *there >= 3 {
                Verdict::yes("Counted", "Done", "")
            } else {
                found
            };
            Ok(Ran {
                verdict,
                again: self.again,
            })
        };
        Box::pin(std::future::ready(ran))
    }
}

#[tokio::test]
async fn an_actor_that_does_one_thing_wrong_breaks_the_rule_that_says_so() {
    for (wrong, rule) in [
        (Wrong::Nothing, None),
        (Wrong::IsOfNoType, Some("the condition type is CamelCase")),
        (Wrong::ChangesItsType, Some("the condition type stays")),
        (Wrong::WritesWhenAsked, Some("retrieve has no side effect")),
        (
            Wrong::ChangesItsMind,
            Some("retrieve says the same of the same"),
        ),
        (
            Wrong::NeverFindsItDone,
            Some("what was run to True is found True"),
        ),
        (Wrong::WritesEachTime, Some("run is idempotent")),
        (Wrong::NeverEnds, Some("running comes to an end")),
        (Wrong::GivesNoReason, Some("a reason is CamelCase")),
        (Wrong::FailsWithoutReason, Some("a reason is CamelCase")),
        (
            Wrong::FailsWithoutSentence,
            Some("what is not done says why in a sentence"),
        ),
    ] {
        let counter = Counter::new(wrong, Again::AtOnce);
        assert_eq!(counter.breaks().await, rule, "{wrong:?}");
    }
}

#[tokio::test]
async fn who_waits_for_an_event_is_asked_no_further_but_for_whether_it_is_done() {
    let counter = Counter::new(Wrong::Nothing, Again::OnEvent);
    assert_eq!((counter.breaks().await, counter.count()), (None, 1));
    let forgets = Counter::new(Wrong::NeverFindsItDone, Again::OnEvent);
    *forgets.count.lock().unwrap() = 2;
    let rule = Some("what was run to True is found True");
    assert_eq!(forgets.breaks().await, rule);
}

#[expect(
    clippy::disallowed_methods,
    reason = "how much of the paused time has passed"
)]
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_time_is_given_it_until_it_is_done() {
    let wait = Duration::from_secs(7);
    let counter = Counter::new(Wrong::Nothing, Again::After(wait));
    let begin = tokio::time::Instant::now();
    assert_eq!((counter.breaks().await, counter.count()), (None, 3));
    assert_eq!(begin.elapsed(), 2 * wait);
}

#[test]
fn who_says_nothing_of_it_holds_nobody_up() {
    assert!(!Counter::new(Wrong::Nothing, Again::OnEvent).gates(&0));
}
