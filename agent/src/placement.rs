//! What the hub says → ServerPlacement objects. Owns the wish of each key; must not know how a placement is served.
//!
//! A wish is kept until another takes its place, so that a ServerPlacement that somebody changes or deletes is made
//! right again, and a namespace that appears late finds its placements waiting.

mod wishes;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crds::{labels, reason, v1alpha1::ServerPlacement};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, PropagationPolicy},
};
use operator::{
    apply::{self, Retry},
    cache::ObjectKey,
    ownership::Desired,
    wake::Next,
};
use proto::{
    PlacementKey,
    session::{Refusal, Removal},
};

pub(crate) use self::wishes::{Value, Wish, Wishes};
use crate::{
    apply::Owner,
    link::Machine,
    observe::Caches,
    report::{Origin, Unwritten},
};

/// Keeps the ServerPlacements as the hub wishes.
pub(crate) struct Placements {
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) machine: Arc<Machine>,
    pub(crate) wishes: Arc<Wishes>,
    pub(crate) create_namespaces: bool,
    pub(crate) unanswered: Unanswered,
}

/// The ServerPlacements whose last write came to no known end: the API server may hold one that no watch has told of. As many
/// as the hub has spoken of.
#[derive(Debug, Default)]
pub(crate) struct Unanswered(Mutex<BTreeSet<ObjectKey>>);

impl Unanswered {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        let Self(keys) = self;
        keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// UID of the InferenceServer that an agent wrote the object for; `None` when it is somebody else's.
fn server_uid(placement: &ServerPlacement) -> Option<&String> {
    placement.annotations().get(labels::SERVER_UID)
}

impl Placements {
    /// Makes the ServerPlacement of the key as it is wished. Nothing is done for a key that the hub has not spoken of.
    pub(crate) async fn keep(&self, key: &PlacementKey) -> Kept {
        match self.wishes.get(key) {
            None => Next::Rest.into(),
            Some(Wish::Gone { uid, removal }) => Kept {
                going: true,
                ..self.remove(key, &uid, removal).await.into()
            },
            Some(Wish::Kept(value)) => {
                let generation = value.generation;
                match self.write(key, &value).await {
                    Ok(Written::Yes) => {
                        self.machine
                            .with(|machine| machine.applied(key, generation));
                        Next::Rest.into()
                    }
                    Ok(Written::AfterRemoval) => Next::Rest.into(),
                    Err(Obstacle::Refused(refusal, next)) => {
                        tracing::warn!(%key, refusal.reason, refusal.message, "placement refused");
                        let refused = Some(refusal.reason.clone());
                        let unwritten = unwritten(&value, refused, refusal.message.clone());
                        self.machine
                            .with(|machine| machine.refused(key, generation, refusal));
                        Kept {
                            unwritten: Some(unwritten),
                            ..next.into()
                        }
                    }
                    Err(Obstacle::Passing(message)) => {
                        tracing::warn!(%key, message, "placement not written");
                        Kept {
                            unwritten: Some(unwritten(&value, None, message)),
                            ..Next::Retry.into()
                        }
                    }
                }
            }
        }
    }

    async fn write(&self, key: &PlacementKey, value: &Value) -> Result<Written, Obstacle> {
        let desired = value
            .desired
            .as_ref()
            .map_err(|refusal| Obstacle::Refused(refusal.clone(), Next::Rest))?;
        let live = self.caches.placements.get(&desired.key);
        if let Some(live) = &live {
            if server_uid(live) != Some(&value.uid) {
                let message = format!(
                    "ServerPlacement {key} exists and was not written for this InferenceServer: delete or rename one of the two"
                );
                return Err(refused(reason::NAME_CONFLICT, message, Next::Rest));
            }
            // Somebody deletes it: it is made anew when the watch says that it is gone.
            if live.metadata.deletion_timestamp.is_some() {
                return Ok(Written::AfterRemoval);
            }
        }
        let live = live.as_deref().map(Resource::meta);
        if live.is_some_and(|live| !desired.differs_from(live, labels::AGENT)) {
            return Ok(Written::Yes);
        }
        self.ready_namespace(key.namespace()).await?;
        self.apply(desired, live).await
    }

