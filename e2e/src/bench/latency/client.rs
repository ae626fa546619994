//! The bare client of `latency`: it watches what hub and agent watch, and writes what they write, in their order and as much at
//! once.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use gateway_api::httproutes::HttpRoute;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::DynamicObject;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{FIGURE, FLOOR, PATTERN};
use crate::bench::bare::{self, Copies, Object, Server};
use crate::bench::watched::Watched;

/// The bare client, until it is dropped.
pub(super) struct Bare {
    tasks: JoinSet<Result<()>>,
}

impl Bare {
    /// Begins to watch: returns when all watches stand.
    pub(super) async fn start(hub: Client, member: Client, pattern: Copies) -> Result<Self> {
        let all = watcher::Config::default;
        let servers: Api<DynamicObject> =
            Api::namespaced_with(hub.clone(), FLOOR, &bare::servers());
        let servers = Watched::begin("the bare client's servers", servers, all()).await?;
        let deployments: Api<Deployment> = Api::namespaced(member.clone(), FLOOR);
        let deployments = Watched::begin("its Deployments", deployments, all()).await?;
        let routes = async |client: &Client| {
            let routes: Api<HttpRoute> = Api::namespaced(client.clone(), FLOOR);
            Watched::begin("its routes", routes, all()).await
        };
        let routes = [routes(&hub).await?, routes(&member).await?];
        let writer = Writer {
            hub,
            member,
            pattern,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(writer.clone().follow_servers(servers, routes));
        tasks.spawn(writer.follow_deployments(deployments));
        Ok(Self { tasks })
    }

    /// Neither half has ended.
    pub(super) fn runs(&self) -> bool {
        self.tasks.len() == 2
    }
}

#[derive(Clone)]
struct Writer {
    hub: Client,
    member: Client,
    pattern: Copies,
}

impl Writer {
    fn copies(&self, name: &str) -> Copies {
        let from = Server {
            namespace: FIGURE,
            name: PATTERN,
        };
        let to = Server {
            namespace: FLOOR,
            name,
        };
        self.pattern.of(&from, &to)
    }

    /// A server that is new: everything. One that has changed: what replicas stand in. Then its status.
    async fn follow_servers(
        self,
        mut servers: Watched<DynamicObject>,
        [mut hub_routes, mut member_routes]: [Watched<HttpRoute>; 2],
    ) -> Result<()> {
        let mut generations: BTreeMap<String, Option<i64>> = BTreeMap::new();
        loop {
            let server = servers.next().await?;
            let (name, generation) = (server.name_any(), server.metadata.generation);
            let before = generations.insert(name.clone(), generation);
            if before == Some(generation) {
                continue;
            }
            let replicas = server.data.pointer("/spec/replicas").cloned();
            let replicas = replicas.context("a server has replicas")?;
            let copies = self.copies(&name);
            if before.is_none() {
                tokio::try_join!(
                    self.in_member(&copies, &replicas, |_| true),
                    self.in_hub(&copies),
                )?;
                let accepted =
                    |route: &HttpRoute| route.name_any().starts_with(&name) && is_accepted(route);
                tokio::try_join!(hub_routes.until(accepted), member_routes.until(accepted))?;
            } else {
                let scaled = |object: &Object| {
                    matches!(object.plural.as_str(), "serverplacements" | "deployments")
                };
                self.in_member(&copies, &replicas, scaled).await?;
            }
            let mut status = copies.status.clone();
            set(&mut status, "/observedGeneration", &json!(generation));
            set(&mut status, "/clusters/0/replicas/wanted", &replicas);
            copies
                .server
                .patch_status(&self.hub, FLOOR, &status)
                .await?;
        }
    }

    /// Writes those of a member's objects, with so many replicas.
    async fn in_member(
        &self,
        copies: &Copies,
        replicas: &Value,
        is_written: impl Fn(&Object) -> bool,
    ) -> Result<()> {
        let objects = copies.members.first().map_or(&[][..], Vec::as_slice);
        for stage in bare::stages(objects) {
            let stage = stage.filter(|object| is_written(object));
            let writes = stage.map(async |object| {
                let object = object.with(|body| set(body, "/spec/replicas", replicas))?;
                object.apply(&self.member, FLOOR).await
            });
            try_join_all(writes).await?;
        }
        Ok(())
    }

    /// Writes the Service, then the route. Slices come with the first replica that is ready.
    async fn in_hub(&self, copies: &Copies) -> Result<()> {
        for object in &copies.hub {
            if object.plural != "endpointslices" {
                object.apply(&self.hub, FLOOR).await?;
            }
        }
        Ok(())
    }

    /// Replicas that are ready: the slice, then the status.
    async fn follow_deployments(self, mut deployments: Watched<Deployment>) -> Result<()> {
        let mut known: BTreeMap<String, i32> = BTreeMap::new();
        loop {
            let deployment = deployments.next().await?;
            let name = deployment.name_any();
            let status = deployment.status.unwrap_or_default();
            let ready = status.ready_replicas.unwrap_or_default();
            if known.insert(name.clone(), ready).unwrap_or_default() == ready {
                continue;
            }
            let copies = self.copies(&name);
            let slices = copies
                .hub
                .iter()
                .filter(|object| object.plural == "endpointslices");
            for slice in slices {
                self.publish(slice).await?;
            }
            let mut status = copies.status.clone();
            set(&mut status, "/clusters/0/replicas/ready", &json!(ready));
            set(&mut status, "/summary/reason", &json!("Serving"));
            copies
                .server
                .patch_status(&self.hub, FLOOR, &status)
                .await?;
        }
    }

    async fn publish(&self, slice: &Object) -> Result<()> {
        let ready = json!({"ready": true, "serving": true, "terminating": false});
        let slice = slice.with(|body| set(body, "/endpoints/0/conditions", &ready))?;
        slice.apply(&self.hub, FLOOR).await
    }
}

/// Does a gateway take the route as it is?
fn is_accepted(route: &HttpRoute) -> bool {
    let parents = route.status.iter().flat_map(|status| &status.parents);
    let conditions: Vec<_> = parents.flat_map(|parent| &parent.conditions).collect();
    let is_true = |of: &str| {
        conditions.iter().any(|condition| {
            condition.type_ == of
                && condition.status == "True"
                && condition.observed_generation == route.metadata.generation
        })
    };
    ["Accepted", "ResolvedRefs"].into_iter().all(is_true)
}

/// Sets what is there; every path that is set is in the pattern.
fn set(body: &mut Value, path: &str, value: &Value) {
    if let Some(place) = body.pointer_mut(path) {
        *place = value.clone();
    }
}
