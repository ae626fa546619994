//! HTTPRoutes in an API server.

use serde_json::json;

use super::*;
use crate::{
    clock::Clock,
    contract,
    fake::{FakeApi, ROUTES},
    metrics::Metrics,
};

#[tokio::test]
async fn a_route_that_was_told_to_go_keeps_the_others_from_nothing() {
    let server = contract::server("team", "llama");
    let api = FakeApi::default();
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "llama-discovery-hostnames-0"}, "spec": {},
    });
    api.put_owned(&server, ROUTES, route);
    let (caches, clock) = (api.caches(), Clock::start());
    let metrics = Arc::new(Metrics::new(clock));
    let applier = Arc::new(Applier::new(api.client(), clock, metrics));
    let routing = GatewayRoutes::new(caches.clone(), applier);
    for is_synced in [false, true] {
        let plan = contract::planned(&server, caches.discovery(&server));
        let intent = RouteIntent {
            server: &server,
            routes: &plan.routes,
            surplus: &plan.surplus_routes,
        };
        assert_eq!(routing.is_synced(&intent), is_synced);
        routing.sync(&intent).await.unwrap();
    }
}
