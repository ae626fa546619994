//! Where each cluster admits traffic, and where that is published: two things that a build of the hub may replace.
//!
//! The words are Michelangelo's (`go/components/inferenceserver/endpoints`). Here, whoever asks is never kept waiting: what
//! is resolved and what was published are read from memory, and only a change of what is published is a call that waits.

mod slices;

use std::{collections::BTreeMap, fmt::Debug};

use crds::{ClusterName, v1alpha1::InferenceServer};
use futures::future::BoxFuture;
use hub_plan::{
    Plan,
    facts::{ClusterFacts, EndpointFacts},
    memory::PublishedEndpoint,
};
use operator::conditions::Failure;

pub use self::slices::DiscoverySlices;

/// Says where a cluster admits traffic for a server.
pub trait Provider: Send + Sync {
    /// The endpoint of a target, from what is known now: addresses or DNS names and their port, or a reason why there is none.
    /// `None` while that is not known. Each target is asked for by itself: what becomes of one is nothing to another. Who
    /// learns something new wakes the server.
    ///
    /// What is returned is held against the cluster's allowed ranges, and counts while the cluster is heard; a cluster that is
    /// not heard keeps what was published.
    fn resolve(&self, target: &Target<'_>) -> Option<EndpointFacts>;
}

/// A cluster that an endpoint is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The server.
    pub server: &'a InferenceServer,
    /// The cluster.
    pub cluster: &'a ClusterName,
    /// What its agent said.
    pub facts: &'a ClusterFacts,
}

/// Takes what the cluster's agent reports, from the source that its MemberCluster or the target names.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportedEndpoints;

impl Provider for ReportedEndpoints {
    fn resolve(&self, target: &Target<'_>) -> Option<EndpointFacts> {
        target.facts.endpoint.clone()
    }
}

/// Publishes the endpoints of servers. What it gives back is also the hub's memory: after a restart nothing else says where a
/// cluster admitted traffic that can't be heard.
pub trait Publisher: Send + Sync {
    /// Returns once [`get`] knows what was published before the hub started. No server is looked at before.
    ///
    /// [`get`]: Publisher::get
    fn loaded(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// What is published of a server, by cluster: what the last [`sync`] put, and nothing after [`delete`].
    ///
    /// [`sync`]: Publisher::sync
    /// [`delete`]: Publisher::delete
    fn get(&self, server: &InferenceServer) -> BTreeMap<ClusterName, PublishedEndpoint>;

    /// Is exactly this published, in every detail? Then nothing is written.
    fn is_synced(&self, publication: &Publication<'_>) -> bool {
        self.get(publication.server) == publication.plan.endpoints
    }

    /// May routes lead to it? Routes are written then. It need not be all of it: what can't be published of one cluster should
    /// keep no other from being reached.
    fn is_published(&self, publication: &Publication<'_>) -> bool {
        self.is_synced(publication)
    }

    /// Publishes this and nothing else: clusters that are not in it are taken away. Idempotent.
    ///
    /// # Errors
    /// When some of it could not be published; the rest is.
    fn sync<'a>(
        &'a self,
        publication: &'a Publication<'a>,
    ) -> BoxFuture<'a, Result<Synced, Failure>>;

    /// Takes everything of a server away: afterwards there is no discovery Service of it. Idempotent; called until
    /// [`is_deleted`] says that nothing is left.
    ///
    /// # Errors
    /// When something could not be taken away.
    ///
    /// [`is_deleted`]: Publisher::is_deleted
    fn delete<'a>(&'a self, server: &'a InferenceServer) -> BoxFuture<'a, Result<Synced, Failure>>;

    /// Is nothing of it left where it was published, whatever [`get`] knows? The server's finalizer waits for that. Read from
    /// memory: while that is not known, it is not so.
    ///
    /// [`get`]: Publisher::get
    fn is_deleted(&self, server: &InferenceServer) -> bool;
}

/// What is to be published of a server.
#[derive(Clone, Copy, Debug)]
pub struct Publication<'a> {
    /// The server.
    pub server: &'a InferenceServer,
    /// Its plan: `endpoints` by cluster, and the `services` and `slices` that say so to Kubernetes, with what of ours is
    /// `surplus` or `retired`.
    pub plan: &'a Plan,
    /// Are the routes as planned? Then none leads to what is `retired`: it goes. Until then it is kept right.
    pub routed: bool,
}

/// What a write came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// Something was written.
    pub wrote: bool,
    /// Some of it waits for that long, so that changes go together.
    pub wait: Option<std::time::Duration>,
}