    async fn apply(
        &self,
        desired: &Desired,
        live: Option<&ObjectMeta>,
    ) -> Result<Written, Obstacle> {
        let written = apply::apply(&self.client, labels::AGENT, desired, live).await;
        let written = written.map_err(|error| match (&error, error.retry()) {
            (_, Retry::Later) => {
                self.unanswered.lock().insert(desired.key.clone());
                Obstacle::Passing(error.sentence())
            }
            (apply::Error::NameConflict { .. }, Retry::OnChange) => {
                refused(reason::NAME_CONFLICT, error.sentence(), Next::Retry)
            }
            (_, Retry::OnChange) => refused(reason::APPLY_REFUSED, error.sentence(), Next::Retry),
        })?;
        self.unanswered.lock().remove(&desired.key);
        tracing::info!(placement = %desired.key, "written");
        match written.try_parse::<ServerPlacement>() {
            Ok(written) => self.caches.placements.note(written),
            // The watch brings it, or says why it can't be read.
            Err(error) => tracing::warn!(%error, placement = %desired.key, "can't be read back"),
        }
        Ok(Written::Yes)
    }

    /// The namespace exists and takes objects; it is made if that was allowed.
    async fn ready_namespace(&self, name: &str) -> Result<(), Obstacle> {
        let live = self.caches.namespaces.get(&ObjectKey::new("", name));
        match live {
            Some(live) if live.metadata.deletion_timestamp.is_none() => Ok(()),
            Some(_) => {
                let message = format!("namespace {name} is being deleted");
                Err(refused(reason::NAMESPACE_MISSING, message, Next::Rest))
            }
            None if self.create_namespaces => self.create_namespace(name).await,
            None => {
                let message = format!(
                    "namespace {name} does not exist in this cluster: create it, or let the agent do so (createNamespaces)"
                );
                Err(refused(reason::NAMESPACE_MISSING, message, Next::Rest))
            }
        }
    }

    /// Only makes one that is not there: what somebody else made is left as it is.
    async fn create_namespace(&self, name: &str) -> Result<(), Obstacle> {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let failed = |cause: String| format!("namespace {name} can't be created: {cause}");
        let desired = Desired::new(&namespace).map_err(|error| {
            let message = failed(error.to_string());
            refused(reason::NAMESPACE_MISSING, message, Next::Rest)
        })?;
        match apply::apply(&self.client, labels::AGENT, &desired, None).await {
            Ok(created) => {
                tracing::info!(namespace = name, "created");
                // One that can't be read back comes by the watch.
                if let Ok(created) = created.try_parse() {
                    self.caches.namespaces.note(created);
                }
                Ok(())
            }
            // Somebody was faster.
            Err(apply::Error::NameConflict { .. }) => Ok(()),
            Err(error) => {
                let message = failed(error.sentence());
                Err(match error.retry() {
                    Retry::Later => Obstacle::Passing(message),
                    Retry::OnChange => refused(reason::NAMESPACE_MISSING, message, Next::Retry),
                })
            }
        }
    }

    /// Deletes the ServerPlacement of that server and, before it, all that it owns, routes first; or disowns what it owns.
    /// The hub is told when the watch says that it is gone.
    async fn remove(&self, key: &PlacementKey, server: &str, removal: Removal) -> Next {
        let object = ObjectKey::new(key.namespace(), key.name());
        let live = match self.live(&object).await {
            Ok(live) => live,
            Err(error) => {
                tracing::warn!(%key, %error, "whether a lost write came about is not known");
                return Next::Retry;
            }
        };
        let Some(live) = live.filter(|live| server_uid(live).is_some_and(|uid| uid == server))
        else {
            self.machine.with(|machine| {
                self.wishes.fulfilled(key, server);
                // What waited for the removal. Under the machine's lock, so that it never overtakes a newer word.
                if let Some(event) = machine.removed(key, server) {
                    self.wishes.take(event);
                }
            });
            return Next::Rest;
        };
        if live.metadata.deletion_timestamp.is_some() {
            return Next::Rest;
        }
        let removed = match removal {
            Removal::Delete => self.delete(&object, &live).await,
            Removal::Orphan => self.orphan(&object, &live).await,
        };
        match removed {
            Ok(()) => Next::Rest,
            Err(error) => {
                tracing::warn!(%key, error = error.sentence(), "removal failed");
                Next::Retry
            }
        }
    }

