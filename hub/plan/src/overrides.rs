//! What one target asks for: the server's own word, unless it has another for that cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crds::v1alpha1::{
    Accelerator, AcceleratorProfile, ClusterTarget, InferenceServer, Overrides,
    PlacementAccelerator, RuntimeProfile,
};

/// What servers name of the hub, as it is: only what one server names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profiles {
    /// The RuntimeProfile, if there is one of that name.
    pub runtime: Option<Arc<RuntimeProfile>>,
    /// The AcceleratorProfiles by name, those that exist.
    pub accelerators: BTreeMap<String, Arc<AcceleratorProfile>>,
}

impl Profiles {
    /// An accelerator with the content of its profile; `None` while there is no such profile.
    pub(crate) fn placed(&self, wanted: &Accelerator) -> Option<PlacementAccelerator> {
        let content = match &wanted.profile {
            None => None,
            Some(name) => Some(self.accelerators.get(name)?.spec.clone()),
        };
        Some(PlacementAccelerator {
            wanted: wanted.clone(),
            content,
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
