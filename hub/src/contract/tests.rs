//! Each rule is broken by somebody.

use std::sync::Mutex;

use crds::{ClusterName, condition::Verdict, v1alpha1::InferenceServerStatus};
use futures::future::BoxFuture;
use gateway_api::httproutes::HttpRoute;
use hub_plan::memory::PublishedEndpoint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use operator::conditions::{ConditionActor, Failure, Plugin, Ran};

use super::*;
use crate::{
    apply::Applier,
    clock::Clock,
    endpoints::{DiscoverySlices, Publication, Publisher, Synced},
    fake::FakeApi,
    metrics::Metrics,
    routing::{GatewayRoutes, RouteIntent, Routing},
    server::{
        actors::Actor,
        plugin::{OwnSteps, ServerPlugin, Steps},
    },
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

/// The hub's own steps over an API server that remembers.
fn own_steps(api: &FakeApi) -> OwnSteps {
    let (caches, clock) = (api.caches(), Clock::start());
    let metrics = Arc::new(Metrics::new(clock));
    let applier = Arc::new(Applier::new(api.client(), clock, metrics));
    let publisher = DiscoverySlices::new(caches.clone(), Arc::clone(&applier), clock);
    let publisher: Arc<dyn Publisher> = Arc::new(publisher);
    let routing: Arc<dyn Routing> = Arc::new(GatewayRoutes::new(caches, applier));
    OwnSteps::new(&publisher, &routing)
}

#[tokio::test]
async fn the_hubs_own_steps_keep_their_contract() {
    let api = FakeApi::default();
    let own = own_steps(&api);
    for steps in [own.creation(), own.deletion()] {
        assert_eq!(operator::conditions::check(steps.actors()), Ok(()));
    }
    let server = server("team", "llama");
    server_plugin(&own, &server, || api.objects())
        .await
        .unwrap();
    let names = api.names();
    assert!(
        names.contains(&"llama-endpoints".to_owned())
            && names.contains(&"llama-discovery-0".to_owned()),
        "{names:?}"
    );
}

/// One thing that a plugin does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slip {
    None,
    CountsItsWords,
    AddsToWhatItSaid,
    CreatesAmiss,
    DeletesAmiss,
}

/// A step that writes when it is asked, and a last word of its own.
struct Slipping {
    slip: Slip,
    sound: Steps,
    slips: Steps,
    words: Mutex<u32>,
}

struct Asked(Arc<Mutex<u32>>, bool);

impl ConditionActor<Pass> for Asked {
    fn condition_type(&self) -> &'static str {
        "Asked"
    }

    fn retrieve<'a>(
        &'a self,
        _: &'a Pass,
        _: Option<&'a Condition>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        let Self(writes, slips) = self;
        *writes.lock().unwrap() += u32::from(*slips);
        let verdict = Verdict::yes("Asked", "Done", "");
        Box::pin(std::future::ready(Ok(verdict)))
    }

    fn run<'a>(&'a self, _: &'a Pass, found: Verdict) -> BoxFuture<'a, Result<Ran, Failure>> {
        Box::pin(std::future::ready(Ok(Ran::waits(found))))
    }
}

impl ServerPlugin for Slipping {
    fn creation(&self) -> &Steps {
        if self.slip == Slip::CreatesAmiss {
            return &self.slips;
        }
        &self.sound
    }

    fn deletion(&self) -> &Steps {
        if self.slip == Slip::DeletesAmiss {
            return &self.slips;
        }
        &self.sound
    }

    fn finish(&self, pass: &Pass, status: &mut InferenceServerStatus) {
        let mut words = self.words.lock().unwrap();
        *words += 1;
        if self.slip == Slip::CountsItsWords {
            status.summary.reason = words.to_string();
        }
        if self.slip == Slip::AddsToWhatItSaid {
            let before = pass.server.status.as_ref();
            let before = before.map_or("", |status| &status.summary.reason);
            status.summary.reason = format!("{before}again");
        }
    }
}

#[tokio::test]
async fn a_plugin_that_does_one_thing_wrong_breaks_the_rule_that_says_so() {
    let asked = Some("retrieve has no side effect");
    for (slip, rule) in [
        (Slip::None, None),
        (
            Slip::CountsItsWords,
            Some("finish says the same of the same"),
        ),
        (
            Slip::AddsToWhatItSaid,
            Some("a status that finish gave stays when it is written"),
        ),
        (Slip::CreatesAmiss, asked),
        (Slip::DeletesAmiss, asked),
    ] {
        let writes = Arc::<Mutex<u32>>::default();
        let steps = |slips| {
            let actor: Actor = Arc::new(Asked(Arc::clone(&writes), slips));
            Steps::new(vec![actor]).unwrap()
        };
        let plugin = Slipping {
            slip,
            sound: steps(false),
            slips: steps(true),
            words: Mutex::default(),
        };
        let world = || *writes.lock().unwrap();
        let kept = server_plugin(&plugin, &server("team", "llama"), world).await;
        assert_eq!(kept.err().map(|breach| breach.rule), rule, "{slip:?}");
    }
}
