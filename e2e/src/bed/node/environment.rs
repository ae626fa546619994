//! A container's environment, command and arguments, from its spec and what that refers to.
//!
//! [`References::fetch`] does the reading; everything else is pure.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Pod, Secret};
use kube::{Api, Client, ResourceExt};

use crate::bed::addresses::Addresses;

/// The `Secrets` and `ConfigMaps` that a Pod refers to, by name. An absent one is none.
#[derive(Debug, Default)]
pub(super) struct References {
    secrets: BTreeMap<String, Option<BTreeMap<String, Vec<u8>>>>,
    config_maps: BTreeMap<String, Option<BTreeMap<String, Vec<u8>>>>,
}

type Keys = BTreeMap<String, Vec<u8>>;

impl References {
    /// Reads what the container's environment refers to.
    pub(super) async fn fetch(client: &Client, namespace: &str, container: &Container) -> Result<Self> {
        let mut references = Self::default();
        for source in container.env.iter().flatten().filter_map(|env| env.value_from.as_ref()) {
            if let Some(key) = &source.secret_key_ref {
                references.fetch_secret(client, namespace, &key.name).await?;
            }
            if let Some(key) = &source.config_map_key_ref {
                references.fetch_config_map(client, namespace, &key.name).await?;
            }
        }
        for source in container.env_from.iter().flatten() {
            if let Some(secret) = &source.secret_ref {
                references.fetch_secret(client, namespace, &secret.name).await?;
            }
            if let Some(config_map) = &source.config_map_ref {
                references.fetch_config_map(client, namespace, &config_map.name).await?;
            }
        }
        Ok(references)
    }

    async fn fetch_secret(&mut self, client: &Client, namespace: &str, name: &str) -> Result<()> {
        self.secrets.insert(name.to_owned(), secret(client, namespace, name).await?);
        Ok(())
    }

    async fn fetch_config_map(&mut self, client: &Client, namespace: &str, name: &str) -> Result<()> {
        self.config_maps.insert(name.to_owned(), config_map(client, namespace, name).await?);
        Ok(())
    }
}

/// A Secret's keys, if it exists.
pub(super) async fn secret(client: &Client, namespace: &str, name: &str) -> Result<Option<Keys>> {
    let secret = Api::<Secret>::namespaced(client.clone(), namespace).get_opt(name).await?;
    Ok(secret.map(|secret| secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()))
}

/// A `ConfigMap`'s keys, if it exists.
pub(super) async fn config_map(client: &Client, namespace: &str, name: &str) -> Result<Option<Keys>> {
    let map = Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt(name).await?;
    Ok(map.map(|map| {
        let text = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
        let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
        text.chain(binary).collect()
    }))
}

/// A Pod's place, for the downward API.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) address: String,
    pub(super) addresses: Addresses,
}

/// The container's environment in the order of its spec; later entries may use earlier ones.
pub(super) fn environment(
    pod: &Pod,
    container: &Container,
    place: &Place,
    references: &References,
) -> Result<Vec<(String, String)>> {
    let api = place.addresses.api_service().to_string();
    let mut env: Vec<(String, String)> = vec![
        ("PATH".into(), format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", super::sandbox::PROGRAM)),
        ("HOSTNAME".into(), pod.name_any()),
        ("HOME".into(), "/root".into()),
        ("KUBERNETES_SERVICE_HOST".into(), api.clone()),
        ("KUBERNETES_SERVICE_PORT".into(), "443".into()),
        ("KUBERNETES_SERVICE_PORT_HTTPS".into(), "443".into()),
        ("KUBERNETES_PORT".into(), format!("tcp://{api}:443")),
    ];
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let (keys, optional, what) = match (&source.secret_ref, &source.config_map_ref) {
            (Some(secret), _) => (references.secrets.get(&secret.name), secret.optional, &secret.name),
            (None, Some(map)) => (references.config_maps.get(&map.name), map.optional, &map.name),
            (None, None) => continue,
        };
        match keys.and_then(Option::as_ref) {
            Some(keys) => {
                let text = keys.iter().map(|(key, value)| (key, String::from_utf8_lossy(value).into_owned()));
                env.extend(text.map(|(key, value)| (format!("{prefix}{key}"), value)));
            }
            None if optional == Some(true) => {}
            None => bail!("{what:?} for envFrom not found"),
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (_, Some(source)) => match from_source(pod, container, place, references, source)? {
                Some(value) => value,
                None => continue,
            },
            (value, None) => expand(value.as_deref().unwrap_or_default(), &env),
        };
        env.push((variable.name.clone(), value));
    }
    Ok(env)
}

