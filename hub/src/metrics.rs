//! What can be counted of the hub, by the conventions of OpenMetrics. Counts, and decides nothing.

mod propagation;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
};

use hub_plan::Plan;
use operator::cache::ObjectKey;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{counter::Counter, family::Family, gauge::ConstGauge, gauge::Gauge},
    registry::{Registry, Unit},
};

pub use self::propagation::Propagation;
use crate::{clock::Clock, observe::Wakeups};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

/// How endpoints can stand.
const STATES: [&str; 4] = ["ready", "serving", "draining", "down"];
type Counts = [i64; STATES.len()];

/// The hub's metrics.
#[derive(Debug)]
pub struct Metrics {
    clock: Clock,
    /// Agents with an open session.
    pub sessions: Gauge,
    /// From an agent's look to the slice.
    pub propagation: Propagation,
    passes: Counter,
    errors: Family<Reason, Counter>,
    last_write: Gauge<f64, AtomicU64>,
    endpoints: Family<State, Gauge>,
    /// Of each server that has any.
    published: Mutex<BTreeMap<ObjectKey, Counts>>,
}

impl Metrics {
    /// Nothing has happened yet.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            sessions: Gauge::default(),
            propagation: Propagation::default(),
            passes: Counter::default(),
            errors: Family::default(),
            last_write: Gauge::default(),
            endpoints: Family::default(),
            published: Mutex::default(),
        }
    }

    /// What a scrape shows.
    pub fn register(&self, registry: &mut Registry, wakeups: Arc<Wakeups>) {
        registry.register(
            "inferfleet_hub_sessions",
            "Agents with an open session",
            self.sessions.clone(),
        );
        registry.register(
            "inferfleet_hub_reconciles",
            "Passes over InferenceServers",
            self.passes.clone(),
        );
        registry.register(
            "inferfleet_hub_reconcile_errors",
            "Writes that the API server did not take, by reason",
            self.errors.clone(),
        );
        registry.register_with_unit(
            "inferfleet_hub_last_write_timestamp",
            "When the hub last wrote what a plan asked for, since the epoch",
            Unit::Seconds,
            self.last_write.clone(),
        );
        registry.register(
            "inferfleet_hub_endpoints",
            "Published addresses of servers, by how they stand",
            self.endpoints.clone(),
        );
        registry.register_with_unit(
            "inferfleet_hub_endpoint_propagation",
            "From an agent's look at its cluster to the slice that says so, without the way of the message",
            Unit::Seconds,
            self.propagation.seconds.clone(),
        );
        registry.register_collector(Box::new(QueueDepth(wakeups)));
    }

    /// One pass over a server.
    pub fn passed(&self) {
        self.passes.inc();
    }

    /// A write was not taken.
    pub fn failed(&self, reason: &str) {
        let reason = reason.to_owned();
        self.errors.get_or_create(&Reason { reason }).inc();
    }

    /// A write was taken.
    pub fn wrote(&self) {
        self.last_write
            .set(self.clock.now().as_duration().as_secs_f64());
    }

    /// What is published of a server; `None`: it is gone.
    pub fn published(&self, server: &ObjectKey, plan: Option<&Plan>) {
        let counts = plan.map_or([0; STATES.len()], counts);
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = published.remove(server).unwrap_or_default();
        if counts != [0; STATES.len()] {
            published.insert(server.clone(), counts);
        }
        for ((state, count), before) in STATES.into_iter().zip(counts).zip(before) {
            self.endpoints
                .get_or_create(&State { state })
                .inc_by(count - before);
        }
    }
}

/// The addresses that a plan publishes, by how they stand.
fn counts(plan: &Plan) -> Counts {
    let mut counts = Counts::default();
    let [ready, serving, draining, down] = &mut counts;
    for endpoint in plan.endpoints.values() {
        let count = if endpoint.ready {
            &mut *ready
        } else if endpoint.draining_since.is_some() {
            &mut *draining
        } else if endpoint.serving {
            &mut *serving
        } else {
            &mut *down
        };
        *count += i64::try_from(endpoint.addresses.len()).unwrap_or(i64::MAX);
    }
    counts
}

/// How many keys wait to be looked at, counted when somebody asks.
#[derive(Debug)]
struct QueueDepth(Arc<Wakeups>);

impl Collector for QueueDepth {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Self(wakeups) = self;
        for (name, depth) in [
            ("inferfleet_hub_servers_waiting", wakeups.servers.depth()),
            ("inferfleet_hub_members_waiting", wakeups.members.depth()),
            ("inferfleet_hub_profiles_waiting", wakeups.profiles.depth()),
        ] {
            let depth = ConstGauge::new(i64::try_from(depth).unwrap_or(i64::MAX));
            let encoder = encoder.encode_descriptor(
                name,
                "Objects that wait to be looked at",
                None,
                depth.metric_type(),
            )?;
            depth.encode(encoder)?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hub_plan::memory::PublishedEndpoint;
    use k8s_openapi::jiff::Timestamp;
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn plan(endpoints: &[(bool, bool, bool)]) -> Plan {
        let endpoint = |(ready, serving, draining): &(bool, bool, bool)| PublishedEndpoint {
            addresses: vec!["203.0.113.1".parse().unwrap()],
            ready: *ready,
            serving: *serving,
            draining_since: draining.then_some(Timestamp::UNIX_EPOCH),
            ..PublishedEndpoint::default()
        };
        let names = (0..).map(|number| format!("c{number}").parse().unwrap());
        Plan {
            endpoints: names.zip(endpoints.iter().map(endpoint)).collect(),
            ..Plan::default()
        }
    }

    fn shown(metrics: &Metrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry, Arc::default());
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    /// What a scrape of a histogram alone shows.
    pub(crate) fn shown_of(propagation: &Propagation) -> String {
        let mut registry = Registry::default();
        registry.register("seconds", "", propagation.seconds.clone());
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn endpoints_are_counted_by_how_they_stand_and_forgotten_with_their_server() {
        let metrics = Metrics::new(Clock::start());
        let (a, b) = (ObjectKey::new("team", "a"), ObjectKey::new("team", "b"));
        let (ready, draining) = ((true, true, false), (false, true, true));
        metrics.published(&a, Some(&plan(&[ready, ready, (false, true, false)])));
        metrics.published(&b, Some(&plan(&[ready, draining, (false, false, false)])));
        let text = shown(&metrics);
        for (state, count) in [("ready", 3), ("serving", 1), ("draining", 1), ("down", 1)] {
            let line = format!("inferfleet_hub_endpoints{{state=\"{state}\"}} {count}");
            assert!(text.contains(&line), "{line} is not in {text}");
        }
        metrics.published(&a, Some(&plan(&[ready])));
        metrics.published(&b, None);
        let text = shown(&metrics);
        assert!(text.contains("endpoints{state=\"ready\"} 1"), "{text}");
        assert!(text.contains("endpoints{state=\"draining\"} 0"), "{text}");
    }

    #[test]
    fn what_waits_is_counted_when_it_is_asked_for() {
        let wakeups = Arc::new(Wakeups::default());
        wakeups.servers.wake(ObjectKey::new("team", "a"));
        let metrics = Metrics::new(Clock::start());
        metrics.failed("NameConflict");
        let mut registry = Registry::default();
        metrics.register(&mut registry, wakeups);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "inferfleet_hub_servers_waiting 1",
            "inferfleet_hub_members_waiting 0",
            "inferfleet_hub_profiles_waiting 0",
            "inferfleet_hub_reconcile_errors_total{reason=\"NameConflict\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
