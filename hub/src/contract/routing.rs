//! What a routing has to keep.

use std::collections::BTreeMap;

use crds::v1alpha1::InferenceServer;
use hub_plan::{Plan, facts::Observed};

use super::{
    Breach, TURNS_MAX, holds, pause,
    sample::{self, Sample},
    strangers,
};
use crate::{
    endpoints::Synced,
    routing::{RouteIntent, Routing},
};

/// Keeps the routes of two servers, and takes them away. `observed` is what the hub's own caches hold of a server: nothing, for
/// who keeps them elsewhere.
///
/// # Errors
/// The first rule that it breaks.
pub async fn routing(
    routing: &dyn Routing,
    [server, other]: [&InferenceServer; 2],
    observed: impl Fn(&InferenceServer) -> Observed,
) -> Result<(), Breach> {
    let plan = |server: &InferenceServer, sample| {
        sample::plan(server, sample, observed(server), BTreeMap::new())
    };
    for of in [server, other] {
        sync(routing, of, &|| plan(of, Sample::Both)).await?;
    }
    stays(routing, server, &plan(server, Sample::Both))?;
    for stranger in strangers(server) {
        let gone = plan(&stranger, Sample::None);
        let gone = intent(&stranger, &gone);
        let synced = routing.sync(&gone).await;
        let there = routing.is_synced(&intent(server, &plan(server, Sample::Both)));
        holds(
            "sync touches no server of another namespace or UID",
            synced.is_ok() && there,
            synced,
        )?;
    }
    sync(routing, server, &|| plan(server, Sample::None)).await?;
    stays(routing, other, &plan(other, Sample::Both))?;
    sync(routing, other, &|| plan(other, Sample::None)).await
}

fn intent<'a>(server: &'a InferenceServer, plan: &'a Plan) -> RouteIntent<'a> {
    RouteIntent {
        server,
        routes: &plan.routes,
        surplus: &plan.surplus_routes,
    }
}

/// Another server was synced since.
fn stays(routing: &dyn Routing, server: &InferenceServer, plan: &Plan) -> Result<(), Breach> {
    let there = routing.is_synced(&intent(server, plan));
    holds("sync touches no other server", there, &plan.routes)
}

/// Makes the routes what is planned, which they are not yet, in as many goes as the routing asks for.
async fn sync(
    routing: &dyn Routing,
    server: &InferenceServer,
    plan: &impl Fn() -> Plan,
) -> Result<(), Breach> {
    for turn in 0..TURNS_MAX {
        let plan = plan();
        let wanted = intent(server, &plan);
        let is_synced = routing.is_synced(&wanted);
        holds(
            "is_synced is not said of what was not synced",
            turn > 0 || !is_synced,
            wanted.routes,
        )?;
        let synced = routing.sync(&wanted).await;
        holds("sync makes what is wanted", synced.is_ok(), &synced)?;
        let Synced { wrote, wait } = synced.unwrap_or_default();
        if is_synced {
            return holds("sync is idempotent", !wrote, wanted.routes);
        }
        pause(wait).await;
    }
    holds("sync comes to an end that is_synced tells", false, server)
}
