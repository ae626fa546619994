//! What an implementation of a driver is held to, as tests that it can run: one function for each trait of
//! [`drivers`](crate::drivers). Each asks it about a placement in clusters of many states, and tells the first rule that
//! is broken. Pure: a test of milliseconds.
//!
//! The placement is one that the implementation serves; [`placement`] is an ordinary one. The implementations that are here
//! keep every rule.

mod backend;
mod endpoint_source;
mod facts;
mod rendered;
mod routing;

use std::{collections::BTreeMap, fmt};

use crds::{
    condition::Verdict,
    labels,
    v1alpha1::{
        Model, ModelPhase, PlacementRuntime, Probe, Probes, RuntimeImage, RuntimePort,
        RuntimeProfileSpec, ServerPlacement, ServerPlacementSpec, Spreading, VENDOR_NONE,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Refusal;

pub use self::{backend::backend, endpoint_source::endpoint_source, routing::routing};

/// The hub takes no longer reason.
const REASON_MAX: usize = 128;
/// So often is the same asked: what comes out of a hash map in any order seldom comes out alike so often.
const TIMES: usize = 8;

/// A rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which one.
    pub rule: Rule,
    /// What was seen, in words.
    pub seen: String,
}

/// What an implementation of a driver is held to. Shown, each is the sentence that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Of each driver: no state, no randomness.
    SameAnswer,
    /// Of each driver: an ordinary placement in a cluster where all is well gets what it asks for.
    Served,
    /// Of each driver: what becomes of the objects changes neither them nor the endpoint. Else a plan would never come to rest.
    StatusFree,
    /// Of each driver: a reason for programs, a sentence for people.
    Explained,
    /// Of backend and routing: deleting the placement deletes the object, and tells whose it is.
    Owner,
    /// Of backend and routing: the watches see nothing else.
    Labels,
    /// Of backend and routing: an object of another namespace is never the placement's.
    Namespace,
    /// Of backend and routing: what the placement owns is looked for by its name.
    Name,
    /// Of backend and routing: two objects of one name would be written in turns for ever.
    DistinctIds,
    /// Of a backend: what others render, it does not.
    OwnObjects,
    /// Of a backend: where traffic routes send to.
    Reachable,
    /// Of a backend: a selector is immutable in the API server.
    FrozenSelector,
    /// Of a backend: a Pod is seen by its label.
    PodLabels,
    /// Of a backend: a template that changes restarts every replica.
    ScaleRestartsNothing,
    /// Of backend and routing: the step that a verdict is of.
    VerdictKind,
    /// Of a backend: replicas are counted as the placement asks for them.
    Replicas,
    /// Of backend and routing: nothing that is not there, not ready or not accepted is reported as well.
    NotWell,
    /// Of an endpoint source: the hub can publish what it is given.
    Publishable,
    /// Of an endpoint source: what was published stays until something is known.
    NotKnownYet,
}

impl Rule {
    const fn sentence(self) -> &'static str {
        match self {
            Self::SameAnswer => "the same facts give the same answer",
            Self::Served => "where all is well, a placement gets what it asks for",
            Self::StatusFree => {
                "what becomes of a placement's objects changes neither them nor its endpoint"
            }
            Self::Explained => "a reason is in CamelCase, and beside it is a sentence",
            Self::Owner => "the placement is the controller of each object, and gone only after it",
            Self::Labels => "each object has the labels of the agent's objects",
            Self::Namespace => "each object is in the placement's namespace",
            Self::Name => "an object's name is the placement's, or begins with it and a hyphen",
            Self::DistinctIds => "no two objects have one kind and name",
            Self::OwnObjects => "a backend renders neither HTTPRoutes nor the model list",
            Self::Reachable => "a Service of the placement's name has port 80",
            Self::FrozenSelector => "a Deployment's selector outlives every change of a placement",
            Self::PodLabels => {
                "a Pod has the labels that its Deployment selects, and that of its server"
            }
            Self::ScaleRestartsNothing => "to scale changes no Pod template",
            Self::VerdictKind => "a verdict is of the step that was asked for",
            Self::Replicas => "replicas are wanted as the placement says, and ready where they run",
            Self::NotWell => "what is not there, not ready or not accepted is not well",
            Self::Publishable => "an endpoint has a port, and an address or a DNS name",
            Self::NotKnownYet => {
                "while facts are not known yet, the endpoint is as ever or the reason is Applying"
            }
        }
    }

    fn broken(self, seen: impl Into<String>) -> Breach {
        Breach {
            rule: self,
            seen: seen.into(),
        }
    }

    /// Nothing, if it is kept.
    fn holds(self, kept: bool, seen: impl FnOnce() -> String) -> Result<(), Breach> {
        if kept {
            Ok(())
        } else {
            Err(self.broken(seen()))
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, but {}", self.rule, self.seen)
    }
}

