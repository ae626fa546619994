//! What is looked up, when, and who hears of it: with name servers that say what a test tells them to.

use std::sync::atomic::{AtomicUsize, Ordering};

use hub_plan::facts::EndpointFacts;
use tokio::sync::mpsc;

use super::*;

/// Name servers. Each lookup is counted.
#[derive(Clone, Debug, Default)]
struct Fake {
    answers: Arc<Mutex<BTreeMap<String, Result<Answer, String>>>>,
    lookups: Arc<AtomicUsize>,
    /// Names that nobody answers.
    dead: Arc<Mutex<BTreeSet<String>>>,
}

impl Fake {
    fn says(&self, name: &str, addresses: &[&str], ttl: u64) {
        self.answers(name, answer(addresses, ttl));
    }

    fn answers(&self, name: &str, answer: Answer) {
        self.answers
            .lock()
            .unwrap()
            .insert(name.to_owned(), Ok(answer));
    }

    fn fails(&self, name: &str) {
        let failure = Err("SERVFAIL".to_owned());
        self.answers
            .lock()
            .unwrap()
            .insert(name.to_owned(), failure);
    }

    fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

fn answer(addresses: &[&str], ttl: u64) -> Answer {
    Answer {
        addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
        ttl: Duration::from_secs(ttl),
        failure: None,
    }
}

impl Lookup for Fake {
    fn lookup(&self, name: String) -> BoxFuture<'static, Result<Answer, String>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers.lock().unwrap().get(&name).cloned();
        let dead = self.dead.lock().unwrap().contains(&name);
        Box::pin(async move {
            if dead {
                std::future::pending::<()>().await;
            }
            answer.unwrap_or_else(|| Err("there is no such name".to_owned()))
        })
    }
}

/// A resolver that runs, its name servers, and the servers that it wakes.
struct Running {
    fake: Fake,
    resolver: Arc<Resolver>,
    woken: mpsc::Receiver<ObjectKey>,
}

impl Running {
    fn new(fake: &Fake) -> Self {
        let resolver = Arc::new(Resolver::new(fake.clone()));
        let (waker, woken) = mpsc::channel(100);
        let run = Arc::clone(&resolver).run(move |server| {
            // The test may be over, or not care.
            let _ended = waker.try_send(server);
        });
        drop(tokio::spawn(run));
        Self {
            fake: fake.clone(),
            resolver,
            woken,
        }
    }

    /// What a server's pass hears of these names.
    fn ask(&self, server: &str, names: &[&str]) -> BTreeMap<String, Resolution> {
        let hostnames = names
            .iter()
            .map(|name| ((*name).to_owned(), Resolution::default()));
        let facts = ClusterFacts {
            endpoint: Some(EndpointFacts {
                hostnames: hostnames.collect(),
                ..EndpointFacts::default()
            }),
            ..ClusterFacts::default()
        };
        let mut clusters = [("east".parse().unwrap(), facts)].into();
        self.resolver.resolve(&key(server), &mut clusters);
        let facts = clusters.into_values().next().unwrap();
        facts.endpoint.unwrap().hostnames
    }

