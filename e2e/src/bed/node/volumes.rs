//! The volumes of a Pod: folders in memory with what the spec says, kept up to date.
//!
//! Files are laid out as a kubelet lays them out: `..data` is a link to a folder that is swapped as a
//! whole, and each file a link through it, so that a reader never sees half an update.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, KeyToPath, Pod, ServiceAccount, ServiceAccountTokenProjection, Volume, VolumeProjection,
};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

use super::environment::{config_map, pod_field, secret};
use crate::clock;

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A Pod's volumes by name, in one folder.
pub(super) struct Volumes {
    client: Client,
    folder: PathBuf,
    written: BTreeMap<String, Files>,
    turn: u64,
    tokens: BTreeMap<String, Token>,
}

#[derive(Debug)]
struct Token {
    value: String,
    renew_after: Instant,
}

impl Volumes {
    pub(super) fn new(client: Client, folder: PathBuf) -> Self {
        Self { client, folder, written: BTreeMap::new(), turn: 0, tokens: BTreeMap::new() }
    }

    pub(super) fn path(&self, volume: &str) -> PathBuf {
        self.folder.join(volume)
    }

    /// Brings every volume up to date. Fails while something that isn't optional is missing.
    pub(super) async fn write(&mut self, pod: &Pod) -> Result<()> {
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let path = self.path(&volume.name);
            std::fs::create_dir_all(&path)?;
            if volume.empty_dir.is_some() {
                continue;
            }
            let files = self
                .files(pod, volume)
                .await
                .with_context(|| format!("MountVolume.SetUp failed for volume {:?}", volume.name))?;
            if self.written.get(&volume.name) != Some(&files) {
                self.turn += 1;
                swap(&path, self.turn, &files)?;
                self.written.insert(volume.name.clone(), files);
            }
        }
        Ok(())
    }

    async fn files(&mut self, pod: &Pod, volume: &Volume) -> Result<Files> {
        let namespace = pod.namespace().unwrap_or_default();
        if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            let keys = secret(&self.client, &namespace, name).await?;
            return pick(keys, source.items.as_deref(), source.optional, name);
        }
        if let Some(source) = &volume.config_map {
            let keys = config_map(&self.client, &namespace, &source.name).await?;
            return pick(keys, source.items.as_deref(), source.optional, &source.name);
        }
        if let Some(source) = &volume.downward_api {
            return downward(pod, source.items.as_deref().unwrap_or_default());
        }
        if let Some(source) = &volume.projected {
            let mut files = Files::new();
            for projection in source.sources.iter().flatten() {
                files.extend(self.project(pod, &namespace, projection).await?);
            }
            return Ok(files);
        }
        bail!("the process node has no volumes of this kind")
    }

    async fn project(&mut self, pod: &Pod, namespace: &str, projection: &VolumeProjection) -> Result<Files> {
        if let Some(source) = &projection.secret {
            let keys = secret(&self.client, namespace, &source.name).await?;
            return pick(keys, source.items.as_deref(), source.optional, &source.name);
        }
        if let Some(source) = &projection.config_map {
            let keys = config_map(&self.client, namespace, &source.name).await?;
            return pick(keys, source.items.as_deref(), source.optional, &source.name);
        }
        if let Some(source) = &projection.downward_api {
            return downward(pod, source.items.as_deref().unwrap_or_default());
        }
        if let Some(source) = &projection.service_account_token {
            let token = self.token(pod, namespace, source).await?;
            return Ok([(PathBuf::from(&source.path), token.into_bytes())].into());
        }
        bail!("the process node has no projections of this kind")
    }

    /// A token bound to the Pod, renewed when four fifths of its time have passed.
    async fn token(&mut self, pod: &Pod, namespace: &str, source: &ServiceAccountTokenProjection) -> Result<String> {
        let audience = source.audience.clone().unwrap_or_default();
        if let Some(token) = self.tokens.get(&audience)
            && clock::monotonic() < token.renew_after
        {
            return Ok(token.value.clone());
        }
        let seconds = source.expiration_seconds.unwrap_or(3600);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: Some(audience.clone()).filter(|audience| !audience.is_empty()).into_iter().collect(),
                expiration_seconds: Some(seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(pod.name_any()),
                    uid: pod.uid(),
                }),
            },
            ..TokenRequest::default()
        };
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), namespace);
        let answer = accounts.create_token_request(account, &PostParams::default(), &request).await?;
        let value = answer.status.context("a TokenRequest without an answer")?.token;
        let life = Duration::from_secs(u64::try_from(seconds).unwrap_or(3600));
        let renew_after = clock::monotonic() + life * 4 / 5;
        self.tokens.insert(audience, Token { value: value.clone(), renew_after });
        Ok(value)
    }
}

