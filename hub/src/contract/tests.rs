//! Each rule is broken by somebody.

use std::sync::Mutex;

use crds::ClusterName;
use futures::future::BoxFuture;
use gateway_api::httproutes::HttpRoute;
use hub_plan::memory::PublishedEndpoint;
use kube::ResourceExt;
use operator::conditions::Failure;

use super::*;
use crate::{
    endpoints::{Publication, Publisher, Synced},
    routing::{RouteIntent, Routing},
};

/// One thing that is done wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    KeepsWhatIsDeleted,
    ForgetsWhatIsThere,
    IsAlwaysSynced,
    IsNeverSynced,
    IsNeverDeleted,
    IsAlwaysDeleted,
    WritesEachTime,
    KnowsNoNamespace,
    KnowsNoUid,
    KnowsNoName,
    LeadsNowhere,
}

/// Keeps what it is given in memory.
struct Store<T> {
    wrong: Wrong,
    there: Mutex<BTreeMap<String, T>>,
}

impl<T: Clone + Default + PartialEq> Store<T> {
    fn new(wrong: Wrong) -> Self {
        let there = Mutex::default();
        Self { wrong, there }
    }

    fn key(&self, server: &InferenceServer) -> String {
        let (namespace, name) = (server.namespace().unwrap(), server.name_any());
        let uid = server.uid().unwrap();
        if self.wrong == Wrong::KnowsNoNamespace {
            return name;
        }
        if self.wrong == Wrong::KnowsNoUid {
            return format!("{namespace}/{name}");
        }
        if self.wrong == Wrong::KnowsNoName {
            return if uid.starts_with("uid-of-another") {
                uid
            } else {
                namespace
            };
        }
        format!("{namespace}/{name}/{uid}")
    }

    fn read(&self, server: &InferenceServer) -> T {
        let there = self.there.lock().unwrap();
        there.get(&self.key(server)).cloned().unwrap_or_default()
    }

    fn is(&self, server: &InferenceServer, wanted: &T) -> bool {
        self.wrong != Wrong::IsNeverSynced
            && (self.wrong == Wrong::IsAlwaysSynced || self.read(server) == *wanted)
    }

    /// What it came to: nothing is kept of what is empty.
    fn put(&self, server: &InferenceServer, wanted: T) -> BoxFuture<'_, Result<Synced, Failure>> {
        let empty = wanted == T::default();
        let mut wrote = self.read(server) != wanted || self.wrong == Wrong::WritesEachTime;
        if empty && self.wrong == Wrong::KeepsWhatIsDeleted {
            wrote = false;
        } else if empty {
            self.there.lock().unwrap().remove(&self.key(server));
        } else {
            self.there.lock().unwrap().insert(self.key(server), wanted);
        }
        Box::pin(std::future::ready(Ok(Synced { wrote, wait: None })))
    }
}

type Endpoints = BTreeMap<ClusterName, PublishedEndpoint>;

impl Publisher for Store<Endpoints> {
    fn get(&self, server: &InferenceServer) -> Endpoints {
        if self.wrong == Wrong::ForgetsWhatIsThere {
            return Endpoints::new();
        }
        self.read(server)
    }

    fn is_synced(&self, publication: &Publication<'_>) -> bool {
        self.is(publication.server, &publication.plan.endpoints)
    }

    fn is_published(&self, publication: &Publication<'_>) -> bool {
        self.wrong != Wrong::LeadsNowhere && self.is_synced(publication)
    }

    fn sync<'a>(
        &'a self,
        publication: &'a Publication<'a>,
    ) -> BoxFuture<'a, Result<Synced, Failure>> {
        self.put(publication.server, publication.plan.endpoints.clone())
    }

    fn delete<'a>(&'a self, server: &'a InferenceServer) -> BoxFuture<'a, Result<Synced, Failure>> {
        self.put(server, Endpoints::new())
    }

    fn is_deleted(&self, server: &InferenceServer) -> bool {
        self.wrong == Wrong::IsAlwaysDeleted
            || (self.wrong != Wrong::IsNeverDeleted && self.read(server).is_empty())
    }
}

impl Routing for Store<Vec<HttpRoute>> {
    fn is_synced(&self, intent: &RouteIntent<'_>) -> bool {
        self.is(intent.server, &intent.routes.to_vec())
    }

    fn sync<'a>(&'a self, intent: &'a RouteIntent<'a>) -> BoxFuture<'a, Result<Synced, Failure>> {
        self.put(intent.server, intent.routes.to_vec())
    }
}

const APART: &str = "get gives nothing of a server of another namespace or UID";
const DELETED: &str = "delete comes to an end that is_deleted tells";

#[tokio::test(start_paused = true)]
async fn a_publisher_that_does_one_thing_wrong_breaks_the_rule_that_says_so() {
    let servers = ["a", "b"].map(|name| server("team", name));
    for (wrong, rule) in [
        (Wrong::Nothing, None),
        (Wrong::KeepsWhatIsDeleted, Some(DELETED)),
        (
            Wrong::ForgetsWhatIsThere,
            Some("get gives back what sync put"),
        ),
        (
            Wrong::IsAlwaysSynced,
            Some("is_synced is not said of what was not published"),
        ),
        (Wrong::IsNeverSynced, Some("sync comes to an end")),
        (Wrong::IsNeverDeleted, Some(DELETED)),
        (
            Wrong::IsAlwaysDeleted,
            Some("is_deleted is not said of what is published"),
        ),
        (Wrong::WritesEachTime, Some("sync is idempotent")),
        (Wrong::KnowsNoNamespace, Some(APART)),
        (Wrong::KnowsNoUid, Some(APART)),
        (
            Wrong::LeadsNowhere,
            Some("routes may lead to what is published"),
        ),
    ] {
        let store: Store<Endpoints> = Store::new(wrong);
        let kept = publisher(&store, servers.each_ref(), |_| Observed::default()).await;
        assert_eq!(kept.err().map(|breach| breach.rule), rule, "{wrong:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_routing_that_does_one_thing_wrong_breaks_the_rule_that_says_so() {
    let servers = ["a", "b"].map(|name| server("team", name));
    let apart = Some("sync touches no server of another namespace or UID");
    for (wrong, rule) in [
        (Wrong::Nothing, None),
        (
            Wrong::KeepsWhatIsDeleted,
            Some("sync comes to an end that is_synced tells"),
        ),
        (
            Wrong::IsAlwaysSynced,
            Some("is_synced is not said of what was not synced"),
        ),
        (
            Wrong::IsNeverSynced,
            Some("sync comes to an end that is_synced tells"),
        ),
        (Wrong::WritesEachTime, Some("sync is idempotent")),
        (Wrong::KnowsNoNamespace, apart),
        (Wrong::KnowsNoUid, apart),
        (Wrong::KnowsNoName, Some("sync touches no other server")),
    ] {
        let store: Store<Vec<HttpRoute>> = Store::new(wrong);
        let kept = routing(&store, servers.each_ref(), |_| Observed::default()).await;
        assert_eq!(kept.err().map(|breach| breach.rule), rule, "{wrong:?}");
    }
}
