//! A hub that is cut off from all its members at once.

use crds::v1alpha1::ProbePolicy;
use e2e::{Cut, Installed};
use futures::future::join_all;

use super::record::Record;
use super::{
    MEMBERS, alone, answer, connected, members, namespace, server, status_of, until_server,
};

/// Cuts all links at once, until the hub suspects itself, and restores them.
async fn isolate(fleet: &Installed, namespace: &str, cut: Cut) {
    let cuts = members(fleet)
        .into_iter()
        .map(|member| member.cut_link(cut));
    for cut in join_all(cuts).await {
        cut.unwrap();
    }
    for name in MEMBERS {
        connected(fleet, name, false).await;
    }
    let suspects = |server: &crds::v1alpha1::InferenceServer| {
        MEMBERS.iter().all(|name| {
            status_of(server, name).is_some_and(|status| status.reason == "FleetSilent")
        })
    };
    let seen = until_server(fleet, namespace, suspects).await;
    let status = seen.status.unwrap();
    assert!(e2e::installed::is_true(&status.conditions, "Available"));
    // Only sessions are cut: requests go from gateway to gateway.
    answer(fleet, namespace).await.unwrap();
    for member in members(fleet) {
        member.restore_link().await.unwrap();
    }
    for name in MEMBERS {
        connected(fleet, name, true).await;
    }
    fleet.ready(namespace, "hello").await.unwrap();
}

async fn makes_nothing_unready(name: &str, cut: Cut) {
    let fleet = alone().await;
    namespace(&fleet, name).await;
    let mut wanted = server(name, &MEMBERS);
    // The grace is the usual one: an agent that has been refused for a while dials again after 30 s at most.
    // A probe that is answered would say that it is only the agents that can't be heard.
    wanted.spec.endpoints.probe = ProbePolicy::Off;
    fleet.apply(&wanted).await.unwrap();
    fleet.ready(name, "hello").await.unwrap();
    let record = Record::start(fleet.hub(), name).await;
    assert_eq!(record.before.len(), 3);
    isolate(&fleet, name, cut).await;
    assert_eq!(record.changes(), []);
}

#[tokio::test]
async fn a_hub_whose_sessions_are_all_reset_at_once_makes_nothing_unready() {
    makes_nothing_unready("reset", Cut::Loudly).await;
}

#[tokio::test]
async fn a_hub_that_hears_nothing_any_more_makes_nothing_unready() {
    makes_nothing_unready("unheard", Cut::BothWays).await;
}
