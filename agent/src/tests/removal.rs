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
