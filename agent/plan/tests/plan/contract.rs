//! What the contract says of the implementations that are here, and how it tells a breach.

mod backend;
mod endpoint_source;
mod routing;

use agent_plan::{
    ConfiguredSource, DeploymentBackend, PathRouting,
    contract::{self, Breach, Rule},
};
use crds::v1alpha1::{GatewayReference, ServerPlacement};

/// Of one the contract's own, and of others what may be otherwise in it.
fn placements() -> Vec<ServerPlacement> {
    let changes: [fn(&mut ServerPlacement); 7] = [
        |_| {},
        |placement| placement.spec.model = None,
        |placement| placement.spec.replicas = 0,
        |placement| placement.spec.replicas = 10_000,
        |placement| placement.metadata.name = Some("l".repeat(53)),
        |placement| placement.spec.runtime.content.probes.liveness = None,
        |placement| {
            placement.spec.gateway = Some(GatewayReference {
                namespace: "own".to_owned(),
                name: "gate".to_owned(),
                listener: Some("inner".to_owned()),
            });
        },
    ];
    let changed = changes.map(|change| {
        let mut placement = contract::placement();
        change(&mut placement);
        placement
    });
    changed.into()
}

#[test]
fn what_is_here_keeps_every_rule() {
    for placement in placements() {
        assert_eq!(contract::backend(&DeploymentBackend, &placement), Ok(()));
        assert_eq!(contract::routing(&PathRouting, &placement), Ok(()));
        let source = contract::endpoint_source(&ConfiguredSource, &placement);
        assert_eq!(source, Ok(()));
    }
}

#[test]
fn a_placement_that_a_driver_does_not_serve_breaks_its_contract_and_no_more() {
    let mut placement = contract::placement();
    placement.spec.runtime.content.images = Vec::new();
    let breach = contract::backend(&DeploymentBackend, &placement).unwrap_err();
    assert_eq!(
        breach.to_string(),
        "where all is well, a placement gets what it asks for, but it is refused: RuntimeProfile ordinary has no image that \
         needs no accelerator (vendor none), and spec.accelerator asks for none: add one to the profile, or set \
         spec.runtime.image (BackendUnsupported)"
    );
    assert_eq!(contract::routing(&PathRouting, &placement), Ok(()));
}

#[test]
fn a_placement_that_no_api_server_holds_can_own_nothing() {
    let mut placement = contract::placement();
    placement.metadata.uid = None;
    let breach = contract::backend(&DeploymentBackend, &placement).unwrap_err();
    assert_eq!(breach.rule, Rule::Owner);
}

/// Each breach is of the rule that stands beside it.
fn assert_broken(breaches: impl IntoIterator<Item = (Rule, Result<(), Breach>)>) {
    for (rule, result) in breaches {
        let broken = result.as_ref().map_err(|breach| breach.rule);
        assert_eq!(broken, Err(rule), "{result:?}");
    }
}
