//! What the hub makes of a cluster that it can't hear.
//!
//! Silence says nothing of a cluster: its agent may be away and its model servers well. So it changes nothing for a while,
//! and then as little as the server's policy asks for. It never takes the last cluster that serves, and when much of the
//! fleet falls silent at once it is the hub that is cut off.

use crds::{
    reason,
    v1alpha1::{EndpointPolicy, WhenSilent},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::{
    drain::after,
    facts::{ClusterFacts, Fleet},
    memory::PublishedEndpoint,
    probe::{self, Reach, holds_until, reach},
};

/// How long a cluster that was lost has to be heard before it takes traffic again, in seconds.
const SETTLE_SECONDS: u32 = 10;
/// Fewer silent clusters than this say nothing of the hub.
const SUSPECT_MIN: usize = 3;

/// Is a cluster heard, and if not, what becomes of its endpoint?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// It is heard.
    Heard,
    /// It is heard again after it was lost, and has to stay until then.
    Settling {
        /// Since when it could not be heard.
        since: Timestamp,
        /// When it takes traffic again.
        until: Timestamp,
    },
    /// It can't be heard, and until then that changes nothing.
    Quiet {
        /// The end of the grace.
        until: Timestamp,
    },
    /// It can't be heard, and the grace is over.
    Lost {
        /// Since when it can't be heard.
        since: Timestamp,
        /// What becomes of its endpoint.
        fate: Fate,
    },
}

/// What becomes of the endpoint of a lost cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays as it is: the server's policy is Keep.
    Kept,
    /// It stays as it is: the hub suspects itself.
    Suspected {
        /// When it asks itself again.
        until: Timestamp,
        /// The end of the grace, and when its probe failed after that.
        failed: Option<(Timestamp, Timestamp)>,
    },
    /// It stays as it is until the hub has asked it, and until then at the latest.
    Asked(Timestamp),
    /// It stays as it is: it answers.
    Reached {
        /// When it answered.
        at: Timestamp,
        /// How long that counts.
        until: Timestamp,
    },
    /// It stays as it is: no other cluster serves.
    Last,
    /// It takes no traffic; with Drop it goes then.
    Unready(Option<Timestamp>),
    /// It is gone.
    Dropped,
}

impl Silence {
    /// Is it only silence that keeps the cluster out of the traffic?
    pub(crate) fn unready_since(self) -> Option<Timestamp> {
        match self {
            Self::Settling { since, .. }
            | Self::Lost {
                since,
                fate: Fate::Unready(_) | Fate::Dropped,
            } => Some(since),
            Self::Heard
            | Self::Quiet { .. }
            | Self::Lost {
                fate:
                    Fate::Kept
                    | Fate::Suspected { .. }
                    | Fate::Asked(_)
                    | Fate::Reached { .. }
                    | Fate::Last,
                ..
            } => None,
        }
    }

    /// Why what a cluster that can't be heard would say is not known.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Lost {
                fate: Fate::Suspected { .. },
                ..
            } => reason::FLEET_SILENT,
            Self::Heard | Self::Settling { .. } | Self::Quiet { .. } | Self::Lost { .. } => {
                reason::CLUSTER_NOT_CONNECTED
            }
        }
    }

    /// Since when it is lost, as the end of a sentence.
    pub(crate) fn since(self) -> String {
        match self {
            Self::Lost { since, .. } => format!(" since {since}"),
            Self::Heard | Self::Settling { .. } | Self::Quiet { .. } => String::new(),
        }
    }

    /// When time alone changes it.
    pub(crate) fn due(self) -> Option<Timestamp> {
        match self {
            Self::Settling { until, .. }
            | Self::Quiet { until }
            | Self::Lost {
                fate:
                    Fate::Suspected { until, .. } | Fate::Asked(until) | Fate::Reached { until, .. },
                ..
            } => Some(until),
            Self::Lost {
                fate: Fate::Unready(drop),
                ..
            } => drop,
            Self::Heard | Self::Lost { .. } => None,
        }
    }
}

/// What the hub makes of one cluster, by itself: that it may be the last is judged over all, by [`spare_the_last`].
pub(crate) fn silence(
    policy: &EndpointPolicy,
    cluster: &ClusterFacts,
    memory: &PublishedEndpoint,
    fleet: &Fleet,
    now: Timestamp,
) -> Silence {
    if cluster.reporting {
        let Some(since) = memory.silent_since else {
            return Silence::Heard;
        };
        let until = after(cluster.heard_since.unwrap_or(now), SETTLE_SECONDS);
        return if now < until {
            Silence::Settling { since, until }
        } else {
            Silence::Heard
        };
    }
    let unheard = cluster.silent_since.unwrap_or(now);
    let since = memory.silent_since.unwrap_or(unheard);
    let until = after(unheard, policy.grace_seconds);
    // What was made unready before a restart of the hub stays so.
    if memory.silent_since.is_none() && now < until {
        return Silence::Quiet { until };
    }
    let fate = match answer(policy, cluster, memory, until) {
        Some(Reach::Reached(at)) if now < holds_until(policy, at) => Fate::Reached {
            at,
            until: holds_until(policy, at),
        },
        // What it was made unready for stands until it answers.
        Some(_) | None if memory.silent_since.is_some() => by_policy(policy, since, now),
        answer => doubted(policy, unheard, fleet, answer, now),
    };
    Silence::Lost { since, fate }
}

