//! The engine: one pass over the actors of a plugin. Decides who is run; what is found and done is the actors'.

use std::time::Duration;

use crds::condition::{State, Verdict};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Again, ConditionActor, Failure, Plugin};

/// How many steps one pass takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The first that is not done, and no other: where the order is the point, such as roll-outs. Michelangelo's.
    OneStep,
    /// Every one that is not done, in their order, up to a gate that is not: so one bad cluster holds up no other.
    AllSteps,
}

/// Runs plugins.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// How many steps a pass takes.
    pub pace: Pace,
    /// The reason of a False that somebody asked for.
    pub kill_reason: Option<&'static str>,
}

/// What a pass came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Every step was found done.
    pub satisfied: bool,
    /// Nothing more will come of it before the resource changes.
    pub terminal: bool,
    /// It ended because somebody asked for that.
    pub killed: bool,
    /// When to look again.
    pub again: Again,
    /// The reasons of what could not be judged or taken: to be tried again by the back-off.
    pub failures: Vec<String>,
}

impl Outcome {
    /// How long the rest waits, when that is for a time.
    pub fn wait(&self) -> Option<Duration> {
        match self.again {
            Again::After(wait) => Some(wait),
            Again::AtOnce | Again::OnEvent => None,
        }
    }
}

impl Engine {
    /// One pass. Every actor is asked how its step is, whatever became of another's; then those are run that `pace` says; and
    /// each condition is put.
    pub async fn run<R: Sync>(&self, plugin: &dyn Plugin<R>, resource: &mut R) -> Outcome {
        let mut retrieved = Vec::new();
        for actor in plugin.actors() {
            let kind = actor.condition_type();
            let mut conditions = plugin.conditions(resource).iter();
            let previous = conditions.find(|condition| condition.type_ == kind);
            retrieved.push(retrieve(actor.as_ref(), resource, previous).await);
        }
        let mut pass = PassState {
            engine: self,
            stopped: false,
            outcome: Outcome {
                satisfied: retrieved.iter().all(is_true),
                ..Outcome::default()
            },
        };
        for (actor, retrieved) in plugin.actors().iter().zip(retrieved) {
            let verdict = pass.step(actor.as_ref(), resource, retrieved).await;
            plugin.put_condition(resource, verdict);
        }
        pass.outcome.terminal |= pass.outcome.satisfied;
        pass.outcome
    }
}

async fn retrieve<R>(
    actor: &dyn ConditionActor<R>,
    resource: &R,
    previous: Option<&Condition>,
) -> Result<Verdict, Failure> {
    let verdict = actor.retrieve(resource, previous).await?;
    Ok(Verdict {
        kind: actor.condition_type(),
        ..verdict
    })
}

fn is_true(retrieved: &Result<Verdict, Failure>) -> bool {
    retrieved
        .as_ref()
        .is_ok_and(|verdict| verdict.state == State::True)
}

/// What a pass has come to so far.
struct PassState<'a> {
    engine: &'a Engine,
    /// No later step is run.
    stopped: bool,
    outcome: Outcome,
}

impl PassState<'_> {
    /// Takes one step, if it is to be taken; what its condition is to say.
    async fn step<R>(
        &mut self,
        actor: &dyn ConditionActor<R>,
        resource: &R,
        retrieved: Result<Verdict, Failure>,
    ) -> Verdict {
        let retrieved = match retrieved {
            Ok(verdict) if verdict.state == State::True || self.stopped => return verdict,
            retrieved => retrieved,
        };
        let stopped = self.stopped;
        let verdict = self.taken(actor, resource, retrieved).await;
        let orders = match self.engine.pace {
            Pace::OneStep => true,
            Pace::AllSteps => actor.gates(resource) && verdict.state != State::True,
        };
        if orders && !stopped {
            self.stopped = true;
            self.outcome.terminal = verdict.state == State::False;
            self.outcome.killed =
                self.outcome.terminal && self.engine.kill_reason == Some(verdict.reason.as_str());
        }
        verdict
    }

    async fn taken<R>(
        &mut self,
        actor: &dyn ConditionActor<R>,
        resource: &R,
        retrieved: Result<Verdict, Failure>,
    ) -> Verdict {
        let kind = actor.condition_type();
        let ran = match retrieved {
            Ok(verdict) => actor.run(resource, verdict).await,
            Err(failure) => Err(failure),
        };
        match ran {
            Ok(ran) => {
                let done = ran.verdict.state == State::True;
                let again = if done { Again::AtOnce } else { ran.again };
                self.outcome.again = self.outcome.again.min(again);
                Verdict {
                    kind,
                    ..ran.verdict
                }
            }
            Err(failure) => {
                self.outcome.again = self.outcome.again.min(failure.again);
                self.outcome.failures.push(failure.reason.clone());
                failure.verdict(kind)
            }
        }
    }
}
