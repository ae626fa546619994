//! One cluster of a fleet, from outside: clients, gateway, charts; faults are in `faults`.

mod faults;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use http_body_util::BodyExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::runtime::Handle;
use tower::Layer;

use crate::control::{Access, ClusterSpec, Outcome, Request, ask};
use crate::forward::{Forward, connect};
use crate::programs::Programs;

/// What the clusters of a fleet share.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) folder: PathBuf,
    pub(crate) runtime: Handle,
    pub(crate) programs: Programs,
}

#[derive(Debug)]
pub struct Cluster {
    holder: Arc<Holder>,
    number: usize,
    name: String,
    folder: PathBuf,
    access: Access,
    kubeconfig: PathBuf,
    // Leads to the API server for as long as the cluster exists.
    _api: Forward,
}

impl Cluster {
    pub(crate) async fn start(
        holder: Arc<Holder>,
        spec: ClusterSpec,
        hear: impl FnMut(&str),
    ) -> Result<Self> {
        let (number, name, folder) = (spec.number, spec.name.clone(), spec.folder.clone());
        let (_, outcome) =
            ask(&holder.folder, &Request::StartCluster(Box::new(spec)), hear).await?;
        let Outcome::Started(access) = outcome else {
            bail!("the supervisor answered something else")
        };
        let access = *access;
        let api = Forward::start(&holder.runtime, holder.folder.clone(), number, access.api)?;
        let kubeconfig = folder.join("kubeconfig");
        let config = kubeconfig_text(&name, api.address(), &access)?;
        std::fs::write(&kubeconfig, config)?;
        Ok(Self {
            holder,
            number,
            name,
            folder,
            access,
            kubeconfig,
            _api: api,
        })
    }

    /// `hub` or `member-N`, counted from 1.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A kubeconfig with every right, for use outside the bed.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Logs and data of this cluster.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What a container of a Pod on the process node has printed, over all its restarts.
    pub fn pod_log(&self, namespace: &str, pod: &str, container: &str) -> PathBuf {
        self.folder
            .join("pods")
            .join(format!("{namespace}_{pod}_{container}.log"))
    }

    /// The API server's audit log, if the fleet has one.
    pub fn audit_log(&self) -> PathBuf {
        self.folder.join("audit.log")
    }

    /// A client with every right. A new one each time: a client belongs to the runtime that made it.
    pub async fn client(&self) -> Result<kube::Client> {
        self.client_as(None).await
    }

