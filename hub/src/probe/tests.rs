use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use tokio::sync::mpsc;

use super::*;

/// Endpoints that answer as they are told.
#[derive(Clone)]
struct Fake {
    clock: Clock,
    well: Arc<Mutex<BTreeSet<SocketAddr>>>,
    /// What answers late, and when.
    late: Arc<Mutex<BTreeMap<SocketAddr, Duration>>>,
    asked: Arc<AtomicUsize>,
    /// When it was asked last.
    asked_at: Arc<Mutex<Option<Timestamp>>>,
}

impl Fake {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            well: Arc::default(),
            late: Arc::default(),
            asked: Arc::default(),
            asked_at: Arc::default(),
        }
    }

    fn set(&self, address: &str, well: bool) {
        let address = address.parse().unwrap();
        let mut all = self.well.lock().unwrap();
        if well {
            all.insert(address);
        } else {
            all.remove(&address);
        }
    }

    fn delay(&self, address: &str, delay: Duration) {
        let address = address.parse().unwrap();
        self.late.lock().unwrap().insert(address, delay);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Ask for Fake {
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<(), String>> {
        assert_eq!(question.path, "/cluster/team/llama/-/ready");
        self.asked.fetch_add(1, Ordering::Relaxed);
        *self.asked_at.lock().unwrap() = Some(self.clock.now());
        let well = self.well.lock().unwrap().contains(&question.address);
        let answer = if well {
            Ok(())
        } else {
            Err(format!("no {}", question.uid))
        };
        let late = self.late.lock().unwrap().get(&question.address).copied();
        Box::pin(async move {
            if let Some(late) = late {
                tokio::time::sleep(late).await;
            }
            answer
        })
    }
}

struct Running {
    fake: Fake,
    prober: Arc<Prober>,
    woken: mpsc::Receiver<ObjectKey>,
}

impl Running {
    fn new() -> Self {
        let clock = Clock::start();
        let fake = Fake::new(clock);
        let prober = Arc::new(Prober::new(fake.clone(), clock));
        let (waker, woken) = mpsc::channel(100);
        let run = Arc::clone(&prober).run(move |server| {
            // The test may be over, or not care.
            let _ended = waker.try_send(server);
        });
        drop(tokio::spawn(run));
        Self {
            fake,
            prober,
            woken,
        }
    }

    fn wish(&self, addresses: &[&str], max_age_seconds: Option<u32>) {
        self.ask(&server("uid-1"), probe(addresses, max_age_seconds));
    }

    fn ask(&self, server: &InferenceServer, probe: Probe) {
        let probes = [("east".parse().unwrap(), probe)].into();
        self.prober.wish(server, &probes);
    }

    /// Why the endpoint is not reached, or `reached`, or `unknown`.
    fn known(&self) -> String {
        self.known_of("uid-1")
    }

    fn answer(&self, uid: &str) -> Option<ProbeFacts> {
        let mut clusters = [("east".parse().unwrap(), ClusterFacts::default())].into();
        self.prober.answers(&server(uid), &mut clusters);
        clusters.into_values().next().unwrap().probe
    }

    fn known_of(&self, uid: &str) -> String {
        let probe = self.answer(uid).map(|probe| probe.failure);
        let failure = probe.map(|failure| failure.unwrap_or_else(|| "reached".to_owned()));
        failure.unwrap_or_else(|| "unknown".to_owned())
    }

    async fn woken(&mut self) -> String {
        self.woken.recv().await.unwrap().name
    }

    /// Lets so many seconds pass, and all that is due in them happen.
    async fn pass(&self, seconds: u64) {
        // The clock is paused: it moves on once nothing else is left to do.
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

/// The server of that UID: all are called `team/llama`.
fn server(uid: &str) -> InferenceServer {
    let mut server = crate::contract::server("team", "llama");
    server.metadata.uid = Some(uid.to_owned());
    server
}

fn probe(addresses: &[&str], max_age_seconds: Option<u32>) -> Probe {
    Probe {
        addresses: addresses
            .iter()
            .map(|address| address.parse().unwrap())
            .collect(),
        port: 80,
        max_age_seconds,
        retry_seconds: max_age_seconds,
    }
}

#[tokio::test(start_paused = true)]
async fn one_good_answer_is_enough_and_wakes_the_server() {
    let mut running = Running::new();
    running.fake.set("203.0.113.1:80", true);
    running.wish(&["203.0.113.1"], None);
    assert_eq!(running.known(), "unknown");
    assert_eq!(running.woken().await, "llama");
    assert_eq!(running.known(), "reached");
    running.wish(&["203.0.113.1"], None);
    running.pass(3600).await;
    assert_eq!(running.fake.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_is_reached_at_any_of_its_addresses() {
    let mut running = Running::new();
    running.fake.set("203.0.113.2:80", true);
    running.wish(&["203.0.113.1", "203.0.113.2"], None);
    running.woken().await;
    assert_eq!(running.known(), "reached");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_takes_a_moment_is_not_called_unreachable() {
    let mut running = Running::new();
    running.wish(&["203.0.113.1"], None);
    running.pass(1).await;
    assert_eq!(running.known(), "unknown");
    running.fake.set("203.0.113.1:80", true);
    running.woken().await;
    assert_eq!(running.known(), "reached");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_not_reached_is_told_once_and_asked_on() {
    let mut running = Running::new();
    running.wish(&["203.0.113.1"], None);
    running.woken().await;
    assert_eq!(running.known(), "203.0.113.1: no uid-1");
    running.pass(600).await;
    assert!(
        running.woken.try_recv().is_err(),
        "the same again is no news"
    );
    running.fake.set("203.0.113.1:80", true);
    running.woken().await;
    assert_eq!(running.known(), "reached");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_to_be_young_is_asked_for_again() {
    let mut running = Running::new();
    running.fake.set("203.0.113.1:80", true);
    running.wish(&["203.0.113.1"], Some(40));
    running.woken().await;
    running.pass(100).await;
    assert_eq!(running.fake.asked(), 3);
    running.fake.set("203.0.113.1:80", false);
    running.pass(60).await;
    assert_eq!(running.known(), "203.0.113.1: no uid-1");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_wished_is_no_longer_asked() {
    let running = Running::new();
    running.wish(&["203.0.113.1"], None);
    running.pass(1).await;
    let server = crate::contract::server("team", "llama");
    running.prober.wish(&server, &BTreeMap::new());
    let asked = running.fake.asked();
    running.pass(600).await;
    assert_eq!(running.fake.asked(), asked);
    assert_eq!(running.known(), "unknown");
}

#[tokio::test(start_paused = true)]
async fn another_address_is_asked_anew() {
    let mut running = Running::new();
    running.fake.set("203.0.113.1:80", true);
    running.wish(&["203.0.113.1"], None);
    running.woken().await;
    running.wish(&["203.0.113.9"], None);
    assert_eq!(running.known(), "unknown");
    running.woken().await;
    assert_eq!(running.known(), "203.0.113.9: no uid-1");
}

#[tokio::test(start_paused = true)]
async fn addresses_that_do_not_answer_keep_no_other_waiting() {
    let running = Running::new();
    let dead = ["203.0.113.1", "203.0.113.2", "203.0.113.3"];
    for address in dead {
        running
            .fake
            .delay(&format!("{address}:80"), Duration::from_hours(1));
    }
    running.fake.set("203.0.113.4:80", true);
    running.wish(&[&dead[..], &["203.0.113.4"]].concat(), None);
    running.pass(1).await;
    assert_eq!(running.known(), "reached");
}

#[tokio::test(start_paused = true)]
async fn whichever_address_fails_first_the_same_failure_is_told() {
    let running = Running::new();
    for (first, second) in [(1, 2), (2, 1)] {
        for (address, late) in [("203.0.113.1:80", first), ("203.0.113.2:80", second)] {
            running.fake.delay(address, Duration::from_secs(late));
        }
        running.wish(&["203.0.113.1", "203.0.113.2"], Some(40));
        running.pass(100).await;
        assert_eq!(running.known(), "203.0.113.1: no uid-1");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_former_server_of_that_name_is_not_the_new_ones() {
    let mut running = Running::new();
    running.fake.set("203.0.113.1:80", true);
    running.fake.delay("203.0.113.1:80", Duration::from_secs(2));
    running.wish(&["203.0.113.1"], None);
    running.woken().await;
    assert_eq!(running.known_of("uid-2"), "unknown");
    // The question of the former one is on its way when the new one is asked.
    running.wish(&["203.0.113.1"], Some(40));
    running.pass(1).await;
    running.ask(&server("uid-2"), probe(&["203.0.113.1"], Some(40)));
    running.fake.set("203.0.113.1:80", false);
    running.pass(2).await;
    assert_eq!(running.known_of("uid-2"), "unknown");
    running.pass(60).await;
    assert_eq!(running.known_of("uid-2"), "203.0.113.1: no uid-2");
}

#[tokio::test(start_paused = true)]
async fn what_has_to_be_reached_is_asked_again_before_the_back_off_is_long() {
    let running = Running::new();
    let required = Probe {
        retry_seconds: Some(40),
        ..probe(&["203.0.113.1"], None)
    };
    running.ask(&server("uid-1"), required);
    running.pass(3600).await;
    running.fake.set("203.0.113.1:80", true);
    running.pass(41).await;
    assert_eq!(running.known(), "reached");
    let asked = running.fake.asked();
    running.pass(3600).await;
    assert_eq!(running.fake.asked(), asked, "one good answer is enough");
}

#[tokio::test(start_paused = true)]
async fn a_failure_counts_from_when_it_was_asked_for_and_a_good_answer_from_when_it_came() {
    let mut running = Running::new();
    for well in [false, true] {
        running.fake.set("203.0.113.1:80", well);
        running.wish(&["203.0.113.1"], Some(40));
        running.woken().await;
        let asked_at = running.fake.asked_at.lock().unwrap().unwrap();
        let at = running.answer("uid-1").unwrap().at;
        assert_eq!(asked_at < at, well, "asked at {asked_at}, counts from {at}");
    }
}
