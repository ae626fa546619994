//! `join`: a MemberCluster with a one-time token, and the values that let an agent use it.

use std::{fmt::Write as _, str::FromStr, time::Duration};

use anyhow::{Context, bail};
use crds::{
    ClusterName,
    v1alpha1::{GatewayReference, JoinToken, MemberCluster},
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Service},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use operator::ownership::hexadecimal;
use serde::Serialize;
use serde_json::json;

/// The hub's Service and ConfigMap, as its chart and the hub itself name them.
const HUB: &str = "inferfleet-hub";
/// Annotation of the hub's Service: the address that agents dial, when it is not its load balancer's.
const ADDRESS: &str = "inferfleet.io/address";
/// The field manager of the token.
const TOKEN_MANAGER: &str = "kubectl-inferfleet-token";
/// The field manager of the Gateway.
const GATEWAY_MANAGER: &str = "kubectl-inferfleet-gateway";
/// How long a token opens anything.
const TOKEN_LIFETIME: Duration = Duration::from_hours(1);
const TOKEN_BYTES: usize = 32;

/// Invite a cluster, and print the values for the agent's chart there.
#[derive(Debug, clap::Args)]
pub(crate) struct Join {
    /// The cluster's name in the fleet. Joining again under a name makes a new token.
    cluster: ClusterName,

    /// The Gateway that admits traffic there: namespace/name or namespace/name/listener.
    #[arg(long, value_name = "NAMESPACE/NAME[/LISTENER]")]
    gateway: Option<Gateway>,

    /// The namespace of the hub.
    #[arg(long, short, default_value = "inferfleet-system")]
    namespace: String,

    /// Where the agent dials the hub, as host:port. Found from the hub's Service when absent.
    #[arg(long)]
    hub_address: Option<String>,
}

#[derive(Clone, Debug)]
struct Gateway(GatewayReference);

impl FromStr for Gateway {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split('/').collect();
        let (namespace, name, listener) = match parts.as_slice() {
            [namespace, name] => (namespace, name, None),
            [namespace, name, listener] => (namespace, name, Some((*listener).to_owned())),
            _ => return Err("write it as namespace/name or namespace/name/listener".to_owned()),
        };
        if parts.iter().any(|part| part.is_empty()) {
            return Err("namespace, name and listener can't be empty".to_owned());
        }
        Ok(Self(GatewayReference {
            namespace: (*namespace).to_owned(),
            name: (*name).to_owned(),
            listener,
        }))
    }
}

/// The values of the agent's chart.
#[derive(Serialize)]
struct Values {
    hub: HubValues,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HubValues {
    address: String,
    server_name: String,
    ca: String,
    token: String,
}

impl Join {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = crate::hub().await?;
        let hub = self.hub(&client).await?;
        let token = token()?;
        self.invite(client, &token).await?;
        let values = Values {
            hub: HubValues { token, ..hub },
        };
        print(&format!(
            "# Values for the chart inferfleet-agent in cluster {}. The token is good for one key, until {}.\n{}",
            self.cluster,
            expiry(),
            serde_saphyr::to_string(&values)?
        ));
        Ok(())
    }

