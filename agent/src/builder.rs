//! An agent that is put together: what others bring, and for the rest what is here. Starts nothing.

use std::{collections::BTreeSet, sync::Arc};

use agent_plan::{Backend, Drivers, EndpointSource, Routing};

use crate::args::Args;

/// An agent, ready to run.
#[derive(Debug)]
pub struct Agent {
    drivers: Drivers,
}

/// The same driver was set twice: which of them was meant can't be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the agent's {driver} is set twice: set it once, and wrap one in the other there if both are wanted"
)]
pub struct SetTwice {
    /// Which driver, in words.
    pub driver: &'static str,
}

/// What an agent is put together from. What is not set is as in an agent of Inferfleet's own.
#[derive(Debug, Default)]
#[must_use]
pub struct Builder {
    drivers: Drivers,
    set: BTreeSet<&'static str>,
    twice: Option<SetTwice>,
}

impl Agent {
    /// An agent to be put together.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Runs until SIGTERM or SIGINT.
    ///
    /// # Errors
    ///
    /// What the agent can't start without, or which of its parts ended.
    pub async fn run(self, args: Args) -> anyhow::Result<()> {
        crate::run::run(args, self.drivers).await
    }
}

impl Builder {
    /// Provisions model servers in another way.
    pub fn backend(mut self, backend: impl Backend + 'static) -> Self {
        self.drivers.backend = Arc::new(backend);
        self.note("backend")
    }

    /// Leads traffic to them in another way.
    pub fn routing(mut self, routing: impl Routing + 'static) -> Self {
        self.drivers.routing = Arc::new(routing);
        self.note("routing")
    }

    /// Finds the endpoint of the cluster in another way.
    pub fn endpoint_source(mut self, source: impl EndpointSource + 'static) -> Self {
        self.drivers.endpoint_source = Arc::new(source);
        self.note("endpoint source")
    }

    /// The agent.
    ///
    /// # Errors
    ///
    /// The first driver that was set twice.
    pub fn build(self) -> Result<Agent, SetTwice> {
        match self.twice {
            None => Ok(Agent {
                drivers: self.drivers,
            }),
            Some(twice) => Err(twice),
        }
    }

    fn note(mut self, driver: &'static str) -> Self {
        if !self.set.insert(driver) {
            self.twice = self.twice.or(Some(SetTwice { driver }));
        }
        self
    }
}
