//! How long a new gateway address takes from its member to the hub's EndpointSlice.
//!
//! Two members, two servants: in the first the product follows the Gateway, in the second, where no server runs, a bare
//! client that watches the Gateway and applies a slice of its own in the hub. Their addresses change in turn.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gateway_api::gateways::Gateway;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::setting::{self, Setting};
use super::statistics::{Samples, milliseconds, ratio};
use super::verdict::{Verdict, say, show, tell};
use super::watched::{Watched, named};
use crate::Cluster;
use crate::clock::monotonic;

const NAMESPACE: &str = "propagation";
const BARE: &str = "bare";
const TARGET: f64 = 1.5;
const GOLDEN_RATIO: f64 = 0.618_033_988_749_895;

/// What a person asks of the benchmark.
#[derive(Debug, clap::Args)]
pub(super) struct Propagation {
    /// Changes of the product's address, and as many of the bare client's
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Milliseconds from one change to the next, at least, and a third more at most. The hub holds back the second write of a
    /// slice within a second, and one slice is written every other change
    #[arg(long, default_value_t = 600)]
    pause_ms: u64,
}

/// One change: from its announcement and from the Gateway that holds it, to the slice.
#[derive(Clone, Copy, Debug)]
struct Change {
    announced: Duration,
    held: Duration,
}

impl Propagation {
    pub(super) async fn run(self, product: Option<&Path>) -> Result<Verdict> {
        let installed = setting::start(
            Setting {
                members: 2,
                audit: false,
                fake_pods: 0,
            },
            product,
        )
        .await?;
        installed.namespace(NAMESPACE).await?;
        let [product, bare] = installed.fleet().members() else {
            anyhow::bail!("the fleet has two members")
        };
        let server = setting::server(NAMESPACE, "hello", "echo", &["member-1"], 1)?;
        installed.apply(&server).await?;
        installed.ready(NAMESPACE, "hello").await?;
        let hub = installed.hub().direct_client().await?;
        let mut figure = Route::begin(product, &hub, "hello-endpoints-member-1-ipv4-0").await?;
        apply_bare(&hub, bare.gateway_address().ip()).await?;
        let mut floor = Route::begin(bare, &hub, BARE).await?;
        let follower = tokio::spawn(follow(bare.direct_client().await?, hub.clone()));

        tell("changing addresses");
        let (mut figures, mut floors) = (Vec::new(), Vec::new());
        let mut pauses = self.pauses();
        for round in 0..self.rounds {
            figures.push(figure.change(round).await?);
            pause(&mut pauses).await;
            floors.push(floor.change(round).await?);
            pause(&mut pauses).await;
            anyhow::ensure!(!follower.is_finished(), "the bare client has ended");
        }
        follower.abort();
        Ok(verdict(&figures, &floors))
    }

    /// Evenly spread by the golden ratio. Were all alike, what a cluster does by the clock, such as its controllers' renewals every
    /// two seconds, would always meet the same one of the two.
    fn pauses(&self) -> impl Iterator<Item = Duration> + use<> {
        let pause = Duration::from_millis(self.pause_ms);
        (0u32..).map(move |turn| {
            let part = (f64::from(turn) * GOLDEN_RATIO).fract();
            pause + (pause / 3).mul_f64(part)
        })
    }
}

/// Time is the subject here: a slice that was written within the last second waits for its next write.
async fn pause(pauses: &mut impl Iterator<Item = Duration>) {
    tokio::time::sleep(pauses.next().unwrap_or_default()).await;
}

/// From one member's Gateway to one slice, as both are seen.
struct Route<'a> {
    member: &'a Cluster,
    services: Api<Service>,
    gateway: Watched<Gateway>,
    slice: Watched<EndpointSlice>,
}

impl<'a> Route<'a> {
    async fn begin(member: &'a Cluster, hub: &Client, slice: &str) -> Result<Self> {
        let client = member.direct_client().await?;
        let slices = Api::namespaced(hub.clone(), NAMESPACE);
        Ok(Self {
            member,
            services: Api::namespaced(client.clone(), "projectcontour"),
            gateway: Watched::begin(
                "the Gateway",
                Api::namespaced(client, "infra"),
                named("public"),
            )
            .await?,
            slice: Watched::begin("the slice", slices, named(slice)).await?,
        })
    }

    /// Announces another address, as `Cluster::set_gateway_address` does, on a connection that is open already.
    async fn change(&mut self, round: u32) -> Result<Change> {
        let address = self
            .member
            .other_gateway_address(if round.is_multiple_of(2) { 1 } else { 2 })?
            .ip();
        let status =
            json!({"status": {"loadBalancer": {"ingress": [{"ip": address.to_string()}]}}});
        let begin = monotonic();
        let announce = async {
            let parameters = PatchParams::default();
            self.services
                .patch_status("envoy", &parameters, &Patch::Merge(status))
                .await?;
            Ok(())
        };
        let ((), (_, held), (_, published)) = tokio::try_join!(
            announce,
            self.gateway
                .until(|gateway| address_of(gateway) == Some(address)),
            self.slice.until(|slice| holds(slice, address)),
        )?;
        Ok(Change {
            announced: since(published, begin),
            held: since(published, held),
        })
    }
}

