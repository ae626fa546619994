//! What each member cluster is to hold of one server.

use std::collections::{BTreeMap, BTreeSet};

use crds::{
    ClusterName,
    v1alpha1::{
        DeletionPolicy, EndpointSource, GatewayReference, InferenceServer, Model, PlacementRuntime,
        RuntimeProfile, ServerPlacementSpec,
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

    /// What is to go stays where its endpoints have not drained, and everywhere while a discovery route leads to the server that
    /// is on its way out.
    pub fn hold(&mut self, draining: &BTreeSet<ClusterName>, leading_route: Option<&str>) {
        for (cluster, intent) in &mut self.intents {
            let goes = matches!(intent, Intent::Remove | Intent::Orphan);
            if goes && (leading_route.is_some() || draining.contains(cluster)) {
                *intent = Intent::Keep;
            }
        }
    }
}

/// What is particular of one cluster: how it admits traffic, as its MemberCluster says, and what it serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The Gateway that it names.
    pub gateway: Option<GatewayReference>,
    /// Where its endpoint comes from.
    pub endpoint: Option<EndpointSource>,
    /// The model that it serves.
    pub model: Option<Model>,
    /// It takes nothing new of this server: its namespace may not target it, or which model it is to serve can't be said.
    pub withheld: bool,
}

/// Plans what each cluster is to hold. `sites` has an entry for each MemberCluster that exists; `holders` are the clusters that hold a placement of this server.
pub fn placements(
    server: &InferenceServer,
    profile: Option<&RuntimeProfile>,
    sites: &BTreeMap<ClusterName, Site>,
    holders: &BTreeSet<ClusterName>,
) -> Placements {
    let leaving = is_leaving(server);
    let leave = leave(server);
    let mut placements = Placements::default();
    let mut indices: BTreeMap<Site, usize> = BTreeMap::new();
    let (targets, sources) = (targets(server), own_sources(server));
    for cluster in &targets {
        let intent = match (leaving, profile, sites.get(cluster)) {
            (true, _, _) => leave.clone(),
            // A MemberCluster that does not exist has no session to say anything in.
            (false, _, None) => continue,
            (false, None, Some(_)) => Intent::Keep,
            (false, Some(_), Some(_)) if is_refused(server) => Intent::Keep,
            (false, Some(_), Some(site)) if site.withheld => Intent::Keep,
            (false, Some(profile), Some(site)) => {
                let own = sources.get(cluster.as_str()).copied();
                let site = effective(site, own);
                let index = *indices.entry(site.clone()).or_insert_with(|| {
                    placements.specs.push(spec(server, profile, site));
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

/// The sources that targets name themselves.
fn own_sources(server: &InferenceServer) -> BTreeMap<&str, &EndpointSource> {
    let targets = server.spec.cluster_targets.iter();
    targets
        .filter_map(|target| Some((target.cluster_id.as_str(), target.endpoint.as_ref()?)))
        .collect()
}

/// The site to one target: its own source beats the MemberCluster's as a whole. Without the default, so that nothing
/// changes for who never named a source.
fn effective(site: &Site, own: Option<&EndpointSource>) -> Site {
    let source = own.or(site.endpoint.as_ref());
    Site {
        gateway: site.gateway.clone(),
        endpoint: source.and_then(EndpointSource::effective),
        model: site.model.clone(),
        withheld: false,
    }
}

/// Is every part of the server to go?
pub fn is_leaving(server: &InferenceServer) -> bool {
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

fn spec(server: &InferenceServer, profile: &RuntimeProfile, site: Site) -> ServerPlacementSpec {
    let InferenceServer { spec, .. } = server;
    ServerPlacementSpec {
        runtime: PlacementRuntime {
            profile: spec.runtime.profile.clone(),
            content: profile.spec.clone(),
        },
        model: site.model,
        resources: spec.resources.clone(),
        replicas: spec.replicas,
        gateway: site.gateway,
        endpoint: site.endpoint,
    }
}