fn from_source(
    pod: &Pod,
    container: &Container,
    place: &Place,
    references: &References,
    source: &EnvVarSource,
) -> Result<Option<String>> {
    if let Some(field) = &source.field_ref {
        return pod_field(pod, Some(place), &field.field_path).map(Some);
    }
    if let Some(resource) = &source.resource_field_ref {
        let resources = container.resources.as_ref();
        let (kind, name) = resource.resource.split_once('.').unwrap_or_default();
        let amounts = match kind {
            "limits" => resources.and_then(|resources| resources.limits.as_ref()),
            _ => resources.and_then(|resources| resources.requests.as_ref()),
        };
        return Ok(amounts.and_then(|amounts| amounts.get(name)).map(|amount| amount.0.clone()));
    }
    let (objects, name, key, optional) = match (&source.secret_key_ref, &source.config_map_key_ref) {
        (Some(secret), _) => (&references.secrets, &secret.name, &secret.key, secret.optional),
        (None, Some(map)) => (&references.config_maps, &map.name, &map.key, map.optional),
        (None, None) => bail!("a valueFrom that this node doesn't know"),
    };
    match objects.get(name).and_then(Option::as_ref).and_then(|keys| keys.get(key)) {
        Some(value) => Ok(Some(String::from_utf8_lossy(value).into_owned())),
        None if optional == Some(true) => Ok(None),
        None => bail!("key {key:?} of {name:?} not found"),
    }
}

/// A field of the Pod by its downward API path. Without a place, as for volumes, only metadata.
pub(super) fn pod_field(pod: &Pod, place: Option<&Place>, path: &str) -> Result<String> {
    let keyed = |values: &BTreeMap<String, String>, key: &str| {
        values.get(key.trim_matches(['\'', '"'])).cloned().unwrap_or_default()
    };
    let all = |values: &BTreeMap<String, String>| {
        values.iter().map(|(key, value)| format!("{key}={value:?}")).collect::<Vec<_>>().join("\n")
    };
    let between = |start: &str| path.strip_prefix(start).and_then(|rest| rest.strip_suffix(']'));
    if let Some(key) = between("metadata.labels[") {
        return Ok(keyed(pod.labels(), key));
    }
    if let Some(key) = between("metadata.annotations[") {
        return Ok(keyed(pod.annotations(), key));
    }
    let spec = pod.spec.as_ref();
    Ok(match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap_or_default(),
        "metadata.uid" => pod.uid().unwrap_or_default(),
        "metadata.labels" => all(pod.labels()),
        "metadata.annotations" => all(pod.annotations()),
        "spec.nodeName" => super::NODE.to_owned(),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default(),
        "status.podIP" | "status.podIPs" => place.context("no address here")?.address.clone(),
        "status.hostIP" | "status.hostIPs" => place.context("no address here")?.addresses.node().to_string(),
        _ => bail!("a field that this node doesn't know: {path}"),
    })
}

/// Replaces `$(NAME)` by the value of a variable that is set; `$$` is a plain `$`.
pub(super) fn expand(text: &str, env: &[(String, String)]) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after;
            continue;
        }
        let name = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        let value = name.and_then(|(name, _)| env.iter().rev().find(|(key, _)| key == name));
        match (name, value) {
            (Some((_, after)), Some((_, value))) => {
                expanded.push_str(value);
                rest = after;
            }
            _ => {
                expanded.push('$');
                rest = after;
            }
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> String {
        expand(text, &[("A".into(), "1".into()), ("B".into(), "$(A)".into())])
    }

    #[test]
    fn references_are_replaced_once_and_unknown_ones_stay() {
        assert_eq!(expanded("--a=$(A) $(B) $(C) $(A"), "--a=1 $(A) $(C) $(A");
    }

    #[test]
    fn two_dollars_escape_a_reference() {
        assert_eq!(expanded("$$(A) $$$(A) $"), "$(A) $1 $");
    }

    #[test]
    fn the_downward_api_reads_labels_by_key() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "n", "labels": {"app.kubernetes.io/name": "hub"}},
        }))
        .unwrap();
        assert_eq!(pod_field(&pod, None, "metadata.labels['app.kubernetes.io/name']").unwrap(), "hub");
        assert_eq!(pod_field(&pod, None, "metadata.namespace").unwrap(), "n");
        assert!(pod_field(&pod, None, "status.phase").is_err());
    }
}
