//! How a plan's endpoints read in an assertion.

use hub_plan::facts::StepFacts;

use crate::given::Planned;

/// `cluster address how` of each endpoint of the discovery Service: `ready`, `serving` (works, and takes no traffic),
/// `draining`, `down`.
pub(crate) fn endpoints(plan: &Planned) -> Vec<String> {
    let ours = plan.slices.iter().filter(|slice| {
        slice.metadata.labels.as_ref().unwrap()["kubernetes.io/service-name"] == "llama-endpoints"
    });
    ours.flat_map(|slice| {
        let cluster = &slice.metadata.labels.as_ref().unwrap()["inferfleet.io/cluster"];
        slice.endpoints.iter().map(move |endpoint| {
            let conditions = endpoint.conditions.as_ref().unwrap();
            let how = match (conditions.ready, conditions.serving, conditions.terminating) {
                (Some(true), Some(true), Some(false)) => "ready",
                (Some(false), Some(true), Some(false)) => "serving",
                (Some(false), Some(true), Some(true)) => "draining",
                (Some(false), Some(false), Some(false)) => "down",
                other => panic!("{other:?} makes no sense"),
            };
            format!("{cluster} {} {how}", endpoint.addresses[0])
        })
    })
    .collect()
}

/// Seconds from the plan's time until it is to be made again.
pub(crate) fn due(plan: &Planned, now: k8s_openapi::jiff::Timestamp) -> Option<i64> {
    plan.due.map(|due| due.as_second() - now.as_second())
}

/// `State Reason: message`.
pub(crate) fn verdict(facts: &StepFacts) -> String {
    format!(
        "{} {}: {}",
        facts.state.as_str(),
        facts.reason,
        facts.message
    )
}
