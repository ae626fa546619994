//! What each member cluster is to hold of one server.

use std::collections::{BTreeMap, BTreeSet};

use crds::{
    ClusterName,
    v1alpha1::{
        GatewayReference, InferenceServer, PlacementRuntime, RuntimeProfile, ServerPlacementSpec,
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
}

/// What every cluster is to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placements {
    /// The distinct placements: each is encoded once, however many clusters it goes to.
    pub specs: Vec<ServerPlacementSpec>,
    /// What each target and each holder is to hold.
    pub intents: BTreeMap<ClusterName, Intent>,
}

/// Plans what each cluster is to hold. `gateways` has an entry for each MemberCluster that exists, with the Gateway that
/// it names; `holders` are the clusters that hold a placement of this server.
pub fn placements(
    server: &InferenceServer,
    profile: Option<&RuntimeProfile>,
    gateways: &BTreeMap<ClusterName, Option<GatewayReference>>,
    holders: &BTreeSet<ClusterName>,
) -> Placements {
    let deleting = server.metadata.deletion_timestamp.is_some();
    let mut placements = Placements::default();
    let mut indices: BTreeMap<&Option<GatewayReference>, usize> = BTreeMap::new();
    let targets = targets(server);
    for cluster in &targets {
        let intent = match (deleting, profile, gateways.get(cluster)) {
            (true, _, _) => Intent::Remove,
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
    for former in holders.difference(&targets) {
        placements.intents.insert(former.clone(), Intent::Remove);
    }
    placements
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
