//! The link between the machines of the hub and of a member: cut and restored.
//!
//! What vanishes does so in the world, which routes between all clusters: a rule there discards what comes in from the one
//! machine for the Pods, Services and node of the other. Neither side is told. A loud cut is at the hub's Services, whose
//! relay resets what comes from the member. Gateways are no part of the link: requests still reach model servers.

use anyhow::{Result, ensure};

use super::addresses::Addresses;
use super::member::Member;
use super::net::{Netns, host};
use crate::control::Cut;

/// The world's end of the link to a cluster.
pub(crate) fn name(addresses: Addresses) -> String {
    format!("cluster{}", addresses.node().octets()[2])
}

/// Cuts the link in this way, whatever cut it before; none restores it.
pub(crate) async fn set(
    world: &Netns,
    hub: &Member,
    member: &Member,
    cut: Option<Cut>,
) -> Result<()> {
    let (hub_addresses, addresses) = (hub.addresses, member.addresses);
    ensure!(
        name(hub_addresses) != name(addresses),
        "the hub has no link to itself"
    );
    let to_hub = matches!(cut, Some(Cut::ToHub | Cut::BothWays));
    let from_hub = matches!(cut, Some(Cut::FromHub | Cut::BothWays));
    discard(world, addresses, hub_addresses, to_hub).await?;
    discard(world, hub_addresses, addresses, from_hub).await?;
    for range in [addresses.pods(), host(addresses.node())] {
        hub.faults.others.refuse(range, cut == Some(Cut::Loudly));
    }
    Ok(())
}

async fn discard(world: &Netns, from: Addresses, to: Addresses, discarded: bool) -> Result<()> {
    let link = name(from);
    for range in [to.pods(), to.load_balancers(), host(to.node())] {
        world.discard(&link, range, discarded).await?;
    }
    Ok(())
}
