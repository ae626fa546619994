//! Who the agent is to its hub, over a real connection.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use k8s_openapi::api::core::v1::Secret;
use operator::wake::Wakes;
use prometheus_client::metrics::gauge::Gauge;
use proto::{
    Hash,
    session::{AgentInfo, AgentMachine},
    transport::identity::AgentKey,
};
use tokio::{task::JoinHandle, time::timeout};

use super::{
    api_server::ApiServer,
    hub::{Heard, Hub, SERVER_NAME, YEAR},
};
use crate::{
    link::{Link, Machine, Store},
    placement::Wishes,
};

const SECRET: &str = "inferfleet-agent-identity";
const PATIENCE: Duration = Duration::from_secs(20);

/// A join bundle, which goes with the guard.
struct Bundle(PathBuf);

impl Bundle {
    fn new(test: &str, token: Option<&str>, authority_pem: &str) -> Self {
        let path = std::env::temp_dir().join(format!("agent-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("ca.crt"), authority_pem).unwrap();
        if let Some(token) = token {
            std::fs::write(path.join("token"), token).unwrap();
        }
        Self(path)
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// Long before and long after two thirds of a certificate's life are over.
fn early() -> SystemTime {
    SystemTime::UNIX_EPOCH + 60 * YEAR
}

fn late() -> SystemTime {
    SystemTime::UNIX_EPOCH + 120 * YEAR
}

fn start(hub: &Hub, server: &ApiServer, join: &Path, clock: fn() -> SystemTime) -> JoinHandle<()> {
    let link = Link {
        machine: Arc::new(Machine::new(
            AgentMachine::new([]),
            crate::run::start_of_time(),
        )),
        wishes: Arc::new(Wishes::new(Arc::new(Wakes::default()))),
        store: Store {
            client: server.client(),
            namespace: "inferfleet".to_owned(),
        },
        info: AgentInfo {
            agent_version: String::new(),
            kubernetes_version: String::new(),
            cluster_uid: "cluster".to_owned(),
        },
        hub: (hub.address.clone(), SERVER_NAME.to_owned()),
        join: join.to_owned(),
        clock,
        random: || 0.1,
        connected: Gauge::default(),
    };
    tokio::spawn(link.run())
}

fn stored_key(server: &ApiServer, entry: &str) -> Option<Hash> {
    let secret: Secret = server.secret(SECRET)?;
    let pem = secret.data?.remove(entry)?;
    let pem = String::from_utf8(pem.0).unwrap();
    Some(AgentKey::from_pem(&pem).unwrap().fingerprint())
}

async fn heard(hub: &mut Hub) -> Heard {
    timeout(PATIENCE, hub.heard.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_key_is_stored_before_it_is_used_and_renewed_within_the_session() {
    let (mut hub, server) = (Hub::start(0).await, ApiServer::default());
    let bundle = Bundle::new("renew", Some("token-1\n"), &hub.authority_pem);
    let running = start(&hub, &server, &bundle.0, late);

    let Heard::Enrol(token, first) = heard(&mut hub).await else {
        panic!("a session without a certificate");
    };
    assert_eq!(token, "token-1");
    assert_eq!(stored_key(&server, "tls.key"), Some(first));
    assert_eq!(heard(&mut hub).await, Heard::Hello);
    let Heard::Renew(second) = heard(&mut hub).await else {
        panic!("the certificate is old");
    };
    assert_ne!(second, first);
    let renewed = || stored_key(&server, "tls.key") == Some(second);
    assert!(renewed() || stored_key(&server, "next.key") == Some(second));
    let mut written = server.written.subscribe();
    timeout(PATIENCE, written.wait_for(|_| renewed()))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stored_key(&server, "next.key"), None);
    running.abort();
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_with_the_same_key() {
    let (mut hub, server) = (Hub::start(1).await, ApiServer::default());
    let bundle = Bundle::new("lost", Some("token-1"), &hub.authority_pem);
    let running = start(&hub, &server, &bundle.0, early);
    let first = heard(&mut hub).await;
    assert!(matches!(first, Heard::Enrol(..)));
    assert_eq!(heard(&mut hub).await, first);
    assert_eq!(heard(&mut hub).await, Heard::Hello);
    running.abort();
}

#[tokio::test]
async fn a_restart_enrols_again_only_for_a_new_token() {
    let (mut hub, server) = (Hub::start(0).await, ApiServer::default());
    let bundle = Bundle::new("again", Some("token-1"), &hub.authority_pem);
    let running = start(&hub, &server, &bundle.0, early);
    let first = heard(&mut hub).await;
    assert!(matches!(first, Heard::Enrol(..)));
    assert_eq!(heard(&mut hub).await, Heard::Hello);
    running.abort();

    // The token that was used, and then none.
    for _ in 0..2 {
        let running = start(&hub, &server, &bundle.0, early);
        assert_eq!(heard(&mut hub).await, Heard::Hello);
        running.abort();
        let _gone = std::fs::remove_file(bundle.0.join("token"));
    }
    let bundle = Bundle::new("again", Some("token-2"), &hub.authority_pem);
    let running = start(&hub, &server, &bundle.0, early);
    assert!(matches!(heard(&mut hub).await, Heard::Enrol(token, _) if token == "token-2"));
    running.abort();
}

#[tokio::test]
async fn a_certificate_that_could_not_be_stored_is_stored_later() {
    let (mut hub, server) = (Hub::start(0).await, ApiServer::default());
    let bundle = Bundle::new("store", None, &hub.authority_pem);
    let mut written = server.written.subscribe();
    // Without a token it gets as far as its key.
    let running = start(&hub, &server, &bundle.0, early);
    let has_key = |_: &u64| stored_key(&server, "tls.key").is_some();
    timeout(PATIENCE, written.wait_for(has_key))
        .await
        .unwrap()
        .unwrap();
    running.abort();

    server.refuse("Secret", 500);
    std::fs::write(bundle.0.join("token"), "token-1").unwrap();
    let running = start(&hub, &server, &bundle.0, early);
    assert!(matches!(heard(&mut hub).await, Heard::Enrol(..)));
    assert_eq!(heard(&mut hub).await, Heard::Hello);
    server.refuse("Secret", 200);
    let has_certificate = |_: &u64| {
        let data = server.secret(SECRET).and_then(|secret| secret.data);
        data.is_some_and(|data| data.contains_key("tls.crt"))
    };
    timeout(PATIENCE, written.wait_for(has_certificate))
        .await
        .unwrap()
        .unwrap();
    running.abort();
}