impl std::error::Error for Breach {}

/// An ordinary placement, as its cluster's API server holds it: two replicas of an image that needs no accelerator, with a
/// model, and the endpoint from the Gateway.
pub fn placement() -> ServerPlacement {
    let content = RuntimeProfileSpec {
        images: vec![RuntimeImage {
            vendor: VENDOR_NONE.to_owned(),
            image: "registry.example.com/runtime:1".to_owned(),
        }],
        command: Vec::new(),
        args: vec!["--port=$(port.http)".to_owned()],
        env: Vec::new(),
        ports: vec![RuntimePort {
            name: "http".to_owned(),
            port: 8000,
        }],
        probes: Probes {
            startup: None,
            readiness: Probe {
                path: "/ready".to_owned(),
                failure_seconds: None,
            },
            liveness: None,
        },
        metrics: None,
        shared_memory: None,
        security_context: None,
        drain_seconds: 30,
    };
    ServerPlacement {
        metadata: ObjectMeta {
            name: Some("llama".to_owned()),
            namespace: Some("team-a".to_owned()),
            uid: Some("8d3f0c1e-5a0b-4f5e-9a53-1f6f0a1c2b3d".to_owned()),
            annotations: Some(BTreeMap::from([(
                labels::SERVER_UID.to_owned(),
                "2b6c7a10-44d1-4b52-8f0e-7e0d9c3b5a61".to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        spec: ServerPlacementSpec {
            runtime: PlacementRuntime {
                profile: "ordinary".to_owned(),
                revision: None,
                content,
                image: None,
                args: Vec::new(),
                env: Vec::new(),
            },
            model: Some(Model {
                uri: "hf://org/llama".to_owned(),
                name: None,
                deployment: None,
                phase: ModelPhase::Serving,
            }),
            resources: None,
            accelerator: None,
            replicas: 2,
            spreading: Spreading::Preferred,
            disruption: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            image_pull_secrets: Vec::new(),
            gateway: None,
            endpoint: None,
        },
    }
}

/// The answer to a question, which is the same each time.
fn steady<T: PartialEq + fmt::Debug>(what: &str, ask: impl Fn() -> T) -> Result<T, Breach> {
    let first = ask();
    for _ in 1..TIMES {
        let again = ask();
        Rule::SameAnswer.holds(again == first, || {
            format!("{what} gives {first:?}, and then {again:?}")
        })?;
    }
    Ok(first)
}

fn explained(what: &str, reason: &str, message: &str) -> Result<(), Breach> {
    let inner = reason.chars().all(|letter| letter.is_ascii_alphanumeric());
    let camel = reason.starts_with(|letter: char| letter.is_ascii_uppercase()) && inner;
    let kept = camel && reason.len() <= REASON_MAX && !message.trim().is_empty();
    Rule::Explained.holds(kept, || {
        format!("{what} has the reason {reason:?} and the message {message:?}")
    })
}

fn refused(what: &str, refusal: &Refusal) -> Result<(), Breach> {
    explained(what, refusal.reason, &refusal.message)
}

fn judged(kind: &'static str, verdict: &Verdict) -> Result<(), Breach> {
    Rule::VerdictKind.holds(verdict.kind == kind, || {
        format!("a verdict of {kind} says that it is of {}", verdict.kind)
    })?;
    explained(kind, &verdict.reason, &verdict.message)
}