    /// The ServerPlacement of that name. Nobody takes away one that is said to be gone, so where a write came to no known end
    /// the API server is asked rather than the watch, which may be as late as the answer was.
    async fn live(&self, key: &ObjectKey) -> Result<Option<Arc<ServerPlacement>>, kube::Error> {
        let live = self.caches.placements.get(key);
        if live.is_some() || !self.unanswered.lock().contains(key) {
            return Ok(live);
        }
        let api: Api<ServerPlacement> = Api::namespaced(self.client.clone(), &key.namespace);
        let found = api.get_opt(&key.name).await?;
        self.unanswered.lock().remove(key);
        if let Some(found) = found {
            self.caches.placements.note(found);
        }
        Ok(self.caches.placements.get(key))
    }

    /// Its routes go first: what they lead to answers as long as they are there. The watch says when they are gone.
    async fn delete(&self, key: &ObjectKey, live: &ServerPlacement) -> Result<(), apply::Error> {
        let owner = Owner::of(live);
        if owner.remove_routes(&self.client, &self.caches).await? {
            return Ok(());
        }
        tracing::info!(placement = %key, "removing");
        self.delete_placement(key, live, PropagationPolicy::Foreground)
            .await
    }

    /// What it owns is left as it is, and is nobody's.
    async fn orphan(&self, key: &ObjectKey, live: &ServerPlacement) -> Result<(), apply::Error> {
        tracing::info!(placement = %key, "letting go of what it runs");
        Owner::of(live).disown(&self.client, &self.caches).await?;
        self.delete_placement(key, live, PropagationPolicy::Orphan)
            .await
    }

    async fn delete_placement(
        &self,
        key: &ObjectKey,
        live: &ServerPlacement,
        propagation: PropagationPolicy,
    ) -> Result<(), apply::Error> {
        let resource = ApiResource::erase::<ServerPlacement>(&());
        let uid = live.uid().unwrap_or_default();
        apply::delete(&self.client, &resource, key, &uid, propagation).await
    }
}

/// What became of a wish that was not refused.
enum Written {
    /// The API server holds it.
    Yes,
    /// It will be written when what is there has gone.
    AfterRemoval,
}

/// Why a wish could not be written.
enum Obstacle {
    /// As things are, it never can. The hub is told so; when to try again.
    Refused(Refusal, Next),
    /// The API server could not be reached, or had an error of its own: no verdict on the value. In a sentence.
    Passing(String),
}

/// What became of a key's wish.
pub(crate) struct Kept {
    /// When to try again.
    pub(crate) next: Next,
    /// The value that is not in the API server.
    pub(crate) unwritten: Option<Unwritten>,
    /// What is there is to go: nothing of it is to be made anew.
    pub(crate) going: bool,
}

impl From<Next> for Kept {
    fn from(next: Next) -> Self {
        Self {
            next,
            unwritten: None,
            going: false,
        }
    }
}

fn unwritten(value: &Value, refused: Option<String>, message: String) -> Unwritten {
    let origin = Origin {
        server_uid: value.uid.clone(),
        generation: value.generation,
        hash: value.hash,
    };
    Unwritten {
        origin,
        refused,
        message,
    }
}

fn refused(reason: &str, message: String, next: Next) -> Obstacle {
    let refusal = Refusal {
        reason: reason.to_owned(),
        field: String::new(),
        message,
    };
    Obstacle::Refused(refusal, next)
}
