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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{clock::Clock, fake::FakeApi, metrics::Metrics, run::own_parts};

    fn own() -> Own {
        let (api, clock) = (FakeApi::default(), Clock::start());
        let metrics = Arc::new(Metrics::new(clock));
        own_parts(&api.client(), &api.caches(), clock, &metrics)
    }

    fn is_same<T: ?Sized>(one: &Arc<T>, other: &Arc<T>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
    }

    /// Makes `other`, when it is handed the one that is expected there.
    fn instead<T: ?Sized + Send + Sync>(
        made: &Arc<AtomicUsize>,
        expected: Option<&Arc<T>>,
        other: &Arc<T>,
    ) -> impl FnOnce(Given<T>) -> Arc<T> + Send + use<T> {
        let (made, expected, other) = (Arc::clone(made), expected.cloned(), Arc::clone(other));
        move |given| {
            assert!(expected.is_none_or(|expected| is_same(&given.default, &expected)));
            made.fetch_add(1, Ordering::Relaxed);
            other
        }
    }

    #[tokio::test]
    async fn a_part_that_was_set_is_handed_the_hubs_own_and_takes_its_place() {
        let (hubs, other, made) = (own(), own(), Arc::new(AtomicUsize::new(0)));
        let steps = crate::server::plugin::OwnSteps::new(&other.publisher, &other.routing);
        let steps: Arc<dyn ServerPlugin> = Arc::new(steps);
        let hub = Hub::builder()
            .provider(instead(&made, Some(&hubs.provider), &other.provider))
            .publisher(instead(&made, Some(&hubs.publisher), &other.publisher))
            .routing(instead(&made, Some(&hubs.routing), &other.routing))
            .model_config_provider(instead(&made, Some(&hubs.models), &other.models))
            .server_plugin(instead(&made, None, &steps))
            .build()
            .unwrap();
        let own_publisher = Arc::clone(&hubs.publisher);
        let chosen = hub.parts.choose(hubs, &Wake::new(Arc::default()));
        assert_eq!(made.load(Ordering::Relaxed), 5);
        assert!(is_same(&chosen.provider, &other.provider));
        assert!(is_same(&chosen.models, &other.models));
        assert!(is_same(&chosen.plugin, &steps));
        // With what clears away what the hub's own has left.
        assert!(!is_same(&chosen.publisher, &own_publisher));
    }

    #[tokio::test]
    async fn a_hub_of_which_nothing_was_set_has_its_own_parts() {
        let hubs = own();
        let (provider, publisher, models) = (
            Arc::clone(&hubs.provider),
            Arc::clone(&hubs.publisher),
            Arc::clone(&hubs.models),
        );
        let hub = Hub::builder().build().unwrap();
        let chosen = hub.parts.choose(hubs, &Wake::new(Arc::default()));
        assert!(is_same(&chosen.provider, &provider));
        assert!(is_same(&chosen.publisher, &publisher));
        assert!(is_same(&chosen.models, &models));
    }

    #[test]
    fn what_is_set_twice_fails_at_the_start_with_its_name() {
        type Set = fn(Builder) -> Builder;
        let parts: [(&str, Set); 5] = [
            ("endpoint provider", |hub| hub.provider(|own| own.default)),
            ("publisher", |hub| hub.publisher(|own| own.default)),
            ("routing", |hub| hub.routing(|own| own.default)),
            ("model config provider", |hub| {
                hub.model_config_provider(|own| own.default)
            }),
            ("server plugin", |hub| hub.server_plugin(|own| own.default)),
        ];
        let once = || parts.iter().fold(Hub::builder(), |hub, (_, set)| set(hub));
        assert!(once().build().is_ok());
        for (name, set) in parts {
            let error = set(once()).build().err().map(|error| error.to_string());
            let says = format!(
                "the hub's {name} is set twice: set it once, and wrap one in the other there if both are wanted"
            );
            assert_eq!(error, Some(says));
        }
    }
}
