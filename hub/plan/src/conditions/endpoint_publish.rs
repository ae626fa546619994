//! Is the endpoint of every target cluster published in the hub?

use crds::{
    condition::{ENDPOINT_PUBLISH, State, Verdict},
    reason,
};

use crate::{clusters::Cluster, endpoints::Discovery, facts::StepFacts};

/// True when every target reports an endpoint that may be published.
pub(super) fn endpoint_publish(targets: &[&Cluster], discovery: &Discovery) -> Verdict {
    let found: Vec<_> = targets
        .iter()
        .map(|cluster| (*cluster, &cluster.endpoint))
        .collect();
    // Published all the same: the server does not ask for more.
    let unreached =
        |(_, facts): &&(&Cluster, &StepFacts)| facts.reason == reason::ENDPOINT_UNREACHABLE;
    let verdict = done(&found, discovery);
    match found.iter().find(unreached) {
        Some((cluster, facts)) if verdict.state == State::True => Verdict::yes(
            ENDPOINT_PUBLISH,
            &facts.reason,
            format!("{}: {}", cluster.name, facts.message),
        ),
        Some(_) | None => verdict,
    }
}

fn done(found: &[(&Cluster, &StepFacts)], discovery: &Discovery) -> Verdict {
    let done = if discovery.merged {
        "the endpoint of every target is published; targets of nearly equal weights share one"
    } else {
        "the endpoint of every target is published"
    };
    super::over_clusters(ENDPOINT_PUBLISH, found, done)
}
