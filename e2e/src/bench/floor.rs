//! The bare client of `convergence`: the product's writes, as often, in its order, with its concurrency, and nothing else.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::future::try_join_all;
use kube::Client;
use serde_json::json;
use tokio::sync::Semaphore;

use super::bare::{Copies, Object, stages};
use crate::audit::Request;

/// As `SERVERS_AT_ONCE` of the hub's `run`.
const SERVERS_AT_ONCE: usize = 32;
/// As `CONCURRENCY` of the agent's `run`.
const PLACEMENTS_AT_ONCE: usize = 16;

/// How often the product wrote each object, by the audit logs: place of the cluster, resource, name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Writes(BTreeMap<(usize, String, String), usize>);

impl Writes {
    /// Counts the writes to objects of a namespace, cluster by cluster.
    pub(super) fn of(namespace: &str, clusters: &[Vec<Request>]) -> Self {
        let mut counts = BTreeMap::new();
        for (cluster, requests) in clusters.iter().enumerate() {
            let taken = requests.iter().filter(|request| {
                request.is_write() && request.namespace == namespace && request.code < 400
            });
            for request in taken {
                let key = (cluster, request.resource.clone(), request.name.clone());
                *counts.entry(key).or_default() += 1;
            }
        }
        Self(counts)
    }

    fn count(&self, cluster: usize, resource: &str, name: &str) -> usize {
        let key = (cluster, resource.to_owned(), name.to_owned());
        self.0.get(&key).copied().unwrap_or_default()
    }
}

/// The bare client.
pub(super) struct Floor<'a> {
    hub: Client,
    members: Vec<Client>,
    namespace: &'a str,
    servers: Semaphore,
    placements: Vec<Semaphore>,
}

impl<'a> Floor<'a> {
    pub(super) fn new(hub: Client, members: Vec<Client>, namespace: &'a str) -> Self {
        let placements = members.iter().map(|_| Semaphore::new(PLACEMENTS_AT_ONCE));
        Self {
            placements: placements.collect(),
            hub,
            members,
            namespace,
            servers: Semaphore::new(SERVERS_AT_ONCE),
        }
    }

    /// Writes all that the product wrote for one server. The statuses but the last go beside the members' writes, which
    /// is no later than the product can know them.
    pub(super) async fn write(&self, name: &str, copies: &Copies, writes: &Writes) -> Result<()> {
        {
            let _turn = self.servers.acquire().await?;
            copies.server.apply(&self.hub, self.namespace).await?;
            for number in 0..writes.count(0, "inferenceservers", name) {
                let finalizer = changed(&copies.finalizer, number)?;
                finalizer.apply(&self.hub, self.namespace).await?;
            }
        }
        let statuses = writes.count(0, "inferenceservers/status", name);
        let members = copies.members.iter().enumerate();
        let members = members.map(|(place, objects)| self.member(place, objects, writes));
        tokio::try_join!(
            try_join_all(members),
            self.statuses(copies, 0..statuses.saturating_sub(1)),
        )?;
        let _turn = self.servers.acquire().await?;
        for kind in ["services", "endpointslices", "httproutes"] {
            let of_kind = copies.hub.iter().filter(|object| object.plural == kind);
            let writes = of_kind.map(|object| self.repeat(&self.hub, 0, object, writes));
            try_join_all(writes).await?;
        }
        self.statuses(copies, statuses.saturating_sub(1)..statuses)
            .await
    }

    async fn member(&self, place: usize, objects: &[Object], writes: &Writes) -> Result<()> {
        let (Some(client), Some(turns)) = (self.members.get(place), self.placements.get(place))
        else {
            return Ok(());
        };
        let _turn = turns.acquire().await?;
        for stage in stages(objects) {
            let writes = stage.map(|object| self.repeat(client, place + 1, object, writes));
            try_join_all(writes).await?;
        }
        Ok(())
    }

    /// Writes an object as often as the product did, each time with something new in it.
    async fn repeat(
        &self,
        client: &Client,
        cluster: usize,
        object: &Object,
        writes: &Writes,
    ) -> Result<()> {
        for number in 0..writes.count(cluster, &object.plural, &object.name) {
            let object = changed(object, number)?;
            object.apply(client, self.namespace).await?;
        }
        Ok(())
    }

    async fn statuses(&self, copies: &Copies, numbers: std::ops::Range<usize>) -> Result<()> {
        for number in numbers {
            let mut status = copies.status.clone();
            if let Some(summary) = status
                .get_mut("summary")
                .and_then(|part| part.as_object_mut())
            {
                summary.insert("reason".to_owned(), json!(format!("write {number}")));
            }
            copies
                .server
                .patch_status(&self.hub, self.namespace, &status)
                .await?;
        }
        Ok(())
    }
}

/// The API server stores nothing when nothing differs.
fn changed(object: &Object, number: usize) -> Result<Object> {
    if number == 0 {
        return Ok(object.clone());
    }
    object.with(|body| {
        let metadata = body
            .get_mut("metadata")
            .and_then(|part| part.as_object_mut());
        if let Some(metadata) = metadata {
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert("bench".to_owned(), json!(number.to_string()));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn request(verb: &str, namespace: &str, code: u16) -> Request {
        Request {
            user: "system:serviceaccount:inferfleet-system:inferfleet-hub".to_owned(),
            verb: verb.to_owned(),
            resource: "services".to_owned(),
            namespace: namespace.to_owned(),
            name: "hello".to_owned(),
            uri: String::new(),
            code,
            received: Timestamp::UNIX_EPOCH,
            answered: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn only_writes_that_were_taken_in_that_namespace_count() {
        let hub = vec![
            request("patch", "here", 201),
            request("patch", "here", 200),
            request("patch", "here", 409),
            request("get", "here", 200),
            request("patch", "there", 200),
        ];
        let writes = Writes::of("here", &[hub, vec![request("patch", "here", 200)]]);
        assert_eq!(writes.count(0, "services", "hello"), 2);
        assert_eq!(writes.count(1, "services", "hello"), 1);
        assert_eq!(writes.count(1, "services", "other"), 0);
    }
}
