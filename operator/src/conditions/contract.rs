//! What an actor has to keep, as a test that can be run on it. It returns the first rule that is broken, and what was seen.
//!
//! It runs the actor: use it on nothing that anybody uses.

#[cfg(test)]
mod tests;

use std::fmt::Debug;

use crds::condition::{State, Verdict};

use super::{Again, ConditionActor, Failure, Ran, is_camel_case, is_condition_type};

/// A rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {seen}")]
pub struct Breach {
    /// The rule.
    pub rule: &'static str,
    /// What was seen instead.
    pub seen: String,
}

/// More runs than this in a row come to no end.
const TURNS_MAX: usize = 10;

/// The rule that both are the same.
///
/// # Errors
/// When they are not.
pub fn same<T: PartialEq + Debug>(
    rule: &'static str,
    seen: &T,
    expected: &T,
) -> Result<(), Breach> {
    if seen == expected {
        return Ok(());
    }
    Err(Breach {
        rule,
        seen: format!("{seen:?} where {expected:?} was expected"),
    })
}

/// The rule that this holds.
///
/// # Errors
/// When it does not.
pub fn holds(rule: &'static str, holds: bool, seen: impl Debug) -> Result<(), Breach> {
    same(rule, &holds, &true).map_err(|_breach| Breach {
        rule,
        seen: format!("{seen:?}"),
    })
}

/// Asks an actor, and runs it until it is done, fails, or waits for an event. `look` makes the resource anew from what is there,
/// and `world` is what is there.
///
/// # Errors
/// The first rule that the actor breaks.
pub async fn condition_actor<R, W: PartialEq + Debug>(
    actor: &dyn ConditionActor<R>,
    look: impl Fn() -> R,
    world: impl Fn() -> W,
) -> Result<(), Breach> {
    let kind = actor.condition_type();
    holds(
        "the condition type is CamelCase",
        is_condition_type(kind),
        kind,
    )?;
    let mut done = false;
    for _ in 0..TURNS_MAX {
        let resource = look();
        let found = asked(actor, &resource, &world).await?;
        same("the condition type stays", &actor.condition_type(), &kind)?;
        let is_done = matches!(&found, Ok(found) if found.state == State::True);
        holds(
            "what was run to True is found True",
            is_done || !done,
            &found,
        )?;
        // What is done, or can't be judged, is not run.
        let Some(found) = found.ok().filter(|_| !is_done) else {
            return Ok(());
        };
        let ran = ran(actor, &resource, found, &world).await?;
        let Ok(Ran { verdict, again }) = ran else {
            return Ok(());
        };
        done = verdict.state == State::True;
        match again {
            Again::OnEvent if !done => return Ok(()),
            Again::After(wait) if !done => tokio::time::sleep(wait).await,
            Again::AtOnce | Again::After(_) | Again::OnEvent => {}
        }
    }
    holds("running comes to an end", false, kind)
}

/// Asks twice, which changes nothing.
async fn asked<R, W: PartialEq + Debug>(
    actor: &dyn ConditionActor<R>,
    resource: &R,
    world: &impl Fn() -> W,
) -> Result<Result<Verdict, Failure>, Breach> {
    let before = world();
    let found = actor.retrieve(resource, None).await;
    let again = actor.retrieve(resource, None).await;
    same("retrieve has no side effect", &world(), &before)?;
    same("retrieve says the same of the same", &again, &found)?;
    told(&found)?;
    Ok(found)
}

/// Runs twice, of which the second changes nothing.
async fn ran<R, W: PartialEq + Debug>(
    actor: &dyn ConditionActor<R>,
    resource: &R,
    found: Verdict,
    world: &impl Fn() -> W,
) -> Result<Result<Ran, Failure>, Breach> {
    let ran = actor.run(resource, found.clone()).await;
    told(&ran.clone().map(|ran| ran.verdict))?;
    let after = world();
    // What it says the second time is of another world.
    drop(actor.run(resource, found).await);
    same("run is idempotent", &world(), &after)?;
    Ok(ran)
}

/// What is said is a reason for programs, and a sentence for whom it concerns.
fn told(said: &Result<Verdict, Failure>) -> Result<(), Breach> {
    let (reason, message, is_done) = match said {
        Ok(verdict) => (
            verdict.reason.as_str(),
            verdict.message.as_str(),
            verdict.state == State::True,
        ),
        Err(failure) => (failure.reason.as_str(), failure.message.as_str(), false),
    };
    holds("a reason is CamelCase", is_camel_case(reason), said)?;
    let says = is_done || !message.is_empty();
    holds("what is not done says why in a sentence", says, said)
}
