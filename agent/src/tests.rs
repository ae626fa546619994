//! From the hub's words to what the API server is asked and the hub is told, with an API server that only remembers.

mod api_server;
mod hub;
mod link;
mod namespaces;
mod removal;
mod serving;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use agent_plan::Drivers;
use crds::v1alpha1::GatewayReference;
use operator::wake::{Next, Wakes};
use proto::{
    Hash, PlacementKey,
    session::{AgentEvent, AgentInfo, AgentMachine},
    v1::{self, agent_message::Body as Said, hub_message::Body},
};
use serde_json::{Value, json};

use self::api_server::ApiServer;
use crate::{
    link::Machine,
    observe::Caches,
    placement::{Placements, Unanswered, Wishes},
    serving::Serving,
};

const NOTHING: [&str; 0] = [];
const NOTHING_SAID: [Said; 0] = [];
/// What time it is, since 1970.
const NOW_SECONDS: u64 = 1_000;

/// An agent without its tasks: what they would do is done by hand.
struct Agent {
    server: ApiServer,
    caches: Caches,
    machine: Arc<Machine>,
    wishes: Arc<Wishes>,
    placements: Placements,
    serving: Serving,
}

fn key() -> PlacementKey {
    PlacementKey::new("team-a", "llama").unwrap()
}

fn body() -> String {
    let content = json!({
        "images": [{"image": "echo:1"}],
        "ports": [{"name": "http", "port": 8000}],
        "probes": {"readiness": {"path": "/ready"}},
    });
    let runtime = json!({"profile": "echo", "content": content});
    json!({"replicas": 1, "runtime": runtime, "model": {"uri": "hf://m"}}).to_string()
}