    /// A client that acts as another user, `system:serviceaccount:NAMESPACE:NAME` for example.
    pub async fn client_as(&self, user: Option<&str>) -> Result<kube::Client> {
        crate::install_crypto();
        let mut kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        if let Some(user) = user {
            let infos = kubeconfig
                .auth_infos
                .iter_mut()
                .filter_map(|info| info.auth_info.as_mut());
            infos.for_each(|info| info.impersonate = Some(user.to_owned()));
        }
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// A client with every right that goes the way of a Pod's requests, through the Service `kubernetes`, and through
    /// nothing else. For measurements.
    pub async fn direct_client(&self) -> Result<kube::Client> {
        crate::install_crypto();
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let (folder, number) = (self.holder.folder.clone(), self.number);
        let api = self.access.api_service;
        // Whatever the URL says, which names the relay's port.
        let connector = tower::service_fn(move |_url: http::Uri| {
            let folder = folder.clone();
            async move {
                let connection = crate::hand::connect(&folder, number, api).await;
                connection.map(TokioIo::new).map_err(std::io::Error::other)
            }
        });
        let https = config.rustls_https_connector_with_connector(connector)?;
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(https);
        let service = config.base_uri_layer().layer(http);
        Ok(kube::Client::new(service, "default"))
    }

    /// Opens a TCP connection to an address, from the cluster's own machine.
    pub async fn connect(&self, address: SocketAddr) -> Result<UnixStream> {
        connect(&self.holder.folder, self.number, address).await
    }

    /// A loopback port of this machine that leads to an address in the cluster.
    pub fn forward(&self, address: SocketAddr) -> Result<Forward> {
        Forward::start(
            &self.holder.runtime,
            self.holder.folder.clone(),
            self.number,
            address,
        )
    }

    /// Sends one HTTP request to an address, from the cluster's own machine.
    pub async fn send(
        &self,
        address: SocketAddr,
        request: http::Request<String>,
    ) -> Result<http::Response<String>> {
        let stream = TokioIo::new(self.connect(address).await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        let connection = tokio::spawn(connection);
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        connection.abort();
        Ok(http::Response::from_parts(
            head,
            String::from_utf8_lossy(&body).into_owned(),
        ))
    }

    /// `GET path` at an address, from the cluster's own machine.
    pub async fn get(&self, address: SocketAddr, path: &str) -> Result<http::Response<String>> {
        let request = http::Request::get(path)
            .header(http::header::HOST, address.to_string())
            .body(String::new())?;
        self.send(address, request).await
    }

    /// Where the gateway listens at the start: reachable from every cluster of the fleet.
    pub fn gateway_address(&self) -> SocketAddr {
        self.access.gateway
    }

    /// Another address that leads to the same gateway; any number up to 100.
    pub fn other_gateway_address(&self, number: u8) -> Result<SocketAddr> {
        let IpAddr::V4(first) = self.access.gateway.ip() else {
            bail!("the gateway has an IPv4 address")
        };
        ensure!(number <= 100, "a gateway has 100 other addresses");
        let [a, b, c, d] = first.octets();
        Ok(SocketAddr::new(
            IpAddr::from([a, b, c, d.saturating_add(number)]),
            self.access.gateway.port(),
        ))
    }

    /// Has the Gateway announce this address from now on, as when a cloud's load balancer is replaced:
    /// Contour copies the Envoy Service's status to `Gateway.status.addresses`. Both addresses carry
    /// traffic all the while.
    pub async fn set_gateway_address(&self, address: IpAddr) -> Result<()> {
        let services = Api::<Service>::namespaced(self.client().await?, "projectcontour");
        let status =
            json!({"status": {"loadBalancer": {"ingress": [{"ip": address.to_string()}]}}});
        services
            .patch_status("envoy", &PatchParams::default(), &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// Installs a chart, or upgrades its release, with values in YAML.
    pub async fn helm_install(
        &self,
        release: &str,
        namespace: &str,
        chart: &Path,
        values: &str,
    ) -> Result<String> {
        let file = self
            .folder
            .join(format!("{namespace}-{release}-values.yaml"));
        std::fs::write(&file, values)?;
        let chart = chart.to_str().context("the chart's path is not UTF-8")?;
        let values = file.to_str().context("the fleet's folder is not UTF-8")?;
        self.helm(&[
            "upgrade",
            "--install",
            "--create-namespace",
            "-n",
            namespace,
            "-f",
            values,
            release,
            chart,
        ])
        .await
    }

    /// Runs helm against this cluster and returns what it printed.
    pub async fn helm(&self, args: &[&str]) -> Result<String> {
        self.tool("helm", args, "").await
    }

    /// Runs kubectl against this cluster and returns what it printed.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.tool("kubectl", args, "").await
    }

    /// Runs kubectl with this at its standard input, which `-f -` reads.
    pub async fn kubectl_with(&self, args: &[&str], input: &str) -> Result<String> {
        self.tool("kubectl", args, input).await
    }

    async fn tool(&self, name: &str, args: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(self.holder.programs.path(name)?);
        command
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for variable in [
            "HELM_CACHE_HOME",
            "HELM_CONFIG_HOME",
            "HELM_DATA_HOME",
            "KUBECACHEDIR",
        ] {
            command.env(variable, self.folder.join(variable.to_lowercase()));
        }
        let mut running = command.spawn().with_context(|| format!("run {name}"))?;
        let mut stdin = running.stdin.take().context("a pipe")?;
        // Both at once: it may print before it has read all. One that ends without reading says itself why it failed.
        let feed = async move {
            drop(stdin.write_all(input.as_bytes()).await);
        };
        let ((), output) = tokio::join!(feed, running.wait_with_output());
        let output = output.with_context(|| format!("run {name}"))?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{name} {} failed: {}",
            args.join(" "),
            error.trim()
        );
        Ok(String::from_utf8(output.stdout)?)
    }
}

fn kubeconfig_text(name: &str, api: SocketAddr, access: &Access) -> Result<Vec<u8>> {
    let base64 =
        |text: &str| serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec()));
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {
            "server": format!("https://{api}"),
            "certificate-authority-data": base64(&access.ca_pem)?,
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": base64(&access.certificate_pem)?,
            "client-key-data": base64(&access.key_pem)?,
        }}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
        "current-context": name,
    });
    Ok(serde_json::to_vec_pretty(&config)?)
}
