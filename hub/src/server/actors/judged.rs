//! A step that members take, or that nobody can: it is judged, and there is nothing to run.

use crds::condition::Verdict;
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use operator::conditions::{ConditionActor, Failure, Ran};

use crate::server::Pass;

/// As the plan judges it.
pub(super) struct Judged {
    kind: &'static str,
    gates: bool,
}

impl Judged {
    pub(super) fn step(kind: &'static str) -> Self {
        Self { kind, gates: false }
    }

    /// Nothing is begun before it is done. What has begun goes on: a specification that can't be carried out any more is no
    /// reason to let go of what serves.
    pub(super) fn gate(kind: &'static str) -> Self {
        Self { kind, gates: true }
    }
}

impl ConditionActor<Pass> for Judged {
    fn condition_type(&self) -> &'static str {
        self.kind
    }

    fn retrieve<'a>(
        &'a self,
        pass: &'a Pass,
        _previous: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        Box::pin(async move { Ok(pass.judged(self.kind)) })
    }

    fn run<'a>(
        &'a self,
        _pass: &'a Pass,
        retrieved: Verdict,
    ) -> BoxFuture<'a, Result<Ran, Failure>> {
        Box::pin(async move { Ok(Ran::waits(retrieved)) })
    }

    fn gates(&self, pass: &Pass) -> bool {
        self.gates && !pass.plan.begun
    }
}
