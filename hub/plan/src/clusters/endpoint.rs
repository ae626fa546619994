//! Where one cluster admits traffic, or why nowhere.

use std::{collections::BTreeSet, net::IpAddr};

use crds::{ClusterName, condition::State, reason, v1alpha1::ProbePolicy};
use k8s_openapi::jiff::Timestamp;

use super::{Draft, bounds::Bounds, previous};
use crate::{
    drain::Drain,
    facts::{ClusterFacts, EndpointFacts, Facts, Family, StepFacts},
    memory::PublishedEndpoint,
    probe::{Reach, reach},
    silence::{Fate, Silence},
};

/// Refused addresses that a message names.
const REFUSED_SHOWN: usize = 8;

/// The endpoint of one cluster.
pub(super) struct Found {
    pub(super) verdict: StepFacts,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: u16,
    /// Which of its host names some of the addresses came from.
    pub(super) hostnames: BTreeSet<String>,
    pub(super) draining_since: Option<Timestamp>,
    /// When time alone changes it.
    pub(super) due: Option<Timestamp>,
}

impl Found {
    fn nowhere(verdict: StepFacts) -> Self {
        Self {
            verdict,
            addresses: Vec::new(),
            port: 0,
            hostnames: BTreeSet::new(),
            draining_since: None,
            due: None,
        }
    }

    fn of(memory: &PublishedEndpoint, verdict: StepFacts) -> Self {
        Self {
            addresses: memory.addresses.clone(),
            port: memory.port,
            hostnames: memory.hostnames.clone(),
            ..Self::nowhere(verdict)
        }
    }
}

impl Found {
    /// Says in the verdict of an endpoint that is asked what the last probe brought. Returns whether it may take traffic, as far
    /// as that goes.
    ///
    /// Required is a gate to the traffic, and no way out of it. What led to model servers goes on, whatever the probe brings: the
    /// hub asks the endpoint of a cluster that it hears once, so it is a restart that asks again, and with its own way to the
    /// members broken it would take out all that their clusters say is well. No restart may change an endpoint by itself.
    pub(super) fn prove(&mut self, draft: &Draft<'_>, facts: &Facts<'_>) -> bool {
        let Draft { name, memory, .. } = draft;
        let policy = &facts.server.spec.endpoints;
        let withheld = policy.probe == ProbePolicy::Required && !self.goes_on(memory);
        let unreachable = |message: String| {
            let state = if withheld { State::False } else { State::True };
            StepFacts::of(state, reason::ENDPOINT_UNREACHABLE, message)
        };
        match reach(draft.facts.probe.as_ref(), &self.addresses, self.port) {
            Reach::Reached(_) => return true,
            Reach::Unknown => {
                // After a restart, and until the first answer, what was said before.
                let said = previous(facts, name);
                let said = said.filter(|said| said.reason == reason::ENDPOINT_UNREACHABLE);
                if let Some(said) = said {
                    self.doubt(unreachable(said.message.clone()));
                } else if withheld {
                    let message = format!(
                        "the hub asks whether the endpoint of {name} leads to its model servers"
                    );
                    self.doubt(StepFacts::unknown(reason::PROBING, message));
                }
            }
            Reach::Unreached(_, failure) => {
                let path = "/cluster/<namespace>/<name>/-/ready";
                self.doubt(unreachable(format!(
                    "the hub does not reach the model servers of {name} at port {} of its endpoint ({path}): {failure}; can the hub's Pod reach these addresses?",
                    self.port
                )));
            }
        }
        !withheld
    }

    /// Says of an endpoint of which nothing is published yet what that waits for. A slice is first written when it leads somewhere:
    /// one before would cost a write for each server and cluster, and say that nothing is there.
    pub(super) fn wait_for_replica(&mut self, draft: &Draft<'_>) {
        let name = draft.name;
        if draft.replicas == 0 {
            let message = "replicas is 0 and none has served: nothing is published";
            self.doubt(StepFacts::yes(reason::SCALED_TO_ZERO, message));
            return;
        }
        let placement = draft.facts.placement.as_ref();
        let waits = if placement.is_some_and(|placement| placement.replicas.ready > 0) {
            "its gateway accepts the traffic route"
        } else {
            "a replica is ready there"
        };
        let message = format!("nothing of {name} is published before {waits}");
        self.doubt(StepFacts::unknown(reason::NOT_ROUTABLE, message));
    }