    /// `addresses, failure` of a name that one server asks for.
    fn known(&self, server: &str, name: &str) -> String {
        let resolution = self.ask(server, &[name]).remove(name).unwrap();
        format!("{:?}, {:?}", resolution.addresses, resolution.failure)
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

fn key(server: &str) -> ObjectKey {
    ObjectKey::new("team", server)
}

#[tokio::test(start_paused = true)]
async fn a_name_is_unknown_until_its_first_answer_wakes_its_server() {
    let fake = Fake::default();
    fake.says("lb.example", &["203.0.113.9", "2001:db8::9"], 60);
    let mut running = Running::new(&fake);
    assert_eq!(running.known("llama", "lb.example"), "{}, None");
    assert_eq!(running.woken().await, "llama");
    assert_eq!(
        running.known("llama", "lb.example"),
        "{203.0.113.9, 2001:db8::9}, None"
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_of_many_servers_is_looked_up_once_and_wakes_them_all() {
    let fake = Fake::default();
    fake.says("lb.example", &["203.0.113.9"], 60);
    let mut running = Running::new(&fake);
    for server in ["a", "b", "c"] {
        running.ask(server, &["lb.example"]);
    }
    let mut woken = Vec::new();
    for _ in 0..3 {
        woken.push(running.woken().await);
    }
    assert_eq!((woken.join(" ").as_str(), fake.lookups()), ("a b c", 1));
    // Who comes later asks nobody.
    assert_eq!(running.known("d", "lb.example"), "{203.0.113.9}, None");
    running.pass(1).await;
    assert_eq!(fake.lookups(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_looked_up_again_when_its_time_to_live_ends() {
    let fake = Fake::default();
    fake.says("lb.example", &["203.0.113.9"], 60);
    let mut running = Running::new(&fake);
    running.ask("llama", &["lb.example"]);
    running.woken().await;
    fake.says("lb.example", &["203.0.113.10"], 60);
    running.pass(59).await;
    assert_eq!(running.known("llama", "lb.example"), "{203.0.113.9}, None");
    running.pass(2).await;
    assert_eq!(running.known("llama", "lb.example"), "{203.0.113.10}, None");
    assert_eq!(running.woken().await, "llama");
}

#[tokio::test(start_paused = true)]
async fn a_time_to_live_counts_from_five_seconds_to_five_minutes() {
    for (ttl, least, most) in [(0, 5, 5), (1_000_000, 300, 300), (u64::MAX, 300, 300)] {
        let fake = Fake::default();
        fake.says("lb.example", &["203.0.113.9"], ttl);
        let mut running = Running::new(&fake);
        running.ask("llama", &["lb.example"]);
        running.woken().await;
        running.pass(least - 1).await;
        assert_eq!(fake.lookups(), 1, "{ttl}");
        running.pass(most - least + 2).await;
        assert_eq!(fake.lookups(), 2, "{ttl}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_answer_again_wakes_nobody() {
    let fake = Fake::default();
    fake.says("lb.example", &["203.0.113.9"], 60);
    let mut running = Running::new(&fake);
    running.ask("llama", &["lb.example"]);
    running.woken().await;
    running.pass(1_000).await;
    assert!(fake.lookups() > 10);
    assert!(running.woken.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_failure_keeps_the_last_good_addresses_and_says_why() {
    let fake = Fake::default();
    fake.says("lb.example", &["203.0.113.9"], 60);
    let mut running = Running::new(&fake);
    running.ask("llama", &["lb.example"]);
    running.woken().await;
    fake.fails("lb.example");
    assert_eq!(running.woken().await, "llama");
    let failed = "{203.0.113.9}, Some(\"SERVFAIL\")";
    assert_eq!(running.known("llama", "lb.example"), failed);
    fake.says("lb.example", &[], 60);
    running.woken().await;
    let empty = "{203.0.113.9}, Some(\"it has no address\")";
    assert_eq!(running.known("llama", "lb.example"), empty);
    fake.says("lb.example", &["203.0.113.9"], 60);
    running.woken().await;
    assert_eq!(running.known("llama", "lb.example"), "{203.0.113.9}, None");
}

#[tokio::test(start_paused = true)]
async fn a_family_that_fails_keeps_its_last_good_addresses_and_is_tried_again_before_the_others_end()
 {
    let fake = Fake::default();
    fake.says("lb.example", &["203.0.113.9", "2001:db8::9"], 60);
    let mut running = Running::new(&fake);
    running.ask("llama", &["lb.example"]);
    running.woken().await;
    let ipv4_alone = Answer {
        failure: Some((Family::Ipv6, "SERVFAIL".to_owned())),
        ..answer(&["203.0.113.10"], 300)
    };
    fake.answers("lb.example", ipv4_alone);
    running.woken().await;
    let failed = "{203.0.113.10, 2001:db8::9}, Some(\"SERVFAIL\")";
    assert_eq!(running.known("llama", "lb.example"), failed);
    let known = running.ask("llama", &["lb.example"]);
    assert_eq!(known["lb.example"].failed, Some(Family::Ipv6));
    fake.says("lb.example", &["203.0.113.10"], 60);
    running.pass(11).await;
    assert_eq!(running.known("llama", "lb.example"), "{203.0.113.10}, None");
}

#[test]
fn what_one_family_answers_stands_though_the_other_fails() {
    let failed = |why: &str| Err(why.to_owned());
    let (ipv4, ipv6) = (answer(&["203.0.113.9"], 60), answer(&["2001:db8::9"], 30));
    let both = answer(&["203.0.113.9", "2001:db8::9"], 30);
    let without = |family, answer: &Answer| {
        Ok(Answer {
            failure: Some((family, "SERVFAIL".to_owned())),
            ..answer.clone()
        })
    };
    let cases = [
        ((Ok(ipv4.clone()), Ok(ipv6.clone())), Ok(both)),
        (
            (Ok(ipv4.clone()), failed("SERVFAIL")),
            without(Family::Ipv6, &ipv4),
        ),
        (
            (failed("SERVFAIL"), Ok(ipv6.clone())),
            without(Family::Ipv4, &ipv6),
        ),
        // No address of the one says nothing of the other.
        (
            (Ok(answer(&[], 60)), failed("SERVFAIL")),
            failed("SERVFAIL"),
        ),
        ((failed("REFUSED"), failed("SERVFAIL")), failed("REFUSED")),
    ];
    for ((ipv4, ipv6), expected) in cases {
        assert_eq!(system::joined(ipv4, ipv6), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_fails_is_tried_less_and_less_often() {
    let running = Running::new(&Fake::default());
    running.ask("llama", &["lb.example"]);
    running.pass(4).await;
    assert_eq!(running.fake.lookups(), 1);
    running.pass(7).await;
    assert_eq!(running.fake.lookups(), 2);
    running.pass(3_600).await;
    let lookups = running.fake.lookups();
    assert!((12..=35).contains(&lookups), "{lookups}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_name_server_delays_no_other_name() {
    let fake = Fake::default();
    fake.dead.lock().unwrap().insert("dead.example".to_owned());
    fake.says("lb.example", &["203.0.113.9"], 60);
    let mut running = Running::new(&fake);
    running.ask("a", &["dead.example"]);
    running.ask("b", &["lb.example"]);
    assert_eq!(running.woken().await, "b");
    assert_eq!(running.known("a", "dead.example"), "{}, None");
    assert_eq!(running.woken().await, "a");
    assert_eq!(
        running.known("a", "dead.example"),
        "{}, Some(\"no name server answers\")"
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_that_nobody_asks_for_any_more_is_dropped() {
    let fake = Fake::default();
    fake.says("lb.example", &["203.0.113.9"], 60);
    let mut running = Running::new(&fake);
    running.ask("a", &["lb.example"]);
    running.ask("b", &["lb.example"]);
    running.woken().await;
    running.resolver.forget(&key("a"));
    running.pass(61).await;
    assert_eq!(fake.lookups(), 2, "b asks for it still");
    running.ask("b", &[]);
    running.pass(1_000).await;
    assert_eq!(fake.lookups(), 2);
    assert!(running.resolver.lock().names.is_empty());
    assert!(running.resolver.lock().asked.is_empty());
    // What was known is not believed for ever.
    assert_eq!(running.known("a", "lb.example"), "{}, None");
}

#[tokio::test(start_paused = true)]
async fn there_is_an_end_to_the_names_that_are_looked_up() {
    let running = Running::new(&Fake::default());
    let names: Vec<_> = (0..=NAMES_MAX)
        .map(|number| format!("h{number:05}"))
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let known = running.ask("llama", &names);
    let refused = known.values().filter(|one| one.failure.is_some()).count();
    assert_eq!(refused, 1);
    assert_eq!(running.resolver.lock().names.len(), NAMES_MAX);
}
