//! What the hub takes back goes, in its order, or is let go.

use super::*;

fn tombstone(uid: &str, orphan: bool) -> Body {
    Body::Tombstone(v1::Tombstone {
        key: Some(key().to_wire()),
        uid: uid.to_owned(),
        orphan,
    })
}

#[tokio::test]
async fn a_tombstone_deletes_its_own_placement_with_all_that_it_owns() {
    let agent = Agent::new();
    agent.hear_desired();
    agent.reconcile().await;
    agent.server.writes();
    agent.said();

    agent.hear(tombstone("another", false));
    agent.reconcile().await;
    assert_eq!(agent.server.writes(), NOTHING);

    let removed =
        |said: &Said| matches!(said, Said::Removed(removed) if removed.uid == "server-uid");
    agent.hear(tombstone("server-uid", false));
    agent.reconcile().await;
    let route = agent.server.writes();
    assert_eq!(route.len(), 1, "{route:?}");
    assert!(
        route[0].starts_with("DELETE httproutes llama-traffic-0 uid="),
        "routes go first: {route:?}"
    );
    assert!(!agent.said().iter().any(removed));

    // When the watch says that the route is gone, which here is another process that finds none.
    let agent = agent.with_the_placement_alone();
    agent.hear(tombstone("server-uid", false));
    agent.reconcile().await;
    assert_eq!(
        agent.server.writes(),
        ["DELETE serverplacements llama uid=uid-1 Foreground"]
    );
    assert!(!agent.said().iter().any(removed));

    // When the watch says that it is gone, which here is another process that finds nothing.
    let agent = Agent::over(agent.server, Caches::default());
    agent.hear(tombstone("server-uid", false));
    agent.reconcile().await;
    assert!(agent.said().iter().any(removed));
}

#[tokio::test]
async fn routes_of_a_kind_that_is_gone_hold_no_removal() {
    let agent = Agent::new();
    agent.hear_desired();
    agent.reconcile().await;
    agent.server.writes();
    // This API server has no HTTPRoutes to list.
    let routes = agent.caches.routes.clone();
    let mut installed = routes.installed();
    let api = kube::Api::all(agent.server.client());
    tokio::select! {
        () = routes.run(api, kube::runtime::watcher::Config::default(), |_| {}) => panic!("the watch has ended"),
        gone = installed.wait_for(|installed| !installed) => drop(gone.unwrap()),
    }
    agent.hear(tombstone("server-uid", false));
    agent.reconcile().await;
    let writes = agent.server.writes();
    assert!(
        writes[0].starts_with("DELETE httproutes "),
        "it may only seem to be gone: {writes:?}"
    );
    assert_eq!(
        writes[1..],
        ["DELETE serverplacements llama uid=uid-1 Foreground"]
    );
}

#[tokio::test]
async fn a_placement_that_is_let_go_leaves_what_it_owns_without_a_mark() {
    let agent = Agent::new();
    agent.hear_desired();
    agent.reconcile().await;
    let made = agent.server.writes().len() - 1;
    agent.hear(tombstone("server-uid", true));
    agent.reconcile().await;
    let writes = agent.server.writes();
    let (last, disowned) = writes.split_last().unwrap();
    assert_eq!(last, "DELETE serverplacements llama uid=uid-1 Orphan");
    assert_eq!(disowned.len(), made, "{disowned:?}");
    for line in disowned {
        let marks = [
            r#""ownerReferences":[]"#,
            r#""app.kubernetes.io/managed-by":null"#,
            r#""inferfleet.io/applied-hash":null"#,
        ];
        for mark in marks {
            assert!(line.starts_with("MERGE ") && line.contains(mark), "{line}");
        }
    }
}

#[tokio::test]
async fn a_placement_whose_write_has_no_known_end_is_not_said_to_be_gone_while_it_is_there() {
    let agent = Agent::new();
    agent.server.lose_answers("ServerPlacement");
    agent.hear_desired();
    assert_eq!(agent.reconcile().await.0, Next::Retry);
    agent.server.writes();
    agent.said();
    agent.hear(tombstone("server-uid", false));
    // The watch has told of nothing, and neither can the API server.
    agent.server.refuse_reads(503);
    assert_eq!(agent.reconcile().await.0, Next::Retry);
    assert_eq!(agent.said(), NOTHING_SAID);
    agent.server.refuse_reads(200);
    assert_eq!(agent.reconcile().await.0, Next::Rest);
    assert_eq!(
        agent.server.writes(),
        ["DELETE serverplacements llama uid=uid-1 Foreground"]
    );
    let removed = |said: &Said| matches!(said, Said::Removed(_));
    assert!(!agent.said().iter().any(removed));
}

#[tokio::test]
async fn a_placement_whose_write_has_not_come_about_is_gone() {
    let agent = Agent::new();
    agent.server.refuse("ServerPlacement", 500);
    agent.hear_desired();
    assert_eq!(agent.reconcile().await.0, Next::Retry);
    agent.hear(tombstone("server-uid", false));
    assert_eq!(agent.reconcile().await.0, Next::Rest);
    let removed = |said: &Said| matches!(said, Said::Removed(_));
    assert!(agent.said().iter().any(removed));
}

#[tokio::test]
async fn a_placement_that_appears_after_it_was_said_to_be_gone_is_held() {
    let agent = Agent::new();
    agent.hear_desired();
    agent.reconcile().await;
    let object = operator::cache::ObjectKey::new("team-a", "llama");
    let late = agent.caches.placements.get(&object).unwrap();
    // Another process, which was told to remove it before it came about.
    let agent = Agent::over(agent.server, Caches::default());
    agent.hear_desired();
    agent.hear(tombstone("server-uid", false));
    agent.reconcile().await;
    assert_eq!(agent.held(), NOTHING);
    agent.caches.placements.note((*late).clone());
    agent.reconcile().await;
    assert_eq!(agent.held(), ["server-uid"]);
}