/// The files of a Secret or `ConfigMap`: all keys, or those that are listed.
fn pick(
    keys: Option<BTreeMap<String, Vec<u8>>>,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
    name: &str,
) -> Result<Files> {
    let optional = optional.unwrap_or(false);
    let Some(keys) = keys else {
        if optional {
            return Ok(Files::new());
        }
        bail!("{name:?} not found");
    };
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return Ok(keys.into_iter().map(|(key, value)| (PathBuf::from(key), value)).collect());
    };
    let mut files = Files::new();
    for item in items {
        match keys.get(&item.key) {
            Some(value) => {
                files.insert(PathBuf::from(&item.path), value.clone());
            }
            None if optional => {}
            None => bail!("{name:?} has no key {:?}", item.key),
        }
    }
    Ok(files)
}

fn downward(pod: &Pod, items: &[DownwardAPIVolumeFile]) -> Result<Files> {
    let field = |item: &DownwardAPIVolumeFile| {
        let path = item.field_ref.as_ref().context("a downwardAPI item without fieldRef")?;
        Ok((PathBuf::from(&item.path), pod_field(pod, None, &path.field_path)?.into_bytes()))
    };
    items.iter().map(field).collect()
}

/// Puts `files` in place of what the volume showed before.
fn swap(volume: &Path, turn: u64, files: &Files) -> Result<()> {
    let generation = format!("..{turn}");
    let data = volume.join("..data");
    let before = std::fs::read_link(&data).ok();
    for (path, bytes) in files {
        let file = volume.join(&generation).join(path);
        std::fs::create_dir_all(file.parent().unwrap_or(volume))?;
        std::fs::write(file, bytes)?;
    }
    std::fs::create_dir_all(volume.join(&generation))?;
    let next = volume.join("..next");
    symlink(&generation, &next)?;
    std::fs::rename(&next, &data)?;
    // The first part of each path is what a reader sees; the rest lies behind it.
    for top in files.keys().filter_map(|path| path.components().next()) {
        let link = volume.join(top);
        if std::fs::symlink_metadata(&link).is_err() {
            symlink(Path::new("..data").join(top), &link)?;
        }
    }
    for entry in std::fs::read_dir(volume)? {
        let entry = entry?;
        let hidden = entry.file_name().to_string_lossy().starts_with("..");
        if !hidden && std::fs::metadata(entry.path()).is_err() {
            std::fs::remove_file(entry.path())?;
        }
    }
    match before {
        Some(before) => Ok(std::fs::remove_dir_all(volume.join(before))?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_swaps_files_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let files = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec())).collect::<Files>()
        };
        swap(folder.path(), 1, &files(&[("a", "1"), ("deep/b", "2")])).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("deep/b")).unwrap(), "2");
        swap(folder.path(), 2, &files(&[("a", "3")])).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("a")).unwrap(), "3");
        assert!(!folder.path().join("deep").exists());
        assert!(!folder.path().join("..1").exists());
    }

    #[test]
    fn a_missing_object_is_fine_only_when_optional() {
        assert!(pick(None, None, None, "s").is_err());
        assert!(pick(None, None, Some(true), "s").unwrap().is_empty());
    }
}