    /// Is some of it published already, and did it lead to model servers?
    fn goes_on(&self, memory: &PublishedEndpoint) -> bool {
        let mut addresses = self.addresses.iter();
        memory.serving
            && memory.draining_since.is_none()
            && memory.port == self.port
            && addresses.any(|address| memory.addresses.contains(address))
    }

    /// What keeps it from being published comes first.
    fn doubt(&mut self, verdict: StepFacts) {
        if self.verdict.state == State::True {
            self.verdict = verdict;
        }
    }
}

/// Does a request reach a model server? The live route is accepted and a replica is ready.
pub(super) fn is_routable(cluster: &ClusterFacts) -> bool {
    let placement = cluster.placement.as_ref();
    placement.is_some_and(|placement| placement.route_accepted && placement.replicas.ready > 0)
}

/// The endpoint as reported, without the addresses that may not be published. Where the agent does not know yet, it stays as
/// it was published, unless it was on its way out.
pub(super) fn resolved(
    name: &ClusterName,
    cluster: &ClusterFacts,
    silence: Silence,
    memory: &PublishedEndpoint,
    bounds: &Bounds<'_>,
) -> Found {
    let Some(reported) = &cluster.endpoint else {
        return Found::nowhere(StepFacts::unknown(
            reason::APPLYING,
            format!("{name} has not reported an endpoint yet"),
        ));
    };
    if reported.addresses.is_empty() && reported.hostnames.is_empty() {
        return unreported(reported, silence, memory);
    }
    let (mut fit, mut refused) = (BTreeSet::new(), Vec::new());
    let mut judge = |text: &str, address: Option<IpAddr>| match address {
        Some(address) => match bounds.refusal(address) {
            None => {
                fit.insert(address);
            }
            Some(rule) => refused.push(format!("{text} ({rule})")),
        },
        None => refused.push(format!("{text} (no IP address)")),
    };
    for text in &reported.addresses {
        judge(text, text.parse().ok());
    }
    for (hostname, resolution) in &reported.hostnames {
        for address in &resolution.addresses {
            judge(&format!("{address} of {hostname}"), Some(*address));
        }
    }
    let port = if fit.is_empty() {
        memory.port
    } else {
        reported.port
    };
    let hostnames = reported.hostnames.iter();
    let stays = memory.draining_since.is_none() && memory.port == port;
    let is_remembered = |hostname: &String| stays && memory.hostnames.contains(hostname);
    // A name of which nothing is known yet may be what was published. One that never was is not, as long as there is more.
    let is_all = fit.is_empty();
    let is_kept = |hostname: &String| is_all || is_remembered(hostname);
    if stays {
        let unknown = |address: &IpAddr| {
            hostnames
                .clone()
                .any(|(hostname, resolution)| is_kept(hostname) && resolution.may_have(*address))
        };
        let remembered = memory.addresses.iter().copied();
        fit.extend(remembered.filter(|one| unknown(one) && bounds.refusal(*one).is_none()));
    }
    let verdict = refusal(name, &refused)
        .or_else(|| unresolved(name, reported, &fit, is_kept))
        .unwrap_or_else(|| settled(name, fit.len(), silence));
    let hostnames = hostnames.filter(|(hostname, resolution)| {
        !resolution.addresses.is_empty() || is_remembered(hostname)
    });
    Found {
        port: if fit.is_empty() { 0 } else { port },
        hostnames: hostnames.map(|(hostname, _)| hostname.clone()).collect(),
        addresses: fit.into_iter().collect(),
        due: silence.due(),
        ..Found::nowhere(verdict)
    }
}

/// No endpoint, in the agent's words. While it does not know yet, what was published stays.
fn unreported(reported: &EndpointFacts, silence: Silence, memory: &PublishedEndpoint) -> Found {
    let message = reported.message.clone();
    if reported.reason != reason::APPLYING {
        return Found::nowhere(StepFacts::no(&reported.reason, message));
    }
    let verdict = StepFacts::unknown(reason::APPLYING, message);
    if memory.draining_since.is_some() {
        return Found::nowhere(verdict);
    }
    Found {
        due: silence.due(),
        ..Found::of(memory, verdict)
    }
}

