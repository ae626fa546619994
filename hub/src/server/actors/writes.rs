//! A step that writes a part of the plan.

use crds::condition::{State, Verdict};
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use operator::conditions::{ConditionActor, Failure, Ran};

use crate::{endpoints::Synced, server::Pass};

/// What is particular of such a step.
pub(super) trait PlanPart: Send + Sync {
    /// The type of its condition.
    const KIND: &'static str;

    /// How the step is, as the plan judges it and as far as it is written.
    fn found(&self, pass: &Pass) -> Verdict {
        pass.judged(Self::KIND)
    }

    /// Writes its part of the plan; `None`: there is nothing to write now.
    fn write<'a>(&'a self, pass: &'a Pass) -> BoxFuture<'a, Result<Option<Synced>, Failure>>;

    /// Has every later step to wait while this one is not done?
    fn gates(&self, pass: &Pass) -> bool {
        let _ = pass;
        false
    }
}

/// The step of a part.
pub(super) struct Writes<P>(pub(super) P);

impl<P: PlanPart> ConditionActor<Pass> for Writes<P> {
    fn condition_type(&self) -> &'static str {
        P::KIND
    }

    fn retrieve<'a>(
        &'a self,
        pass: &'a Pass,
        _previous: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        let Self(part) = self;
        Box::pin(std::future::ready(Ok(part.found(pass))))
    }

    fn run<'a>(
        &'a self,
        pass: &'a Pass,
        retrieved: Verdict,
    ) -> BoxFuture<'a, Result<Ran, Failure>> {
        let Self(part) = self;
        Box::pin(async move {
            let synced = part.write(pass).await?.unwrap_or_default();
            Ok(match synced.wait {
                Some(wait) => Ran::after(retrieved, wait),
                // What was written is looked at again at once: so the condition speaks of the world after the write.
                None if synced.wrote => Ran::acted(retrieved),
                None => Ran::waits(retrieved),
            })
        })
    }

    fn gates(&self, pass: &Pass) -> bool {
        let Self(part) = self;
        part.gates(pass)
    }
}

/// The verdict, but for a step that can't be done since something is still to be written.
pub(super) fn pending(verdict: Verdict, reason: &str, message: &str) -> Verdict {
    match verdict.state {
        State::True => Verdict::unknown(verdict.kind, reason, message),
        State::False | State::Unknown => verdict,
    }
}
