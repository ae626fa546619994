//! How long many servers on several members take from the first apply to the product's last write.
//!
//! The controller managers are frozen while time counts: what they do at their own pace is not the product's. Whatever
//! the product writes on its own is timed, then they go on, and the writes until all is Ready are counted.

mod round;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use self::round::{Round, Run};
use super::bare;
use super::requests::{asked as asked_since, marks};
use super::setting::{self, Setting};
use super::statistics::{Samples, milliseconds, ratio};
use super::verdict::{Verdict, say, show, tell};
use crate::audit::{self, Request};

const TARGET: f64 = 1.25;
/// Writes in the hub, per server and member, until all is Ready.
const HUB_WRITES_MAX: f64 = 2.9;
/// What a person asks of the benchmark.
#[derive(Debug, clap::Args)]
pub(super) struct Convergence {
    #[arg(long, default_value_t = 200)]
    servers: usize,
    #[arg(long, default_value_t = 3)]
    members: usize,
    /// Runs of the product, and as many of the bare client, in turn
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

impl Convergence {
    pub(super) async fn run(self, product: Option<&Path>) -> Result<Verdict> {
        ensure!(self.rounds > 0 && self.servers > 0, "something has to run");
        let setting = Setting {
            members: self.members,
            audit: true,
            fake_pods: self.servers,
        };
        let installed = setting::start(setting, product).await?;
        let hub = installed.hub().direct_client().await?;
        let mut members = Vec::new();
        for cluster in installed.fleet().members() {
            members.push(cluster.direct_client().await?);
        }
        for client in std::iter::once(&hub).chain(&members) {
            bare::install(client).await?;
        }
        let run = Run {
            installed: &installed,
            hub,
            members,
            servers: self.servers,
        };
        let (mut rounds, mut floors, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for number in 1..=self.rounds {
            let (figure, floor) = (format!("figure-{number}"), format!("floors-{number}"));
            for namespace in [&figure, &floor] {
                installed.namespace(namespace).await?;
            }
            let begin = marks(&installed)?;
            tell(&format!("round {number}: the product"));
            setting::pause_controllers(&installed, true).await?;
            let round = run.product(&figure).await?;
            if number == 1 {
                tell("until all is Ready");
                setting::pause_controllers(&installed, false).await?;
                run.ready(&figure).await?;
                asked = asked_since(&installed, &begin)?;
                setting::pause_controllers(&installed, true).await?;
            }
            tell(&format!("round {number}: the bare client"));
            floors.push(run.bare(&figure, &floor, &round.writes).await?);
            tell(&format!(
                "round {number}: {:.1} s, bare {:.1} s",
                round.time.as_secs_f32(),
                floors.last().copied().unwrap_or_default().as_secs_f32()
            ));
            rounds.push(round);
        }
        Ok(self.verdict(&rounds, &floors, &asked))
    }

    fn verdict(&self, rounds: &[Round], floors: &[Duration], asked: &[Vec<Request>]) -> Verdict {
        let parts = f64::from(u32::try_from(self.servers * self.members).unwrap_or(u32::MAX));
        let figure = rounds
            .iter()
            .map(|round| round.time)
            .collect::<Samples>()
            .median();
        let floor = floors.iter().copied().collect::<Samples>().median();
        let cpu = rounds
            .iter()
            .map(|round| round.cpu)
            .collect::<Samples>()
            .median();
        self.show_rounds(rounds, floors);
        let all: Vec<Request> = asked.iter().flatten().cloned().collect();
        show_requests(&all, self.servers);
        let count = |requests: &[Request], of: fn(&Request) -> bool| {
            let found = requests.iter().filter(|request| of(request)).count();
            f64::from(u32::try_from(found).unwrap_or(u32::MAX))
        };
        let hub_writes = count(asked.first().map_or(&[], Vec::as_slice), Request::is_write) / parts;
        let reads = count(&all, |request| {
            !request.is_write() && request.verb != "watch"
        });
        let cpu_ms = milliseconds(cpu) / parts;
        say(&format!(
            "until Ready: {hub_writes:.2} hub writes per server and member, {reads} reads; \
             {cpu_ms:.1} ms of CPU per server and member\n"
        ));
        let ratio = ratio(figure, floor);
        let more = json!({
            "servers": self.servers,
            "members": self.members,
            "rounds": rounds.len(),
            "hub_writes_per_server_and_member": hub_writes,
            "requests_per_server": count(&all, |request| request.verb != "watch")
                / f64::from(u32::try_from(self.servers).unwrap_or(u32::MAX)),
            "reads": reads,
            "cpu_ms_per_server_and_member": cpu_ms,
        });
        Verdict {
            bench: "convergence",
            figure: figure.as_secs_f64(),
            unit: "s",
            floor: Some(floor.as_secs_f64()),
            ratio: Some(ratio),
            target: format!(
                "≤ {TARGET} × floor, ≤ {HUB_WRITES_MAX} hub writes per server and member, no read"
            ),
            ok: ratio <= TARGET && hub_writes <= HUB_WRITES_MAX && reads == 0.0,
            more: more.as_object().cloned().unwrap_or_default(),
        }
    }

    fn show_rounds(&self, rounds: &[Round], floors: &[Duration]) {
        say(&format!(
            "{} servers in {} members, seconds from the first apply to the last write",
            self.servers, self.members
        ));
        let rows = rounds.iter().zip(floors).zip(1..);
        show(
            &[
                "round",
                "product",
                "bare client",
                "ratio",
                "CPU of hub and agents",
            ],
            rows.map(|((round, floor), number): ((&Round, &Duration), u32)| {
                vec![
                    number.to_string(),
                    format!("{:.2}", round.time.as_secs_f64()),
                    format!("{:.2}", floor.as_secs_f64()),
                    format!("{:.2}", ratio(round.time, *floor)),
                    format!("{:.2}", round.cpu.as_secs_f64()),
                ]
            }),
        );
    }
}

fn show_requests(requests: &[Request], servers: usize) {
    let servers = f64::from(u32::try_from(servers).unwrap_or(u32::MAX));
    let rows = audit::counts(requests)
        .into_iter()
        .filter(|((_, verb, _), _)| verb != "watch");
    show(
        &["requests until Ready", "verb", "resource", "per server"],
        rows.map(|((component, verb, resource), count)| {
            let count = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
            vec![component, verb, resource, format!("{:.2}", count / servers)]
        }),
    );
}
