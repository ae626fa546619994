//! A hub, and what of it a build of one's own may replace or wrap. Owns no behaviour: whoever sets nothing has the hub as it is.

use std::sync::Arc;

use operator::cache::ObjectKey;

use crate::{
    args::Args,
    endpoints::{Provider, Publisher},
    leftovers::{InPlace, Leftovers},
    models::ModelConfigProvider,
    observe::Wakeups,
    routing::Routing,
    server::plugin::ServerPlugin,
};

/// What whoever makes a part is given.
pub struct Given<T: ?Sized> {
    /// The hub's own part: to be wrapped, or left.
    pub default: Arc<T>,
    /// Has servers looked at again.
    pub wake: Wake,
}

/// Has servers looked at again: whoever knows something new calls it.
#[derive(Clone, Debug)]
pub struct Wake(Arc<Wakeups>);

impl Wake {
    pub(crate) fn new(wakeups: Arc<Wakeups>) -> Self {
        Self(wakeups)
    }

    /// Has one server looked at. One that does not exist is nothing.
    pub fn server(&self, namespace: &str, name: &str) {
        let Self(wakeups) = self;
        wakeups.servers.wake(ObjectKey::new(namespace, name));
    }
}

/// Makes a part when the hub starts.
type Make<T> = Box<dyn FnOnce(Given<T>) -> Arc<T> + Send>;

/// A part that may be replaced.
struct Part<T: ?Sized> {
    make: Option<Make<T>>,
    twice: bool,
}

impl<T: ?Sized> Default for Part<T> {
    fn default() -> Self {
        Self {
            make: None,
            twice: false,
        }
    }
}

impl<T: ?Sized> Part<T> {
    fn set(&mut self, make: impl FnOnce(Given<T>) -> Arc<T> + Send + 'static) {
        self.twice |= self.make.is_some();
        self.make = Some(Box::new(make));
    }

    fn make(self, default: Arc<T>, wake: &Wake) -> Made<T> {
        let Some(make) = self.make else {
            return Made::Own(default);
        };
        let own = Arc::downgrade(&default);
        let part = make(Given {
            default,
            wake: wake.clone(),
        });
        Made::Another {
            part,
            holds_own: own.strong_count() > 0,
        }
    }
}

/// What a part is.
enum Made<T: ?Sized> {
    Own(Arc<T>),
    /// Whoever left the hub's own can't call it any more.
    Another {
        part: Arc<T>,
        holds_own: bool,
    },
}

impl<T: ?Sized> Made<T> {
    fn part(self) -> Arc<T> {
        match self {
            Self::Own(part) | Self::Another { part, .. } => part,
        }
    }

    /// The part, with what the hub's own has left behind.
    fn in_place(self, leftovers: &Arc<Leftovers>, wrap: fn(InPlace<T>) -> Arc<T>) -> Arc<T> {
        match self {
            Self::Own(part) => part,
            Self::Another { part, holds_own } => wrap(InPlace {
                part,
                leftovers: Arc::clone(leftovers),
                holds_own,
            }),
        }
    }
}

/// Something can't be built.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Which of two was meant can't be known.
    #[error(
        "the hub's {0} is set twice: set it once, and wrap one in the other there if both are wanted"
    )]
    Twice(&'static str),
}

/// Says what a hub is made of.
#[derive(Default)]
pub struct Builder {
    parts: Replaced,
}

/// What was set.
#[derive(Default)]
pub(crate) struct Replaced {
    provider: Part<dyn Provider>,
    publisher: Part<dyn Publisher>,
    routing: Part<dyn Routing>,
    models: Part<dyn ModelConfigProvider>,
    plugin: Part<dyn ServerPlugin>,
}

/// A hub that can be run.
pub struct Hub {
    pub(crate) parts: Replaced,
}

impl Hub {
    /// A hub of which nothing is replaced yet.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Runs it until it is told to stop.
    ///
    /// # Errors
    /// When it can't start, or a part of it ends early.
    pub async fn run(self, args: Args) -> anyhow::Result<()> {
        crate::run::run(args, self.parts).await
    }
}

