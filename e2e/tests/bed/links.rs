//! Links to the hub that are cut in each way, and an API server that is far away. Links are member 2's.

use std::net::SocketAddr;
use std::time::Duration;

use e2e::{Cluster, Cut, Forward};
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{SOON, ask, fleet, namespace, web};

/// Long enough for an answer from the same machine.
const A_WHILE: Duration = Duration::from_secs(2);

/// The one link that is cut: a test at a time.
static LINK: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A client of the hub's API server that dials it from the machine of a member.
async fn client_over_the_link(hub: &Cluster, member: &Cluster) -> (Client, Forward) {
    let own: Api<EndpointSlice> = Api::namespaced(hub.client().await.unwrap(), "default");
    let slice = own.get("kubernetes").await.unwrap();
    let ip = slice.endpoints.first().unwrap().addresses.first().unwrap();
    let port = slice.ports.unwrap().first().unwrap().port.unwrap();
    let address: SocketAddr = format!("{ip}:{port}").parse().unwrap();
    let forward = member.forward(address).unwrap();
    let kubeconfig = Kubeconfig::read_from(hub.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    config.cluster_url = format!("https://{}", forward.address()).parse().unwrap();
    (Client::try_from(config).unwrap(), forward)
}

/// Does the watch name that namespace in time?
async fn is_seen(
    watch: &mut BoxStream<'_, kube::Result<WatchEvent<Namespace>>>,
    name: &str,
    time: Duration,
) -> bool {
    let named = async {
        while let Some(event) = watch.next().await {
            if let WatchEvent::Added(namespace) = event.unwrap()
                && namespace.name_any() == name
            {
                return true;
            }
        }
        false
    };
    tokio::time::timeout(time, named).await.unwrap_or(false)
}

#[tokio::test]
async fn a_link_that_is_cut_silently_loses_what_goes_that_way_and_no_more() {
    let (fleet, _link) = (fleet().await, LINK.lock().await);
    let (hub, member) = (fleet.hub(), &fleet.members()[1]);
    let near = hub.client().await.unwrap();
    let (far, _forward) = client_over_the_link(hub, member).await;
    let namespaces = Api::<Namespace>::all(far);
    let mut watch = namespaces
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap()
        .boxed();
    let asks = || tokio::time::timeout(A_WHILE, namespaces.get("default"));
    assert!(is_seen(&mut watch, "default", SOON).await);
    assert!(asks().await.is_ok());

    // What the hub says arrives, and what it is asked does not.
    member.cut_link(Cut::ToHub).await.unwrap();
    namespace(&near, "one-way").await;
    assert!(is_seen(&mut watch, "one-way", SOON).await);
    assert!(asks().await.is_err(), "a request came through");

    for (cut, name) in [(Cut::FromHub, "other-way"), (Cut::BothWays, "no-way")] {
        member.cut_link(cut).await.unwrap();
        namespace(&near, name).await;
        let seen = is_seen(&mut watch, name, A_WHILE).await;
        assert!(!seen, "{name} came through");
        // Nothing of it is lost for good: the connection has lived through it.
        member.restore_link().await.unwrap();
        assert!(is_seen(&mut watch, name, SOON).await, "{name} is lost");
    }
    let asks = || async { Ok(namespaces.get("default").await?) };
    e2e::wait::eventually("an answer", SOON, asks)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_link_that_is_cut_loudly_resets_what_is_open_and_what_is_new() {
    let (fleet, _link) = (fleet().await, LINK.lock().await);
    let (hub, member) = (fleet.hub(), &fleet.members()[1]);
    web(hub, "reset", 1, "LoadBalancer").await;
    let services = Api::<Service>::namespaced(hub.client().await.unwrap(), "reset");
    let ip = |service: &Service| {
        let balancer = service.status.as_ref()?.load_balancer.as_ref()?;
        balancer.ingress.as_ref()?.first()?.ip.clone()
    };
    let given = move |service: Option<&Service>| service.and_then(ip).is_some();
    let service = e2e::wait::until(services, "web", SOON, given)
        .await
        .unwrap()
        .unwrap();
    let address: SocketAddr = format!("{}:80", ip(&service).unwrap()).parse().unwrap();
    let answer = || ask(member, address, "/");
    e2e::wait::eventually("an answer", SOON, answer)
        .await
        .unwrap();

    // Half a request: nothing but the cut ends this connection soon.
    let mut open = member.connect(address).await.unwrap();
    open.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    member.cut_link(Cut::Loudly).await.unwrap();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(SOON, open.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection outlived the cut");
    assert!(rest.is_empty(), "{rest:?}");
    let refused = tokio::time::timeout(SOON, ask(member, address, "/")).await;
    assert!(refused.unwrap().is_err(), "a request came through");
    // It is this member's link, not the hub.
    ask(&fleet.members()[0], address, "/").await.unwrap();

    member.restore_link().await.unwrap();
    e2e::wait::eventually("an answer", SOON, answer)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_api_server_that_is_far_away_answers_its_pods_late() {
    const DELAY: Duration = Duration::from_millis(700);
    let member = &fleet().await.members()[0];
    let as_pod = Api::<Namespace>::all(member.direct_client().await.unwrap());
    let as_holder = Api::<Namespace>::all(member.client().await.unwrap());
    let takes = async |namespaces: &Api<Namespace>| {
        let begin = e2e::clock::monotonic();
        namespaces.get("default").await.unwrap();
        e2e::clock::monotonic().saturating_duration_since(begin)
    };
    takes(&as_pod).await;
    member.delay_api_server(DELAY).await.unwrap();
    // The connection is open already: once there, and once back.
    let late = takes(&as_pod).await;
    let unaware = takes(&as_holder).await;
    member.delay_api_server(Duration::ZERO).await.unwrap();
    assert!(late >= DELAY * 2, "{late:?}");
    assert!(unaware < DELAY * 2, "{unaware:?}");
    let near = takes(&as_pod).await;
    assert!(near < DELAY * 2, "{near:?}");
}
