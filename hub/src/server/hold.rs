//! What the hub writes on a server before any member is told of it, and takes away after the last: its finalizer, and the
//! revisions of the profiles that it is pinned to.

use std::collections::BTreeMap;

use crds::{condition::VALIDATION, labels, v1alpha1::InferenceServer};
use hub_plan::revisions::Pins;
use operator::{cache::ObjectKey, wake::Next};

use super::{Parts, Pass, Reconciler, retry};
use crate::{
    place::has_finalizer,
    report::{self, member},
};

impl Reconciler {
    /// Has the server say that members have to be asked on the way out, and which revisions they are told of: in one write, since
    /// both come before the first word to a member.
    pub(super) async fn hold(&self, server: &InferenceServer) -> Result<(), report::Error> {
        if server.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let caches = &self.parts.caches;
        let pins = caches.pins_for(server);
        if has_finalizer(server) && pins == Pins::of(server) {
            return Ok(());
        }
        let mut annotations = BTreeMap::new();
        // Numbers by names can always be written as JSON.
        if let Ok(text) = pins.text() {
            annotations.insert(labels::PROFILE_REVISIONS, text);
        }
        let api = self.servers_of(server);
        let written = report::mark(&api, server, &[labels::CLEANUP], &annotations).await?;
        tracing::info!(server = %ObjectKey::of(server), ?pins, "held");
        caches.servers.note(written);
        Ok(())
    }

    /// Without its finalizer no step can be taken: the status says so.
    pub(super) async fn hindered(&self, key: &ObjectKey, error: &report::Error) -> Next {
        if !error.is_gone()
            && let Some(pass) = self.look(key)
        {
            let steps = [error.verdict(VALIDATION)];
            if let Err(error) = self.tell(&pass, &pass.server, &steps).await {
                return retry(key, &error);
            }
        }
        retry(key, error)
    }

    /// Lets the server go, and puts down whom has to be told of it later.
    pub(super) async fn release(
        &self,
        pass: &Pass,
        server: &InferenceServer,
    ) -> Result<(), report::Error> {
        let Parts { client, caches, .. } = &self.parts;
        let unconfirmed = &pass.plan.unconfirmed;
        for cluster in unconfirmed {
            let record = ObjectKey::new("", cluster.as_str());
            if let Some(record) = caches.members.get(&record) {
                let written = member::record(client, &record, server).await?;
                caches.members.note(written);
            }
        }
        tracing::info!(server = %pass.key, unconfirmed = unconfirmed.len(), "released");
        let written = report::mark(&self.servers_of(server), server, &[], &BTreeMap::new()).await?;
        caches.servers.note(written);
        Ok(())
    }
}