impl Builder {
    /// Who says where a cluster admits traffic.
    #[must_use]
    pub fn provider(
        mut self,
        make: impl FnOnce(Given<dyn Provider>) -> Arc<dyn Provider> + Send + 'static,
    ) -> Self {
        self.parts.provider.set(make);
        self
    }

    /// Who publishes that.
    #[must_use]
    pub fn publisher(
        mut self,
        make: impl FnOnce(Given<dyn Publisher>) -> Arc<dyn Publisher> + Send + 'static,
    ) -> Self {
        self.parts.publisher.set(make);
        self
    }

    /// Who keeps the discovery routes.
    #[must_use]
    pub fn routing(
        mut self,
        make: impl FnOnce(Given<dyn Routing>) -> Arc<dyn Routing> + Send + 'static,
    ) -> Self {
        self.parts.routing.set(make);
        self
    }

    /// Who says which model a cluster serves.
    #[must_use]
    pub fn model_config_provider(
        mut self,
        make: impl FnOnce(Given<dyn ModelConfigProvider>) -> Arc<dyn ModelConfigProvider>
        + Send
        + 'static,
    ) -> Self {
        self.parts.models.set(make);
        self
    }

    /// The steps that servers go through. What it is given publishes and routes by whatever else was set.
    #[must_use]
    pub fn server_plugin(
        mut self,
        make: impl FnOnce(Given<dyn ServerPlugin>) -> Arc<dyn ServerPlugin> + Send + 'static,
    ) -> Self {
        self.parts.plugin.set(make);
        self
    }

    /// The hub.
    ///
    /// # Errors
    /// [`Error::Twice`] when a part was set more than once.
    pub fn build(self) -> Result<Hub, Error> {
        let Self { parts } = self;
        let Replaced {
            provider,
            publisher,
            routing,
            models,
            plugin,
        } = &parts;
        for (name, twice) in [
            ("endpoint provider", provider.twice),
            ("publisher", publisher.twice),
            ("routing", routing.twice),
            ("model config provider", models.twice),
            ("server plugin", plugin.twice),
        ] {
            if twice {
                return Err(Error::Twice(name));
            }
        }
        Ok(Hub { parts })
    }
}

/// The parts of a running hub.
pub(crate) struct Chosen {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) publisher: Arc<dyn Publisher>,
    pub(crate) models: Arc<dyn ModelConfigProvider>,
    pub(crate) plugin: Arc<dyn ServerPlugin>,
}

/// The hub's own parts.
pub(crate) struct Own {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) publisher: Arc<dyn Publisher>,
    pub(crate) routing: Arc<dyn Routing>,
    pub(crate) models: Arc<dyn ModelConfigProvider>,
    pub(crate) leftovers: Arc<Leftovers>,
}

impl Replaced {
    /// What was set, in place of the hub's own.
    pub(crate) fn choose(self, own: Own, wake: &Wake) -> Chosen {
        let publisher = self.publisher.make(own.publisher, wake);
        let publisher = publisher.in_place(&own.leftovers, |part| Arc::new(part));
        let routing = self.routing.make(own.routing, wake);
        let routing = routing.in_place(&own.leftovers, |part| Arc::new(part));
        let steps: Arc<dyn ServerPlugin> =
            Arc::new(crate::server::plugin::OwnSteps::new(&publisher, &routing));
        Chosen {
            provider: self.provider.make(own.provider, wake).part(),
            models: self.models.make(own.models, wake).part(),
            plugin: self.plugin.make(steps, wake).part(),
            publisher,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_twice_fails_at_the_start_with_its_name() {
        let once = || Hub::builder().provider(|given| given.default);
        assert!(once().build().is_ok());
        let twice = once().provider(|given| given.default).build();
        let error = twice.err().map(|error| error.to_string());
        assert_eq!(
            error.as_deref(),
            Some(
                "the hub's endpoint provider is set twice: set it once, and wrap one in the other there if both are wanted"
            )
        );
        let other = once().routing(|given| given.default).build();
        assert!(other.is_ok());
    }
}