fn info() -> AgentInfo {
    AgentInfo {
        agent_version: String::new(),
        kubernetes_version: String::new(),
        cluster_uid: String::new(),
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

impl Agent {
    /// The namespace and the Gateway exist, a session is open, and nothing is held.
    fn new() -> Self {
        let agent = Self::over(ApiServer::default(), Caches::default());
        agent.caches.namespaces.note(read(
            json!({"metadata": {"name": "team-a", "uid": "n", "resourceVersion": "1"}}),
        ));
        agent.caches.gateways.note(read(json!({
            "metadata": {"name": "public", "namespace": "infra", "uid": "g", "resourceVersion": "1"},
            "spec": {"gatewayClassName": "any", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
            "status": {"addresses": [{"value": "203.0.113.9"}]},
        })));
        agent
    }

    /// A process that finds this cluster.
    fn over(server: ApiServer, caches: Caches) -> Self {
        let machine = Arc::new(Machine::new(
            AgentMachine::new(crate::run::held(&caches)),
            crate::run::start_of_time(),
        ));
        let wishes = Arc::new(Wishes::new(Arc::new(Wakes::default())));
        let client = server.client();
        machine.with(|machine| machine.connect(&info(), Duration::ZERO));
        let agent = Self {
            placements: Placements {
                client: client.clone(),
                caches: caches.clone(),
                machine: Arc::clone(&machine),
                wishes: Arc::clone(&wishes),
                create_namespaces: false,
                unanswered: Unanswered::default(),
            },
            serving: Serving {
                client,
                caches: caches.clone(),
                machine: Arc::clone(&machine),
                default_gateway: Some(GatewayReference {
                    namespace: "infra".to_owned(),
                    name: "public".to_owned(),
                    listener: None,
                }),
                drivers: Drivers::default(),
                clock: || SystemTime::UNIX_EPOCH + Duration::from_secs(NOW_SECONDS),
            },
            server,
            caches,
            machine,
            wishes,
        };
        agent.hear(Body::Welcome(v1::Welcome {
            protocol: 1,
            heartbeat_ms: 1_000_000,
            silence_ms: 2_000_000,
            hub_version: String::new(),
        }));
        agent
    }

    /// A process that finds the placement, and nothing of what it owned.
    fn with_the_placement_alone(self) -> Self {
        let caches = Caches::default();
        let object = operator::cache::ObjectKey::new("team-a", "llama");
        let placement = self.caches.placements.get(&object).unwrap();
        caches.placements.note((*placement).clone());
        Self::over(self.server, caches)
    }

    fn hear(&self, body: Body) {
        let message = v1::HubMessage {
            session: 1,
            body: Some(body),
        };
        let take = |event: AgentEvent| self.wishes.take(event);
        self.machine.with(|machine| {
            let events = machine.receive(message, Duration::ZERO).unwrap();
            events.into_iter().for_each(take);
        });
    }

    fn hear_desired(&self) {
        self.hear_generation(1, &body());
    }

    fn hear_generation(&self, generation: u64, body: &str) {
        self.hear(Body::Desired(v1::Desired {
            key: Some(key().to_wire()),
            uid: "server-uid".to_owned(),
            generation,
            hash: Hash::of(body.as_bytes()).to_wire(),
            body: body.to_owned().into(),
        }));
    }

    /// The UIDs of what a new session would say that the cluster holds.
    fn held(&self) -> Vec<String> {
        let hello = self
            .machine
            .with(|machine| machine.connect(&info(), Duration::ZERO));
        let Some(Said::Hello(hello)) = hello.body else {
            panic!("{hello:?}");
        };
        hello.held.into_iter().map(|held| held.uid).collect()
    }

    async fn reconcile(&self) -> (Next, Next) {
        let kept = self.placements.keep(&key()).await;
        let unwritten = kept.unwritten.as_ref();
        let served = self.serving.reconcile(&key(), unwritten, kept.going).await;
        (kept.next, served)
    }

    /// All that there is to say now.
    fn said(&self) -> Vec<Said> {
        let next = || {
            self.machine
                .with(|machine| machine.transmit(Duration::ZERO))
        };
        std::iter::from_fn(next)
            .filter_map(|message| message.body)
            .collect()
    }

    /// The newest report.
    fn report(&self) -> v1::PlacementReport {
        let reports = self.said().into_iter().rev();
        let mut reports = reports.filter_map(|said| {
            let Said::Placement(report) = said else {
                return None;
            };
            Some(report)
        });
        reports.next().unwrap()
    }

    fn refusal(&self) -> (String, String) {
        let refusals = self.said().into_iter().filter_map(|said| {
            let Said::Refused(refused) = said else {
                return None;
            };
            Some((refused.reason, refused.message))
        });
        refusals.last().unwrap()
    }
}

#[tokio::test]
async fn a_wish_becomes_objects_once() {
    let agent = Agent::new();
    agent.hear_desired();
    assert_eq!(agent.reconcile().await, (Next::Rest, Next::Rest));
    // What others name comes before them; the rest may come in any order.
    let mut writes = agent.server.writes();
    for stage in [1..4, 4..6] {
        writes[stage].sort();
    }
    assert_eq!(
        writes,
        [
            "PATCH ServerPlacement llama",
            "PATCH ConfigMap llama-model-config",
            "PATCH Service llama",
            "PATCH ServiceAccount llama",
            "PATCH Deployment llama",
            "PATCH HTTPRoute llama-traffic-0",
        ]
    );
    let said = agent.said();
    assert!(
        said.iter()
            .any(|said| matches!(said, Said::Applied(applied) if applied.generation == 1))
    );
    assert!(said.iter().any(
        |said| matches!(said, Said::Endpoint(endpoint) if endpoint.addresses == ["203.0.113.9"])
    ));

    assert_eq!(agent.reconcile().await, (Next::Rest, Next::Rest));
    assert_eq!(agent.server.writes(), NOTHING);
}

#[tokio::test]
async fn a_restart_writes_nothing_and_reports_the_same() {
    let agent = Agent::new();
    agent.hear_desired();
    agent.reconcile().await;
    let before = agent.report();
    agent.server.writes();

    let Agent { server, caches, .. } = agent;
    let agent = Agent::over(server, caches);
    agent.serving.introduce(&key());
    assert_eq!(agent.report(), before);
    agent.reconcile().await;
    assert_eq!(agent.said(), NOTHING_SAID);
    agent.hear_desired();
    agent.reconcile().await;
    assert_eq!(agent.server.writes(), NOTHING);
}

#[tokio::test]
async fn one_refused_object_keeps_no_other_from_being_written() {
    let agent = Agent::new();
    agent.server.refuse("Service", 403);
    agent.hear_desired();
    assert_eq!(agent.reconcile().await, (Next::Rest, Next::Retry));
    assert!(
        agent
            .server
            .writes()
            .contains(&"PATCH HTTPRoute llama-traffic-0".to_owned())
    );
    let steps = agent.report().steps;
    assert_eq!(
        (steps[0].verdict(), steps[0].reason.as_str()),
        (v1::Verdict::False, "ApplyRefused")
    );
    assert_eq!(steps[2].verdict(), v1::Verdict::True);

    agent.server.refuse("Service", 200);
    assert_eq!(agent.reconcile().await, (Next::Rest, Next::Rest));
    assert_eq!(agent.server.writes(), ["PATCH Service llama"]);
    assert_eq!(agent.report().steps[0].verdict(), v1::Verdict::True);
}

#[tokio::test]
async fn somebody_elses_placement_is_never_touched() {
    let agent = Agent::new();
    let mut other = json!({"metadata": {"name": "llama", "namespace": "team-a", "uid": "o", "resourceVersion": "1"}});
    other["spec"] = serde_json::from_str(&body()).unwrap();
    agent.caches.placements.note(read(other));
    agent.hear_desired();
    agent.reconcile().await;
    assert_eq!(agent.refusal().0, "NameConflict");
    agent.hear(Body::Tombstone(v1::Tombstone {
        key: Some(key().to_wire()),
        uid: "server-uid".to_owned(),
        orphan: false,
    }));
    agent.reconcile().await;
    assert!(
        agent
            .said()
            .iter()
            .any(|said| matches!(said, Said::Removed(_)))
    );
    assert_eq!(agent.server.writes(), NOTHING);
}

#[tokio::test]
async fn a_deployment_that_lost_its_controller_is_taken_back_but_for_one_that_was_let_go() {
    for is_let_go in [false, true] {
        let agent = Agent::new();
        agent.hear_desired();
        agent.reconcile().await;
        agent.server.writes();
        let object = operator::cache::ObjectKey::new("team-a", "llama");
        let mut orphan = (*agent.caches.deployments.get(&object).unwrap()).clone();
        let metadata = &mut orphan.metadata;
        metadata.owner_references = None;
        metadata.resource_version = Some("1000".to_owned());
        let mut fields = metadata.managed_fields.take().unwrap();
        let ours = &mut fields[0].fields_v1.as_mut().unwrap().0["f:metadata"];
        ours.as_object_mut().unwrap().remove("f:ownerReferences");
        metadata.managed_fields = Some(fields);
        if is_let_go {
            metadata.annotations = None;
        }
        agent.caches.deployments.note(orphan);
        agent.reconcile().await;
        let (writes, reason) = if is_let_go {
            (&[][..], "NameConflict")
        } else {
            (&["PATCH Deployment llama"][..], "Provisioned")
        };
        assert_eq!(agent.server.writes(), writes);
        assert_eq!(agent.report().steps[0].reason, reason);
    }
}

#[tokio::test]
async fn a_missing_namespace_is_told_and_its_placement_waits_for_it() {
    let mut agent = Agent::over(ApiServer::default(), Caches::default());
    agent.hear_desired();
    assert_eq!(agent.reconcile().await.0, Next::Rest);
    assert_eq!(agent.refusal().0, "NamespaceMissing");
    assert_eq!(agent.server.writes(), NOTHING);

    agent.placements.create_namespaces = true;
    agent.reconcile().await;
    let writes = agent.server.writes();
    assert_eq!(
        writes[..2],
        ["PATCH Namespace team-a", "PATCH ServerPlacement llama"]
    );
    assert!(
        agent
            .said()
            .iter()
            .any(|said| matches!(said, Said::Applied(_)))
    );
}

#[tokio::test]
async fn a_placement_on_its_way_out_is_reported_and_left_alone() {
    let agent = Agent::new();
    agent.hear_desired();
    agent.reconcile().await;
    agent.server.writes();
    let object = operator::cache::ObjectKey::new("team-a", "llama");
    let mut leaving = (*agent.caches.placements.get(&object).unwrap()).clone();
    leaving.metadata.deletion_timestamp = Some(read(json!("2026-01-01T00:00:00Z")));
    leaving.metadata.resource_version = Some("1000".to_owned());
    agent.caches.placements.note(leaving);
    assert_eq!(agent.reconcile().await, (Next::Rest, Next::Rest));
    assert_eq!(agent.server.writes(), NOTHING);
    assert_eq!(agent.report().steps[3].reason, "Removing");
}
