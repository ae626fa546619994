//! What each member cluster is to hold of one server.

use std::collections::{BTreeMap, BTreeSet};

use crds::{
    ClusterName,
    v1alpha1::{
        DeletionPolicy, GatewayReference, InferenceServer, PlacementRuntime, RuntimeProfile,
        ServerPlacementSpec,
    },
};

/// What one cluster is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// This placement. Clusters that are to hold the same share one index into [`Placements::specs`].
    Run(usize),
    /// Whatever it holds: the server can't be planned as it stands, and that is no reason to take it down.
    Keep,
    /// Nothing.
    Remove,
    /// Nothing, and what it runs is left running.
    Orphan,
}

/// What every cluster is to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placements {
    /// The distinct placements: each is encoded once, however many clusters it goes to.
    pub specs: Vec<ServerPlacementSpec>,
    /// What each target and each holder is to hold.
    pub intents: BTreeMap<ClusterName, Intent>,
}

impl Placements {
    /// Clusters whose MemberCluster is being deleted hold nothing more, by their own policy.
    pub fn leave(&mut self, leaving: &BTreeMap<ClusterName, DeletionPolicy>) {
        for (cluster, policy) in leaving {
            if let Some(intent @ (Intent::Run(_) | Intent::Keep)) = self.intents.get_mut(cluster) {
                *intent = match policy {
                    DeletionPolicy::Delete => Intent::Remove,
                    DeletionPolicy::Orphan => Intent::Orphan,
                };
            }
        }
    }

    /// What is to go stays where its endpoints have not drained.
    pub fn hold(&mut self, draining: &BTreeSet<ClusterName>) {
        for cluster in draining {
            if let Some(intent @ (Intent::Remove | Intent::Orphan)) = self.intents.get_mut(cluster)
            {
                *intent = Intent::Keep;
            }
        }
    }
}

/// Plans what each cluster is to hold. `gateways` has an entry for each MemberCluster that exists, with the Gateway that
/// it names; `holders` are the clusters that hold a placement of this server.
pub fn placements(
    server: &InferenceServer,
    profile: Option<&RuntimeProfile>,
    gateways: &BTreeMap<ClusterName, Option<GatewayReference>>,
    holders: &BTreeSet<ClusterName>,
) -> Placements {
    let leaving = is_leaving(server);
    let leave = leave(server);
    let mut placements = Placements::default();
    let mut indices: BTreeMap<&Option<GatewayReference>, usize> = BTreeMap::new();
    let targets = targets(server);
    for cluster in &targets {
        let intent = match (leaving, profile, gateways.get(cluster)) {
            (true, _, _) => leave.clone(),
            // A MemberCluster that does not exist has no session to say anything in.
            (false, _, None) => continue,
            (false, None, Some(_)) => Intent::Keep,
            (false, Some(_), Some(_)) if is_refused(server) => Intent::Keep,
            (false, Some(profile), Some(gateway)) => {
                let index = *indices.entry(gateway).or_insert_with(|| {
                    placements
                        .specs
                        .push(spec(server, profile, gateway.clone()));
                    placements.specs.len() - 1
                });
                Intent::Run(index)
            }
        };
        placements.intents.insert(cluster.clone(), intent);
    }
    let former = if leaving { leave } else { Intent::Remove };
    for holder in holders.difference(&targets) {
        placements.intents.insert(holder.clone(), former.clone());
    }
    placements
}

/// Is every part of the server to go?
pub(crate) fn is_leaving(server: &InferenceServer) -> bool {
    server.metadata.deletion_timestamp.is_some() || server.spec.decommission
}

/// How the parts of a server go.
fn leave(server: &InferenceServer) -> Intent {
    match server.spec.deletion_policy {
        DeletionPolicy::Orphan if server.metadata.deletion_timestamp.is_some() => Intent::Orphan,
        DeletionPolicy::Orphan | DeletionPolicy::Delete => Intent::Remove,
    }
}

/// The targets whose names can be cluster names. The API server lets no other in.
pub fn targets(server: &InferenceServer) -> BTreeSet<ClusterName> {
    server
        .spec
        .cluster_targets
        .iter()
        .filter_map(|target| target.cluster_id.parse().ok())
        .collect()
}

/// Is the server in a namespace whose paths are taken? `/cluster/...` is what the hub's gateway sends to members.
pub(crate) fn is_refused(server: &InferenceServer) -> bool {
    server.metadata.namespace.as_deref() == Some("cluster")
}

fn spec(
    server: &InferenceServer,
    profile: &RuntimeProfile,
    gateway: Option<GatewayReference>,
) -> ServerPlacementSpec {
    let InferenceServer { spec, .. } = server;
    ServerPlacementSpec {
        runtime: PlacementRuntime {
            profile: spec.runtime.profile.clone(),
            content: profile.spec.clone(),
        },
        model: spec.model.clone(),
        resources: spec.resources.clone(),
        replicas: spec.replicas,
        gateway,
    }
}
