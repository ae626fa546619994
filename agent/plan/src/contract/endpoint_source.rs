//! The rules of an endpoint source.

use crds::{names, reason, v1alpha1::ServerPlacement};

use super::{
    Breach, Rule,
    facts::{Facts, with_each_source},
    refused, steady,
};
use crate::{
    Backend, DeploymentBackend, Endpoint, EndpointSource, Object, PathRouting, Refusal, Routing,
    objects::routes,
};

/// Does the source keep every rule for this placement, whatever source it asks for? It is one with name, namespace and
/// UID.
///
/// # Errors
///
/// The first rule that it breaks.
pub fn endpoint_source(
    source: &dyn EndpointSource,
    placement: &ServerPlacement,
) -> Result<(), Breach> {
    for placement in with_each_source(placement) {
        let facts = Facts::well(&placement);
        let endpoint = resolved(source, &facts)?;
        if let Err(refusal) = &endpoint {
            let seen = format!("it is refused: {} ({})", refusal.message, refusal.reason);
            return Err(Rule::Served.broken(seen));
        }
        for poorer in poorer(&facts) {
            drop(resolved(source, &poorer)?);
        }
        for unknown in not_known_yet(&facts) {
            let now = resolved(source, &unknown)?;
            let waits = now
                .as_ref()
                .is_err_and(|why| why.reason == reason::APPLYING);
            Rule::NotKnownYet.holds(waits || now == endpoint, || {
                format!("it was {endpoint:?} and becomes {now:?}")
            })?;
        }
        let live = facts.states(&live(&facts)).map(|mut state| {
            // Its addresses are what an endpoint is made from.
            state.gateway.clone_from(&facts.gateway);
            state
        });
        for state in live {
            let now = resolved(source, &state)?;
            Rule::StatusFree.holds(now == endpoint, || {
                format!("the endpoint was {endpoint:?} and becomes {now:?}")
            })?;
        }
    }
    Ok(())
}

fn resolved(
    source: &dyn EndpointSource,
    facts: &Facts,
) -> Result<Result<Endpoint, Refusal>, Breach> {
    let resolved = steady("resolve", || source.resolve(&facts.input()))?;
    match &resolved {
        Err(refusal) => refused("a refusal to resolve", refusal)?,
        Ok(endpoint) => {
            let Endpoint {
                addresses,
                hostnames,
                port,
            } = endpoint;
            let some = !(addresses.is_empty() && hostnames.is_empty());
            let names = hostnames.iter().all(|name| names::is_dns_name(name));
            Rule::Publishable
                .holds(some && names && *port > 0, || format!("it is {endpoint:?}"))?;
        }
    }
    Ok(resolved)
}

/// Clusters that lack something.
fn poorer(facts: &Facts) -> [Facts; 5] {
    let changes: [fn(&mut Facts); 5] = [
        |facts| facts.gateway = None,
        |facts| facts.gateway_api = false,
        |facts| {
            if let Some(gateway) = &mut facts.gateway {
                gateway.status = None;
            }
        },
        |facts| facts.service = None,
        |facts| facts.nodes = facts.nodes.take().map(|_nodes| Vec::new()),
    ];
    changes.map(|change| with(facts, change))
}

/// Clusters of which the agent does not know all that it will.
fn not_known_yet(facts: &Facts) -> [Facts; 2] {
    let changes: [fn(&mut Facts); 2] = [
        |facts| facts.services_known = false,
        |facts| facts.nodes = None,
    ];
    changes.map(|change| with(facts, change))
}

fn with(facts: &Facts, change: fn(&mut Facts)) -> Facts {
    let mut facts = facts.clone();
    change(&mut facts);
    facts
}

/// What an ordinary agent would have written.
fn live(facts: &Facts) -> Vec<Object> {
    let input = facts.input();
    let rendered = [
        DeploymentBackend.render(&input),
        PathRouting.render(&input).map(routes),
    ];
    rendered.into_iter().flatten().flatten().collect()
}