/// What becomes of the endpoint of a cluster that is silent since then, and about to be doubted. No answer at all is one as
/// well, a grace later: nothing is kept for good because nobody got to ask it.
fn doubted(
    policy: &EndpointPolicy,
    unheard: Timestamp,
    fleet: &Fleet,
    answer: Option<Reach<'_>>,
    now: Timestamp,
) -> Fate {
    let grace_over = after(unheard, policy.grace_seconds);
    let asked_from = match answer {
        Some(Reach::Unknown) => Some(grace_over),
        Some(Reach::Reached(at)) => Some(holds_until(policy, at)),
        Some(Reach::Unreached(..)) | None => None,
    };
    let asked_until = asked_from.map(|from| after(from, policy.grace_seconds));
    if let Some(until) = asked_until.filter(|until| now < *until) {
        return Fate::Asked(until);
    }
    let Some(until) = suspected_until(fleet, unheard, policy, now) else {
        return by_policy(policy, unheard, now);
    };
    let failed = match answer {
        Some(Reach::Unreached(at, _)) => Some((grace_over, at)),
        Some(Reach::Unknown | Reach::Reached(_)) | None => None,
    };
    Fate::Suspected { until, failed }
}

/// What becomes of the endpoint of a cluster that is lost since then.
fn by_policy(policy: &EndpointPolicy, since: Timestamp, now: Timestamp) -> Fate {
    let drop = after(since, policy.drop_after_seconds.max(policy.grace_seconds));
    match policy.when_silent {
        WhenSilent::Keep => Fate::Kept,
        WhenSilent::Unready => Fate::Unready(None),
        WhenSilent::Drop if now < drop => Fate::Unready(Some(drop)),
        WhenSilent::Drop => Fate::Dropped,
    }
}

/// What the endpoint of a silent cluster answered since the end of its grace; `None`: it is not asked.
fn answer<'a>(
    policy: &EndpointPolicy,
    cluster: &'a ClusterFacts,
    memory: &PublishedEndpoint,
    until: Timestamp,
) -> Option<Reach<'a>> {
    let asks = probe::is_on(policy) && memory.served() && !memory.addresses.is_empty();
    asks.then(|| {
        if probe::is_after(cluster.probe.as_ref(), until) {
            reach(cluster.probe.as_ref(), &memory.addresses, memory.port)
        } else {
            Reach::Unknown
        }
    })
}

/// Where the hub suspects itself, and reached a silent cluster all the same, its way is well: what it did not reach after that
/// is lost. What it reached before the suspect's grace was over says nothing of now; and what did not answer before the hub
/// reached another is asked again first, since the way may have been mended between the two.
pub(crate) fn trust_probes(policy: &EndpointPolicy, silences: &mut [&mut Silence], now: Timestamp) {
    let mut reached = Vec::new();
    for silence in &*silences {
        if let Silence::Lost { fate, .. } = **silence
            && let Fate::Reached { at, .. } = fate
        {
            reached.push(at);
        }
    }
    for silence in silences {
        if let Silence::Lost { since, fate } = *silence
            && let Fate::Suspected { failed, .. } = *fate
            && let Some((from, to)) = failed
            && reached.iter().any(|at| (from..=to).contains(at))
        {
            *fate = by_policy(policy, *since, now);
        }
    }
}

/// When more than half of the fleet, and at least three clusters, fell silent within one grace of that moment: when to ask
/// again. Agents come back one after the other: who is heard again for less than a grace still counts, or else the first
/// that are back would have the others made unready.
fn suspected_until(
    fleet: &Fleet,
    moment: Timestamp,
    policy: &EndpointPolicy,
    now: Timestamp,
) -> Option<Timestamp> {
    let needed = SUSPECT_MIN.max(fleet.joined / 2 + 1);
    let grace = SignedDuration::from_secs(policy.grace_seconds.into());
    let from = moment.checked_sub(grace).unwrap_or(Timestamp::MIN);
    let to = moment.checked_add(grace).unwrap_or(Timestamp::MAX);
    let silent = &fleet.silent_since;
    let still = silent.partition_point(|since| *since <= to)
        - silent.partition_point(|since| *since < from);
    let Some(missing) = needed.checked_sub(still + 1) else {
        return Some(after(now, policy.grace_seconds));
    };
    let over = fleet
        .silences
        .iter()
        .filter(|silence| (from..=to).contains(&silence.began));
    let counts_until = over.map(|silence| after(silence.ended, policy.grace_seconds));
    let mut counting: Vec<_> = counts_until.filter(|until| now < *until).collect();
    counting.sort_unstable_by(|a, b| b.cmp(a));
    counting.get(missing).copied()
}

/// A cluster that could take traffic, for [`spare_the_last`].
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    /// Would a request that arrives there reach a model server, as far as is known?
    pub(crate) serves: bool,
    /// What becomes of it.
    pub(crate) silence: &'a mut Silence,
}

/// Where silence would leave no cluster that serves, the ones that were heard last stay in the traffic, and one that is
/// back does not have to settle.
pub(crate) fn spare_the_last(candidates: &mut [Candidate<'_>]) {
    let served = |candidate: &Candidate<'_>| candidate.serves;
    if candidates
        .iter()
        .any(|candidate| served(candidate) && candidate.silence.unready_since().is_none())
    {
        return;
    }
    let back = |silence: &Silence| matches!(silence, Silence::Settling { .. });
    if candidates
        .iter()
        .any(|candidate| served(candidate) && back(candidate.silence))
    {
        for candidate in candidates.iter_mut().filter(|one| served(one)) {
            if back(candidate.silence) {
                *candidate.silence = Silence::Heard;
            }
        }
        return;
    }
    let lost = candidates.iter().filter(|candidate| served(candidate));
    let Some(latest) = lost
        .filter_map(|candidate| candidate.silence.unready_since())
        .max()
    else {
        return;
    };
    for candidate in candidates.iter_mut().filter(|one| served(one)) {
        if let Silence::Lost { since, fate } = candidate.silence
            && *since == latest
        {
            *fate = Fate::Last;
        }
    }
}
