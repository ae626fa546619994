//! The rules of a routing.

use crds::{
    condition::{State, TRAFFIC_ROUTE_PROVISION},
    v1alpha1::ServerPlacement,
};

use super::{
    Breach, Rule,
    facts::Facts,
    judged,
    rendered::{objects, refusals},
    steady,
};
use crate::{Routing, objects::routes};

/// Does the routing keep every rule for this placement? It is one that the routing serves, with name, namespace and UID.
///
/// # Errors
///
/// The first rule that it breaks.
pub fn routing(routing: &dyn Routing, placement: &ServerPlacement) -> Result<(), Breach> {
    let facts = Facts::well(placement);
    let rendered = objects(&facts, |input| routing.render(input).map(routes))?;
    refusals(&facts, |input| routing.render(input).map(routes))?;
    for (state, cluster, accepted) in [
        ("no route is live", facts.clone(), false),
        (
            "every route is refused",
            facts.with_live(&rendered, false),
            false,
        ),
        (
            "every route is accepted",
            facts.with_live(&rendered, true),
            true,
        ),
    ] {
        let verdict = steady("observe", || routing.observe(&cluster.input()))?;
        judged(TRAFFIC_ROUTE_PROVISION, &verdict)?;
        let rule = if accepted {
            Rule::Served
        } else {
            Rule::NotWell
        };
        rule.holds((verdict.state == State::True) == accepted, || {
            let (status, message) = (verdict.state.as_str(), &verdict.message);
            format!("where {state}, the verdict is {status}: {message}")
        })?;
    }
    Ok(())
}
