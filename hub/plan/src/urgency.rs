//! How soon a status has to be written.

use std::collections::BTreeSet;

use crds::{
    condition::{AVAILABLE, HEALTH_CHECK, READY, State},
    reason,
    v1alpha1::InferenceServerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// How soon a status has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// It only tells how far things are on their way: it may wait for more of its kind.
    Progress,
    /// Something else stands in the way than before, or in more or fewer clusters, or fewer are well.
    Obstacle,
    /// It says what a person waits for: that it is ready or no longer so, that a step has failed, or that all of a generation is
    /// written; or it names one more cluster, which the hub remembers by it.
    AtOnce,
}

/// What comes and goes by itself while nothing is wrong.
const UNDER_WAY: [&str; 16] = [
    reason::SERVING,
    reason::PROVISIONED,
    reason::VALID,
    reason::SCALED_TO_ZERO,
    reason::APPLYING,
    reason::PUBLISHING,
    reason::ROUTE_PENDING,
    reason::STARTING_BACKEND,
    reason::MODEL_LOADING,
    reason::NOT_ROUTABLE,
    reason::PROBING,
    reason::SETTLING,
    reason::DRAINING,
    reason::REMOVING,
    reason::REMOVED,
    reason::DELETING,
];

/// How soon a status has to be written that comes after another.
pub fn urgency(before: Option<&InferenceServerStatus>, after: &InferenceServerStatus) -> Urgency {
    let none = InferenceServerStatus::default();
    let before = before.unwrap_or(&none);
    let ready = state(after, READY);
    let was_ready = state(before, READY).unwrap_or_else(|| State::Unknown.as_str());
    let lost = state(before, AVAILABLE) == Some(State::True.as_str())
        && state(after, AVAILABLE) != state(before, AVAILABLE);
    let is_new = |status: &InferenceServerStatus| {
        status.observed_generation == after.observed_generation && is_written(status)
    };
    if ready != Some(was_ready)
        || lost
        || failed(before) != failed(after)
        || (is_new(after) && !is_new(before))
        || is_written_but_for_the_late(before, after)
        || names_more(before, after)
    {
        Urgency::AtOnce
    } else if obstacles(before) != obstacles(after)
        || after.summary.clusters.ready < before.summary.clusters.ready
    {
        Urgency::Obstacle
    } else {
        Urgency::Progress
    }
}

fn state<'a>(status: &'a InferenceServerStatus, kind: &str) -> Option<&'a str> {
    let mut conditions = status.conditions.iter();
    let condition = conditions.find(|condition| condition.type_ == kind)?;
    Some(&condition.status)
}

/// The steps that have failed, and why.
fn failed(status: &InferenceServerStatus) -> BTreeSet<(&str, &str)> {
    let failed = |condition: &&Condition| {
        condition.status == State::False.as_str() && condition.type_ != AVAILABLE
    };
    let conditions = status.conditions.iter().filter(failed);
    conditions
        .map(|condition| (condition.type_.as_str(), condition.reason.as_str()))
        .collect()
}

/// Is every step done that writes something? What waits for replicas alone is as much as can be written.
fn is_written(status: &InferenceServerStatus) -> bool {
    let open = [READY, AVAILABLE, HEALTH_CHECK];
    let waits = |condition: &Condition| {
        !open.contains(&condition.type_.as_str())
            && condition.status != State::True.as_str()
            && condition.reason != reason::NOT_ROUTABLE
    };
    !status.conditions.is_empty() && !status.conditions.iter().any(waits)
}

/// Is a generation written everywhere but where the last one was not either? Who is late already keeps no other's news waiting.
fn is_written_but_for_the_late(
    before: &InferenceServerStatus,
    after: &InferenceServerStatus,
) -> bool {
    let (late, open) = (unwritten(before), unwritten(after));
    before.observed_generation != after.observed_generation
        && !open.is_empty()
        && open.is_subset(&late)
        && open.len() < after.clusters.len()
}

/// The clusters whose agents have not written what they were told.
fn unwritten(status: &InferenceServerStatus) -> BTreeSet<&str> {
    let clusters = status.clusters.iter();
    let open = clusters.filter(|cluster| {
        [reason::APPLYING, reason::APPLY_FAILED].contains(&cluster.reason.as_str())
    });
    open.map(|cluster| cluster.cluster_id.as_str()).collect()
}

/// Does a status name a cluster that one before it does not?
fn names_more(before: &InferenceServerStatus, after: &InferenceServerStatus) -> bool {
    fn named(status: &InferenceServerStatus) -> BTreeSet<&str> {
        let clusters = status.clusters.iter();
        clusters
            .map(|cluster| cluster.cluster_id.as_str())
            .collect()
    }
    !before.conditions.is_empty() && !named(after).is_subset(&named(before))
}

/// What stands in the way: in steps, and in how many clusters.
fn obstacles(status: &InferenceServerStatus) -> BTreeSet<(&str, u32)> {
    let conditions = status.conditions.iter();
    let steps = conditions.filter(|condition| condition.type_ != AVAILABLE);
    let clusters = status.summary.reasons.iter();
    let reasons = steps
        .map(|condition| (condition.reason.as_str(), 0))
        .chain(clusters.map(|count| (count.reason.as_str(), count.clusters)));
    reasons
        .filter(|(reason, _)| !UNDER_WAY.contains(reason))
        .collect()
}
