//! What a publisher has to keep.

use std::collections::BTreeMap;

use crds::v1alpha1::InferenceServer;
use hub_plan::{Plan, facts::Observed};

use super::{
    Breach, TURNS_MAX, holds, pause, same,
    sample::{self, Sample},
    strangers,
};
use crate::endpoints::{Publication, Publisher};

/// Publishes two servers, changes one, and takes both away. Both target `east` and `west`. `observed` is what the hub's own
/// caches hold of a server: nothing, for who publishes elsewhere.
///
/// # Errors
/// The first rule that the publisher breaks.
pub async fn publisher(
    publisher: &dyn Publisher,
    [server, other]: [&InferenceServer; 2],
    observed: impl Fn(&InferenceServer) -> Observed,
) -> Result<(), Breach> {
    publisher.loaded().await;
    let plan = |server: &InferenceServer, sample| {
        sample::plan(server, sample, observed(server), publisher.get(server))
    };
    same(
        "get is empty where nothing was published",
        &publisher.get(server),
        &BTreeMap::new(),
    )?;
    for of in [server, other] {
        sync(publisher, of, &|| plan(of, Sample::Both)).await?;
    }
    apart(publisher, server).await?;
    sync(publisher, server, &|| plan(server, Sample::Changed)).await?;
    sync(publisher, server, &|| plan(server, Sample::One)).await?;
    let there = publisher.get(other);
    holds("sync touches no other server", there.len() == 2, &there)?;
    delete(publisher, server).await?;
    let there = publisher.get(other);
    holds("delete touches no other server", there.len() == 2, &there)?;
    delete(publisher, other).await
}

/// Publishes what is planned, which is not published yet, in as many goes as the publisher asks for.
async fn sync(
    publisher: &dyn Publisher,
    server: &InferenceServer,
    plan: &impl Fn() -> Plan,
) -> Result<(), Breach> {
    for turn in 0..TURNS_MAX {
        let plan = plan();
        let publication = Publication {
            server,
            plan: &plan,
            routed: true,
        };
        let is_synced = publisher.is_synced(&publication);
        holds(
            "is_synced is not said of what was not published",
            turn > 0 || !is_synced,
            &plan.endpoints,
        )?;
        if is_synced {
            return published(publisher, &publication).await;
        }
        let synced = publisher.sync(&publication).await;
        holds("sync publishes what is planned", synced.is_ok(), &synced)?;
        pause(synced.unwrap_or_default().wait).await;
    }
    holds("sync comes to an end", false, publisher.get(server))
}

/// What holds once all of it is published.
async fn published(publisher: &dyn Publisher, publication: &Publication<'_>) -> Result<(), Breach> {
    let Publication { server, plan, .. } = *publication;
    let there = publisher.get(server);
    same("get gives back what sync put", &there, &plan.endpoints)?;
    let leads_there = publisher.is_published(publication);
    holds("routes may lead to what is published", leads_there, &there)?;
    let is_deleted = publisher.is_deleted(server);
    holds(
        "is_deleted is not said of what is published",
        !is_deleted,
        &there,
    )?;
    let again = publisher.sync(publication).await;
    let wrote = again.map(|synced| synced.wrote);
    same("sync is idempotent", &wrote, &Ok(false))
}

/// Deletes what was published, in as many goes as the publisher asks for.
async fn delete(publisher: &dyn Publisher, server: &InferenceServer) -> Result<(), Breach> {
    for _ in 0..TURNS_MAX {
        let deleted = publisher.delete(server).await;
        holds(
            "delete takes away what was published",
            deleted.is_ok(),
            &deleted,
        )?;
        if publisher.is_deleted(server) {
            let there = publisher.get(server);
            same("get is empty after delete", &there, &BTreeMap::new())?;
            let again = publisher.delete(server).await;
            let wrote = again.map(|deleted| deleted.wrote);
            return same("delete is idempotent", &wrote, &Ok(false));
        }
        pause(deleted.unwrap_or_default().wait).await;
    }
    let there = publisher.get(server);
    holds("delete comes to an end that is_deleted tells", false, there)
}

/// Nothing of a server is another's of its name.
async fn apart(publisher: &dyn Publisher, server: &InferenceServer) -> Result<(), Breach> {
    for stranger in strangers(server) {
        same(
            "get gives nothing of a server of another namespace or UID",
            &publisher.get(&stranger),
            &BTreeMap::new(),
        )?;
        let deleted = publisher.delete(&stranger).await;
        let there = publisher.get(server);
        holds(
            "delete touches no server of another namespace or UID",
            deleted.is_ok() && there.len() == 2,
            (deleted, there),
        )?;
    }
    Ok(())
}
