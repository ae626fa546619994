//! Routings that break one rule each.

use std::sync::atomic::{AtomicU32, Ordering};

use agent_plan::{
    PathRouting, PlacementInput, Refusal, Routing,
    contract::{self, Rule},
};
use crds::condition::{BACKEND_PROVISION, TRAFFIC_ROUTE_PROVISION, Verdict};
use gateway_api::httproutes::HttpRoute;
use kube::ResourceExt;

use super::assert_broken;

type Render = fn(&PlacementInput<'_>, Vec<HttpRoute>) -> Result<Vec<HttpRoute>, Refusal>;
type Observe = fn(&PlacementInput<'_>, Verdict) -> Verdict;

/// The routing that is here, with one change.
#[derive(Debug)]
struct Changed {
    render: Render,
    observe: Observe,
}

impl Routing for Changed {
    fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<HttpRoute>, Refusal> {
        (self.render)(input, PathRouting.render(input)?)
    }

    fn observe(&self, input: &PlacementInput<'_>) -> Verdict {
        (self.observe)(input, PathRouting.observe(input))
    }
}

fn assert_refused(changes: &[(Rule, Render)]) {
    assert_broken(changes.iter().map(|(rule, render)| {
        let changed = Changed {
            render: *render,
            observe: |_, verdict| verdict,
        };
        (*rule, contract::routing(&changed, &contract::placement()))
    }));
}

fn assert_misjudged(changes: &[(Rule, Observe)]) {
    assert_broken(changes.iter().map(|(rule, observe)| {
        let changed = Changed {
            render: |_, routes| Ok(routes),
            observe: *observe,
        };
        (*rule, contract::routing(&changed, &contract::placement()))
    }));
}

static ASKED: AtomicU32 = AtomicU32::new(0);

fn annotated(mut routes: Vec<HttpRoute>, text: String) -> Vec<HttpRoute> {
    let annotations = routes[0].annotations_mut();
    annotations.insert("example.com/noted".to_owned(), text);
    routes
}

#[test]
fn routes_that_break_a_rule_are_refused() {
    assert_refused(&[
        (Rule::SameAnswer, |_, routes| {
            let asked = ASKED.fetch_add(1, Ordering::Relaxed);
            Ok(annotated(routes, asked.to_string()))
        }),
        (Rule::StatusFree, |input, routes| {
            Ok(annotated(routes, input.routes.len().to_string()))
        }),
        (Rule::Owner, |_, mut routes| {
            routes[0].metadata.owner_references = None;
            Ok(routes)
        }),
        (Rule::Labels, |_, mut routes| {
            routes[0].metadata.labels = None;
            Ok(routes)
        }),
        (Rule::Namespace, |_, mut routes| {
            routes[0].metadata.namespace = Some("infra".to_owned());
            Ok(routes)
        }),
        (Rule::Name, |_, mut routes| {
            routes[0].metadata.name = Some("traffic-llama".to_owned());
            Ok(routes)
        }),
        (Rule::DistinctIds, |_, mut routes| {
            routes.push(routes[0].clone());
            Ok(routes)
        }),
        (Rule::Served, |_, _| {
            Err(Refusal::new("Never", "there is no way in"))
        }),
        (Rule::Explained, |_, _| Err(Refusal::new("", "no"))),
    ]);
}

#[test]
fn a_refusal_where_the_gateway_is_missing_needs_its_words_too() {
    #[derive(Debug)]
    struct Mute;
    impl Routing for Mute {
        fn render(&self, input: &PlacementInput<'_>) -> Result<Vec<HttpRoute>, Refusal> {
            PathRouting
                .render(input)
                .map_err(|refusal| Refusal::new(refusal.reason, ""))
        }

        fn observe(&self, input: &PlacementInput<'_>) -> Verdict {
            PathRouting.observe(input)
        }
    }
    let result = contract::routing(&Mute, &contract::placement());
    assert_broken([(Rule::Explained, result)]);
}

#[test]
fn verdicts_that_break_a_rule_are_refused() {
    assert_misjudged(&[
        (Rule::SameAnswer, |_, verdict| Verdict {
            message: ASKED.fetch_add(1, Ordering::Relaxed).to_string(),
            ..verdict
        }),
        (Rule::VerdictKind, |_, verdict| Verdict {
            kind: BACKEND_PROVISION,
            ..verdict
        }),
        (Rule::Explained, |_, verdict| Verdict {
            message: String::new(),
            ..verdict
        }),
        (Rule::NotWell, |_, _| {
            Verdict::yes(TRAFFIC_ROUTE_PROVISION, "Provisioned", "as ever")
        }),
        (Rule::NotWell, |input, verdict| {
            if input.routes.is_empty() {
                return verdict;
            }
            Verdict::yes(TRAFFIC_ROUTE_PROVISION, "Provisioned", "it is there")
        }),
        (Rule::Served, |_, _| {
            Verdict::unknown(TRAFFIC_ROUTE_PROVISION, "RoutePending", "as ever")
        }),
    ]);
}