/// Zero when the second watch was quicker than the first.
fn since(later: Instant, earlier: Instant) -> Duration {
    later.saturating_duration_since(earlier)
}

fn address_of(gateway: &Gateway) -> Option<IpAddr> {
    let addresses = gateway.status.as_ref()?.addresses.as_ref()?;
    addresses.first()?.value.parse().ok()
}

fn holds(slice: &EndpointSlice, address: IpAddr) -> bool {
    let text = address.to_string();
    slice
        .endpoints
        .iter()
        .any(|endpoint| endpoint.addresses.contains(&text))
}

/// The bare client: each address that the Gateway gets goes into its slice.
async fn follow(member: Client, hub: Client) -> Result<()> {
    let gateways = Api::namespaced(member, "infra");
    let mut gateway: Watched<Gateway> =
        Watched::begin("the bare client's Gateway", gateways, named("public")).await?;
    let mut last = None;
    loop {
        let address = address_of(&gateway.next().await?);
        if let Some(address) = address.filter(|address| last != Some(*address)) {
            apply_bare(&hub, address)
                .await
                .context("apply the bare client's slice")?;
            last = Some(address);
        }
    }
}

/// A slice like the hub's own.
async fn apply_bare(hub: &Client, address: IpAddr) -> Result<()> {
    let slice: EndpointSlice = serde_json::from_value(json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": BARE,
            "labels": {
                "app.kubernetes.io/managed-by": "bench",
                "kubernetes.io/service-name": "bare-endpoints",
                "endpointslice.kubernetes.io/managed-by": "bench",
            },
        },
        "addressType": "IPv4",
        "endpoints": [{
            "addresses": [address.to_string()],
            "conditions": {"ready": true, "serving": true, "terminating": false},
        }],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    }))?;
    let api: Api<EndpointSlice> = Api::namespaced(hub.clone(), NAMESPACE);
    api.patch(
        BARE,
        &PatchParams::apply("bench").force(),
        &Patch::Apply(slice),
    )
    .await?;
    Ok(())
}

fn verdict(figures: &[Change], floors: &[Change]) -> Verdict {
    let announced = |changes: &[Change]| {
        changes
            .iter()
            .map(|change| change.announced)
            .collect::<Samples>()
    };
    let held = |changes: &[Change]| {
        changes
            .iter()
            .map(|change| change.held)
            .collect::<Samples>()
    };
    let row = |what: &str, figure: &Samples, floor: &Samples, percent: usize| {
        let (figure, floor) = (figure.percentile(percent), floor.percentile(percent));
        vec![
            format!("{what}, p{percent}"),
            format!("{:.1}", milliseconds(figure)),
            format!("{:.1}", milliseconds(floor)),
            format!("{:.2}", ratio(figure, floor)),
        ]
    };
    let (figure, floor) = (announced(figures), announced(floors));
    let (figure_held, floor_held) = (held(figures), held(floors));
    say(&format!("{} changes each, in ms", figures.len()));
    show(
        &["", "product", "bare client", "ratio"],
        [
            row("address announced → slice", &figure, &floor, 50),
            row("address announced → slice", &figure, &floor, 99),
            row("Gateway seen → slice", &figure_held, &floor_held, 50),
            row("Gateway seen → slice", &figure_held, &floor_held, 99),
        ],
    );
    // What the gateway's own controller needs to bring the address to the Gateway is neither's: it would flatter.
    let (p99, floor99) = (figure_held.percentile(99), floor_held.percentile(99));
    let ratio99 = ratio(p99, floor99);
    let more = json!({
        "rounds": figures.len(),
        "p50": milliseconds(figure_held.median()),
        "floor_p50": milliseconds(floor_held.median()),
        "from_announcement": {
            "p50": milliseconds(figure.median()),
            "p99": milliseconds(figure.percentile(99)),
            "floor_p50": milliseconds(floor.median()),
            "floor_p99": milliseconds(floor.percentile(99)),
        },
    });
    Verdict {
        bench: "propagation",
        figure: milliseconds(p99),
        unit: "ms (p99)",
        floor: Some(milliseconds(floor99)),
        ratio: Some(ratio99),
        target: format!("p99 ≤ {TARGET} × floor"),
        ok: ratio99 <= TARGET,
        more: more.as_object().cloned().unwrap_or_default(),
    }
}
