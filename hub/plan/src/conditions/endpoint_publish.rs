//! Is the endpoint of every target cluster published in the hub?

use crds::{
    condition::{ENDPOINT_PUBLISH, State, Verdict},
    reason,
};

use crate::{clusters::Cluster, endpoints::Discovery};

/// True when every target's endpoint is published, but for those that are to run no replica and have never served.
pub(super) fn endpoint_publish(targets: &[&Cluster], discovery: &Discovery) -> Verdict {
    let mut found: Vec<_> = targets
        .iter()
        .map(|cluster| (*cluster, &cluster.endpoint))
        .collect();
    // Who only waits for a replica is told after who has no endpoint.
    found.sort_by_key(|(_, facts)| facts.reason == reason::NOT_ROUTABLE);
    let verdict = super::over_clusters(ENDPOINT_PUBLISH, &found, done(discovery));
    // Published all the same, since the server asks for no more; or never published, and nobody waits for it.
    let noted = [reason::ENDPOINT_UNREACHABLE, reason::SCALED_TO_ZERO];
    let noted = noted
        .iter()
        .find_map(|reason| found.iter().find(|(_, facts)| facts.reason == *reason));
    match noted {
        Some((cluster, facts)) if verdict.state == State::True => Verdict::yes(
            ENDPOINT_PUBLISH,
            &facts.reason,
            format!("{}: {}", cluster.name, facts.message),
        ),
        Some(_) | None => verdict,
    }
}

fn done(discovery: &Discovery) -> &'static str {
    if discovery.merged {
        "the endpoint of every target is published; targets of nearly equal weights share one"
    } else {
        "the endpoint of every target is published"
    }
}
