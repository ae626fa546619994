//! How long it takes until what a member cluster's agent has seen is published.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crds::ClusterName;
use hub_plan::memory::PublishedEndpoint;
use operator::cache::ObjectKey;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

/// Endpoints of a server, by cluster.
type Endpoints = BTreeMap<ClusterName, PublishedEndpoint>;

/// From the agent's look at its cluster to the hub's write of the slice. Without the way of the message between the two: their
/// clocks are not compared.
#[derive(Debug)]
pub struct Propagation {
    pub(super) seconds: Histogram,
    seen: Mutex<BTreeMap<ObjectKey, BTreeMap<ClusterName, Sight>>>,
}

/// Something that an agent saw, until it is known what it led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// When, by the hub's monotonic clock.
    at: Duration,
    /// A plan wants something else published since.
    differs: bool,
}

impl Default for Propagation {
    fn default() -> Self {
        Self {
            // 1 ms to 65 s.
            seconds: Histogram::new(exponential_buckets(0.001, 2.0, 17)),
            seen: Mutex::default(),
        }
    }
}

impl Propagation {
    /// An agent reported of a server what it saw at that time. The first that is not published yet counts.
    pub fn reported(&self, server: ObjectKey, cluster: &ClusterName, at: Duration) {
        let sight = Sight { at, differs: false };
        let mut seen = self.lock();
        let of = seen.entry(server).or_default();
        of.entry(cluster.clone()).or_insert(sight);
    }

    /// What agents saw of a server and is not published yet. To be asked for before the facts of a plan are gathered: so these
    /// hold it.
    pub fn seen(&self, server: &ObjectKey) -> BTreeMap<ClusterName, Sight> {
        self.lock().get(server).cloned().unwrap_or_default()
    }

    /// What was seen is planned for. Counts what a plan wanted published and now is; drops what led to nothing.
    pub fn planned(
        &self,
        server: &ObjectKey,
        seen: &BTreeMap<ClusterName, Sight>,
        [published, planned]: [&Endpoints; 2],
        now: Duration,
    ) {
        if seen.is_empty() {
            return;
        }
        let mut all = self.lock();
        let Some(of) = all.get_mut(server) else {
            return;
        };
        for (cluster, sight) in seen {
            if published.get(cluster) != planned.get(cluster) {
                if let Some(sight) = of.get_mut(cluster) {
                    sight.differs = true;
                }
                continue;
            }
            of.remove(cluster);
            if sight.differs {
                let took = now.saturating_sub(sight.at);
                self.seconds.observe(took.as_secs_f64());
            }
        }
        if of.is_empty() {
            all.remove(server);
        }
    }

    /// The server is gone.
    pub fn forget(&self, server: &ObjectKey) {
        self.lock().remove(server);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, BTreeMap<ClusterName, Sight>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ObjectKey {
        ObjectKey::new("team", "llama")
    }

    fn east() -> ClusterName {
        "east".parse().unwrap()
    }

    fn endpoints(address: &str) -> Endpoints {
        let endpoint = PublishedEndpoint {
            addresses: vec![address.parse().unwrap()],
            ..PublishedEndpoint::default()
        };
        BTreeMap::from([(east(), endpoint)])
    }

    /// One plan over what was seen.
    fn plan(propagation: &Propagation, [published, planned]: [&str; 2], second: u64) {
        let seen = propagation.seen(&server());
        let (published, planned) = (endpoints(published), endpoints(planned));
        let now = Duration::from_secs(second);
        propagation.planned(&server(), &seen, [&published, &planned], now);
    }

    /// How many were counted, and their sum in seconds.
    fn counted(propagation: &Propagation) -> (u64, f64) {
        let metrics = crate::metrics::tests::shown_of(propagation);
        let value = |name: &str| {
            let line = metrics.lines().find(|line| line.starts_with(name)).unwrap();
            line.rsplit(' ').next().unwrap().to_owned()
        };
        (
            value("seconds_count").parse().unwrap(),
            value("seconds_sum").parse().unwrap(),
        )
    }

    #[test]
    fn what_was_seen_counts_once_it_is_published() {
        let propagation = Propagation::default();
        propagation.reported(server(), &east(), Duration::from_secs(1));
        propagation.reported(server(), &east(), Duration::from_secs(2));
        plan(&propagation, ["192.0.2.1", "192.0.2.2"], 3);
        assert_eq!(counted(&propagation), (0, 0.0));
        plan(&propagation, ["192.0.2.2", "192.0.2.2"], 5);
        assert_eq!(counted(&propagation), (1, 4.0), "since the first look");
        plan(&propagation, ["192.0.2.2", "192.0.2.2"], 9);
        assert_eq!(counted(&propagation), (1, 4.0), "once");
        assert!(propagation.lock().is_empty());
    }

    #[test]
    fn what_changes_nothing_that_is_published_does_not_count() {
        let propagation = Propagation::default();
        propagation.reported(server(), &east(), Duration::from_secs(1));
        plan(&propagation, ["192.0.2.1", "192.0.2.1"], 2);
        // The hub's own change of mind, much later.
        plan(&propagation, ["192.0.2.1", "192.0.2.2"], 60);
        plan(&propagation, ["192.0.2.2", "192.0.2.2"], 61);
        assert_eq!(counted(&propagation), (0, 0.0));
        propagation.reported(server(), &east(), Duration::from_secs(1));
        propagation.forget(&server());
        assert!(propagation.lock().is_empty());
    }

    #[test]
    fn what_is_seen_after_the_facts_were_gathered_waits_for_the_next_plan() {
        let propagation = Propagation::default();
        let before = propagation.seen(&server());
        propagation.reported(server(), &east(), Duration::from_secs(1));
        let old = endpoints("192.0.2.1");
        propagation.planned(&server(), &before, [&old, &old], Duration::from_secs(2));
        plan(&propagation, ["192.0.2.1", "192.0.2.2"], 3);
        plan(&propagation, ["192.0.2.2", "192.0.2.2"], 4);
        assert_eq!(counted(&propagation), (1, 3.0));
    }
}
