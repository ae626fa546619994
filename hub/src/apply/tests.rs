//! Writes to an API server that refuses what a test tells it to.

use axum::http::{Method, StatusCode};
use serde_json::json;

use super::*;
use crate::{
    contract,
    fake::{FakeApi, SERVICES},
};

fn applier(api: &FakeApi) -> Applier {
    let clock = Clock::start();
    Applier::new(api.client(), clock, Arc::new(Metrics::new(clock)))
}

fn references(caches: &Caches) -> Vec<Reference> {
    let services = caches.services.all().into_values();
    services
        .map(|service| Reference::service(&service.metadata))
        .collect()
}

#[tokio::test]
async fn an_object_whose_deletion_meets_a_conflict_is_not_taken_for_one_that_goes() {
    let api = FakeApi::default();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "llama-endpoints"},
    });
    api.put_owned(&contract::server("team", "llama"), SERVICES, service);
    let caches = api.caches();
    let references = references(&caches);
    api.refuse(Method::DELETE, "llama-endpoints", StatusCode::CONFLICT);
    let mut written = Written::default();
    let applier = applier(&api);
    applier
        .delete_all(&caches, "team", &references, &mut written)
        .await;
    let failures = written.failures.iter().map(|failure| failure.passing);
    assert_eq!(failures.collect::<Vec<_>>(), [true]);
    let there = caches.services.all().into_values().next().unwrap();
    assert!(there.metadata.deletion_timestamp.is_none());

    api.relent();
    let mut written = Written::default();
    applier
        .delete_all(&caches, "team", &references, &mut written)
        .await;
    assert_eq!(written.count, 1);
    assert_eq!(api.names(), [""; 0]);
}

#[test]
fn of_several_refusals_the_same_one_is_told_whichever_came_first() {
    let failure = |message: &str, passing| Failure {
        reason: "ApplyRefused".to_owned(),
        message: message.to_owned(),
        passing,
        again: Again::OnEvent,
    };
    let failures = [failure("b", false), failure("a", true), failure("a", false)];
    let told = |order: [usize; 3]| {
        let written = Written {
            failures: order.map(|index| failures[index].clone()).into(),
            ..Written::default()
        };
        written.synced(None).unwrap_err().message
    };
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        assert_eq!(told(order), "a (2 more were not taken)");
    }
}