    /// Everything but the token.
    async fn hub(&self, client: &Client) -> anyhow::Result<HubValues> {
        let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), &self.namespace);
        let published = config_maps
            .get_opt(HUB)
            .await
            .context("read ConfigMap inferfleet-hub")?;
        let Some(data) = published.and_then(|published| published.data) else {
            bail!(
                "namespace {} has no ConfigMap {HUB}: is the hub installed there, and has it started? Name its namespace with --namespace",
                self.namespace
            );
        };
        let value = |name: &str| {
            data.get(name)
                .cloned()
                .with_context(|| format!("ConfigMap {}/{HUB} has no {name}", self.namespace))
        };
        let address = match &self.hub_address {
            Some(address) => address.clone(),
            None => self.address(client).await?,
        };
        Ok(HubValues {
            address,
            server_name: value("serverName")?,
            ca: value("ca.crt")?,
            token: String::new(),
        })
    }

    /// Where agents dial the hub, as its Service says.
    async fn address(&self, client: &Client) -> anyhow::Result<String> {
        let services: Api<Service> = Api::namespaced(client.clone(), &self.namespace);
        let service = services
            .get(HUB)
            .await
            .context("read Service inferfleet-hub")?;
        if let Some(address) = service.annotations().get(ADDRESS) {
            return Ok(address.clone());
        }
        let port = service
            .spec
            .iter()
            .flat_map(|spec| spec.ports.iter().flatten())
            .map(|port| port.port)
            .next();
        let balancer = service
            .status
            .and_then(|status| status.load_balancer)
            .and_then(|balancer| balancer.ingress);
        let host = balancer
            .into_iter()
            .flatten()
            .find_map(|ingress| ingress.hostname.or(ingress.ip));
        let (Some(host), Some(port)) = (host, port) else {
            bail!(
                "Service {}/{HUB} has no load balancer address yet: wait for it, set `address` in the hub's values, or give --hub-address host:port",
                self.namespace
            );
        };
        Ok(if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        })
    }

    /// Writes the MemberCluster. Only the token's hash leaves this process.
    ///
    /// The token and the Gateway have a field manager each: joining again without a Gateway leaves the one that is there.
    async fn invite(&self, client: Client, token: &str) -> anyhow::Result<()> {
        let join_token = JoinToken {
            sha256: hexadecimal(token.as_bytes()),
            expires_at: Time(expiry()),
        };
        let token = json!({"joinToken": join_token});
        self.write(&client, TOKEN_MANAGER, token).await?;
        if let Some(Gateway(gateway)) = &self.gateway {
            self.write(&client, GATEWAY_MANAGER, json!({"gateway": gateway}))
                .await?;
        }
        Ok(())
    }

    async fn write(
        &self,
        client: &Client,
        manager: &str,
        spec: serde_json::Value,
    ) -> anyhow::Result<()> {
        let document = json!({
            "apiVersion": "inferfleet.io/v1alpha1",
            "kind": "MemberCluster",
            "metadata": {"name": self.cluster.as_str()},
            "spec": spec,
        });
        let members: Api<MemberCluster> = Api::all(client.clone());
        let parameters = PatchParams::apply(manager).force();
        let written = members
            .patch(self.cluster.as_str(), &parameters, &Patch::Apply(document))
            .await;
        written.with_context(|| format!("write MemberCluster {}", self.cluster))?;
        Ok(())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a command reads the clock at its edge"
)]
fn expiry() -> Timestamp {
    let seconds = i64::try_from(TOKEN_LIFETIME.as_secs()).unwrap_or_default();
    let now = Timestamp::now().as_second();
    Timestamp::from_second(now + seconds).unwrap_or(Timestamp::MAX)
}

/// A token that can't be guessed, in hexadecimal.
fn token() -> anyhow::Result<String> {
    let mut bytes = [0u8; TOKEN_BYTES];
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        bail!("the system has no random numbers");
    }
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String can't fail.
        let _written = write!(text, "{byte:02x}");
        text
    }))
}

#[expect(clippy::print_stdout, reason = "the values are this command's result")]
fn print(text: &str) {
    print!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_written_with_slashes() {
        let Gateway(gateway) = "infra/public/http".parse().unwrap();
        assert_eq!(
            (gateway.namespace.as_str(), gateway.listener.as_deref()),
            ("infra", Some("http"))
        );
        for bad in ["public", "a/b/c/d", "/b", "a/"] {
            assert!(bad.parse::<Gateway>().is_err(), "{bad}");
        }
    }

    #[test]
    fn two_tokens_differ_and_have_all_their_bits() {
        let (a, b) = (token().unwrap(), token().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.len(), 2 * TOKEN_BYTES);
    }
}
