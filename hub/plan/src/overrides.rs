//! What one target asks for: the server's own word, unless it has another for that cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crds::v1alpha1::{
    Accelerator, AcceleratorProfileSpec, ClusterTarget, InferenceServer, Overrides,
    PlacementAccelerator, RuntimeProfileSpec,
};

use crate::revisions::Revision;

/// What the profiles that one server names say to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Profiles {
    /// The RuntimeProfile.
    pub runtime: Result<Pinned<RuntimeProfileSpec>, Missing>,
    /// The AcceleratorProfiles by name.
    pub accelerators: BTreeMap<String, Result<Pinned<AcceleratorProfileSpec>, Missing>>,
}

/// What a profile says as of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned<S> {
    /// The revision.
    pub revision: Revision,
    /// What it says.
    pub content: Arc<S>,
}

/// Why a profile says nothing to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no profile of that name.
    Profile,
    /// There is none of that revision, but of these.
    Revision(Revision, Vec<Revision>),
    /// What it says is not recorded yet; why, if that has failed.
    Unrecorded(Option<String>),
}

/// There are none.
impl Default for Profiles {
    fn default() -> Self {
        Self {
            runtime: Err(Missing::Profile),
            accelerators: BTreeMap::new(),
        }
    }
}

impl Profiles {
    /// An accelerator with the content of its profile; `None` while there is no such profile.
    pub(crate) fn placed(&self, wanted: &Accelerator) -> Option<PlacementAccelerator> {
        let profile = match &wanted.profile {
            None => None,
            Some(name) => Some(self.accelerators.get(name)?.as_ref().ok()?),
        };
        Some(PlacementAccelerator {
            wanted: wanted.clone(),
            revision: profile.map(|profile| profile.revision.to_string()),
            content: profile.map(|profile| profile.content.as_ref().clone()),
        })
    }
}

/// The names of the AcceleratorProfiles that a server asks for.
pub fn accelerator_profiles(server: &InferenceServer) -> BTreeSet<&str> {
    let targets = server.spec.cluster_targets.iter();
    let all = targets.filter_map(|target| accelerator(server, target.overrides.as_ref()));
    all.filter_map(|accelerator| accelerator.profile.as_deref())
        .collect()
}

/// The targets by the cluster that each names.
pub(crate) fn targets(server: &InferenceServer) -> BTreeMap<&str, &ClusterTarget> {
    let targets = server.spec.cluster_targets.iter();
    targets
        .map(|target| (target.cluster_id.as_str(), target))
        .collect()
}

/// The accelerator there.
pub(crate) fn accelerator<'a>(
    server: &'a InferenceServer,
    overrides: Option<&'a Overrides>,
) -> Option<&'a Accelerator> {
    let own = overrides.and_then(|overrides| overrides.accelerator.as_ref());
    own.or(server.spec.accelerator.as_ref())
}

/// How many replicas are wanted there.
pub(crate) fn replicas(server: &InferenceServer, overrides: Option<&Overrides>) -> u32 {
    let own = overrides.and_then(|overrides| overrides.replicas);
    own.unwrap_or(server.spec.replicas)
}
