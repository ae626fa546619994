//! What each member cluster is to hold of one server.

use std::collections::{BTreeMap, BTreeSet};

use crds::{
    ClusterName,
    v1alpha1::{
        DeletionPolicy, EndpointSource, GatewayReference, InferenceServer, Model, Overrides,
        PlacementRuntime, ServerPlacementSpec,
    },
};

use crate::overrides::{self, Profiles};

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
#[derive(Clone, Debug, Default, PartialEq)]
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
    profiles: &Profiles,
    sites: &BTreeMap<ClusterName, Site>,
    holders: &BTreeSet<ClusterName>,
) -> Placements {
    let leaving = is_leaving(server);
    let leave = leave(server);
    let mut placements = Placements::default();
    let mut indices: BTreeMap<(Site, Option<String>), usize> = BTreeMap::new();
    let (names, targets) = (targets(server), overrides::targets(server));
    for cluster in &names {
        let intent = match sites.get(cluster) {
            _ if leaving => leave.clone(),
            // A MemberCluster that does not exist has no session to say anything in.
            None => continue,
            Some(site) if site.withheld || is_refused(server) => Intent::Keep,
            Some(site) => {
                let target = targets.get(cluster.as_str()).copied();
                let site = effective(site, target.and_then(|target| target.endpoint.as_ref()));
                let overrides = target.and_then(|target| target.overrides.as_ref());
                let key = (site, overrides.map(text));
                let index = indices.get(&key).copied().or_else(|| {
                    let spec = spec(server, profiles, key.0.clone(), overrides)?;
                    placements.specs.push(spec);
                    let index = placements.specs.len() - 1;
                    indices.insert(key, index);
                    Some(index)
                });
                index.map_or(Intent::Keep, Intent::Run)
            }
        };
        placements.intents.insert(cluster.clone(), intent);
    }
    let former = if leaving { leave } else { Intent::Remove };
    for holder in holders.difference(&names) {
        placements.intents.insert(holder.clone(), former.clone());
    }
    placements
}

/// Overrides in an order: equal ones have one text. Only few targets have any.
fn text(overrides: &Overrides) -> String {
    format!("{overrides:?}")
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

/// What a cluster is to hold; `None` while a profile that it needs says nothing to it.
fn spec(
    server: &InferenceServer,
    profiles: &Profiles,
    site: Site,
    overrides: Option<&Overrides>,
) -> Option<ServerPlacementSpec> {
    let InferenceServer { spec, .. } = server;
    let accelerator = overrides::accelerator(server, overrides);
    let accelerator = match accelerator {
        None => None,
        Some(wanted) => Some(profiles.placed(wanted)?),
    };
    let replicas = overrides::replicas(server, overrides);
    let none = Overrides::default();
    let own = overrides.unwrap_or(&none);
    let profile = profiles.runtime.as_ref().ok()?;
    Some(ServerPlacementSpec {
        runtime: PlacementRuntime {
            profile: spec.runtime.profile.clone(),
            revision: Some(profile.revision.to_string()),
            content: profile.content.as_ref().clone(),
            image: own.image.as_ref().or(spec.runtime.image.as_ref()).cloned(),
            args: spec.runtime.args.clone(),
            env: spec.runtime.env.clone(),
        },
        model: site.model,
        resources: own.resources.as_ref().or(spec.resources.as_ref()).cloned(),
        accelerator,
        replicas,
        spreading: spec.spreading,
        disruption: spec.disruption,
        node_selector: own
            .node_selector
            .as_ref()
            .unwrap_or(&spec.node_selector)
            .clone(),
        tolerations: spec.tolerations.clone(),
        image_pull_secrets: spec.image_pull_secrets.clone(),
        gateway: site.gateway,
        endpoint: site.endpoint,
    })
}
