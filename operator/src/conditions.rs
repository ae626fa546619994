//! Conditions as steps: an ordered list of actors, each of which owns one condition of a resource, and the engine that runs
//! them.
//!
//! The words and the contract are those of Michelangelo's condition plugins (`go/base/conditions`), but for what is said
//! of errors: there, one ends the work for ever; here, one that may pass is tried again. What a resource is, the engine does
//! not know: a snapshot as a rule, so that whatever an actor reads is of one moment.

pub mod contract;
mod engine;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use crds::condition::{State, Verdict};
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub use self::engine::{Engine, Outcome, Pace};

/// One step towards what is wanted of a resource.
pub trait ConditionActor<R>: Send + Sync {
    /// The type of its condition: `CamelCase`, and no other actor's of the same plugin.
    fn condition_type(&self) -> &'static str;

    /// How the step is, without a side effect. `previous` is its condition in the resource's status.
    ///
    /// # Errors
    /// When that can't be said. Then the step is not run in this pass.
    fn retrieve<'a>(
        &'a self,
        resource: &'a R,
        previous: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>>;

    /// Takes the step, which `retrieved` says is not done. Idempotent: it is asked again until [`retrieve`] says True.
    ///
    /// False is a failure that something has to change for; what is on its way is Unknown.
    ///
    /// # Errors
    /// When it did not come about.
    ///
    /// [`retrieve`]: ConditionActor::retrieve
    fn run<'a>(
        &'a self,
        resource: &'a R,
        retrieved: Verdict,
    ) -> BoxFuture<'a, Result<Ran, Failure>>;

    /// Has every later step to wait while this one is not done? Read where all steps are run.
    fn gates(&self, resource: &R) -> bool {
        let _ = resource;
        false
    }
}

/// An ordered list of steps, and where a resource keeps their conditions.
pub trait Plugin<R>: Send + Sync {
    /// The steps, in their order.
    fn actors(&self) -> &[Arc<dyn ConditionActor<R>>];

    /// The conditions that the resource has.
    fn conditions<'a>(&self, resource: &'a R) -> &'a [Condition];

    /// Keeps what a step came to in this pass. Called once for each actor, in their order.
    fn put_condition(&self, resource: &mut R, verdict: Verdict);
}

/// What running a step came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// How the step is now.
    pub verdict: Verdict,
    /// When to look again, where no event would say so.
    pub again: Again,
}

/// When a pass is to be followed by another that no event asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Again {
    /// Now: the world is another than the one that this pass saw.
    AtOnce,
    /// When that much time has passed.
    After(Duration),
    /// When something happens.
    #[default]
    OnEvent,
}

impl Again {
    /// After a step of which something was written, or waits for its turn, whatever became of the rest.
    pub fn beside(wrote: bool, wait: Option<Duration>) -> Self {
        match wait {
            _ if wrote => Self::AtOnce,
            Some(wait) => Self::After(wait),
            None => Self::OnEvent,
        }
    }
}

impl Ran {
    /// Something happens when there is more to say.
    pub fn waits(verdict: Verdict) -> Self {
        Self {
            verdict,
            again: Again::OnEvent,
        }
    }

    /// Something was written: the next pass looks at what came of it.
    pub fn acted(verdict: Verdict) -> Self {
        Self {
            verdict,
            again: Again::AtOnce,
        }
    }

    /// The rest has to wait for that long.
    pub fn after(verdict: Verdict, wait: Duration) -> Self {
        Self {
            verdict,
            again: Again::After(wait),
        }
    }
}

/// Why a step could not be judged or taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// CamelCase.
    pub reason: String,
    /// A sentence for a person: what, where, and what to do.
    pub message: String,
    /// It may pass by itself.
    pub passing: bool,
    /// When to look again for the rest of the step, where some of it was taken or waits.
    pub again: Again,
}

impl Failure {
    /// What the condition says: Unknown while it may pass, else False.
    fn verdict(&self, kind: &'static str) -> Verdict {
        let state = if self.passing {
            State::Unknown
        } else {
            State::False
        };
        Verdict::new(kind, state, &self.reason, self.message.clone())
    }
}

/// Two actors of a plugin have one type, or a type that is no condition's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Each would undo what the other says.
    #[error("two actors have the condition type {0}: give each its own")]
    Twice(&'static str),
    /// The API server would not take it (`metav1.Condition`).
    #[error("{0:?} is no condition type: write CamelCase, letters and digits, at most 316 of them")]
    NotCamelCase(&'static str),
}

/// Can these actors be one plugin's?
///
/// # Errors
/// When two of them have one condition type, or one has none that can be.
pub fn check<R>(actors: &[Arc<dyn ConditionActor<R>>]) -> Result<(), Unfit> {
    let mut kinds = std::collections::BTreeSet::new();
    for actor in actors {
        let kind = actor.condition_type();
        if !is_condition_type(kind) {
            return Err(Unfit::NotCamelCase(kind));
        }
        if !kinds.insert(kind) {
            return Err(Unfit::Twice(kind));
        }
    }
    Ok(())
}

/// Can it be the type of a condition (`metav1.Condition`)?
fn is_condition_type(text: &str) -> bool {
    is_camel_case(text) && text.len() <= 316
}

fn is_camel_case(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
}