/// Why some addresses are not published. The first ones stand for all.
fn refusal(name: &ClusterName, refused: &[String]) -> Option<StepFacts> {
    let shown = refused.get(..REFUSED_SHOWN).unwrap_or(refused).join(", ");
    let more = match refused.len().saturating_sub(REFUSED_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!("{name} reports what may not be published: {shown}{more}");
    (!refused.is_empty()).then(|| StepFacts::no(reason::ADDRESS_REFUSED, message))
}

/// Which names are not resolved: what fails comes before what is on its way. A name that has addresses needs no second family:
/// where nothing of the failed one is published, nothing is amiss.
fn unresolved(
    name: &ClusterName,
    reported: &EndpointFacts,
    published: &BTreeSet<IpAddr>,
    is_kept: impl Fn(&String) -> bool,
) -> Option<StepFacts> {
    let is_published = |family: Family| published.iter().any(|address| family.has(*address));
    let mut failures = reported
        .hostnames
        .iter()
        .filter_map(|(hostname, resolution)| {
            let failure = resolution.failure.as_ref()?;
            if !resolution.failed.is_none_or(is_published) {
                return None;
            }
            let published = if !resolution.addresses.is_empty() {
                "its last addresses stay published"
            } else if is_kept(hostname) {
                "what was published stays"
            } else {
                "nothing of it is published"
            };
            Some(StepFacts::unknown(
                reason::HOSTNAME_NOT_RESOLVED,
                format!("the hub can't resolve {hostname} of {name}: {failure}; {published}"),
            ))
        });
    failures.next().or_else(|| {
        let mut names = reported.hostnames.iter();
        let (hostname, _) = names.find(|(_, resolution)| resolution.addresses.is_empty())?;
        Some(StepFacts::unknown(
            reason::APPLYING,
            format!("{hostname} of {name} is being resolved"),
        ))
    })
}

fn settled(name: &ClusterName, addresses: usize, silence: Silence) -> StepFacts {
    match silence {
        Silence::Settling { until, .. } => StepFacts::unknown(
            reason::SETTLING,
            format!("{name} is heard again; it takes traffic from {until} if it stays"),
        ),
        Silence::Heard | Silence::Quiet { .. } | Silence::Lost { .. } => StepFacts::yes(
            reason::PROVISIONED,
            format!("{name} admits traffic at {addresses} addresses"),
        ),
    }
}

/// The endpoint of a cluster that can't be heard: what was last published.
pub(super) fn silent(name: &ClusterName, silence: Silence, memory: &PublishedEndpoint) -> Found {
    let (what, stays) = match silence {
        Silence::Heard | Silence::Settling { .. } | Silence::Quiet { .. } => {
            ("its endpoint stays as it was last published", true)
        }
        Silence::Lost { fate, .. } => match fate {
            Fate::Kept => ("its endpoint stays, since whenSilent is Keep", true),
            Fate::Suspected { .. } => (
                "its endpoint stays, since much of the fleet fell silent at once: look at the hub's network",
                true,
            ),
            Fate::Asked(_) => ("the hub asks its endpoint whether it still answers", true),
            Fate::Reached { .. } => ("its endpoint stays, since it answers", true),
            Fate::Last => ("its endpoint stays, since no other cluster serves", true),
            Fate::Unready(_) => ("its endpoint takes no traffic", true),
            Fate::Dropped => ("its endpoint was taken away", false),
        },
    };
    let since = silence.since();
    let verdict = StepFacts::unknown(
        silence.reason(),
        format!("the agent of {name} can't be heard{since}; {what}"),
    );
    let found = if stays {
        Found::of(memory, verdict)
    } else {
        Found::nowhere(verdict)
    };
    Found {
        due: silence.due(),
        ..found
    }
}

/// The endpoint of a cluster that is to hold nothing: it drains. Those of a server under deletion stay until the server
/// goes, so that nothing is taken away before the members have confirmed.
pub(super) fn withdrawn(memory: &PublishedEndpoint, drain: Drain, deleting: bool) -> Found {
    let verdict = StepFacts {
        state: State::Unknown,
        reason: reason::DRAINING.to_owned(),
        message: "its endpoint takes no new traffic".to_owned(),
    };
    match drain {
        Drain::Since(since, until) => Found {
            draining_since: Some(since),
            due: Some(until),
            ..Found::of(memory, verdict)
        },
        Drain::Done(since) if deleting => Found {
            draining_since: Some(since),
            ..Found::of(memory, verdict)
        },
        Drain::Nothing if deleting => Found::of(memory, verdict),
        Drain::Nothing | Drain::Done(_) => Found::nowhere(verdict),
    }
}
