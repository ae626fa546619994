//! A world in which all is well, to be spoilt by each test.

use std::{collections::BTreeSet, sync::Arc};

use agent_plan::{
    Drivers, GatewayFact, Kind, ObjectId, Outcome, Outcomes, PlacementInput, PlacementPlan, Report,
    ServiceFact, judge, leaving, plan,
};
use crds::{
    condition::Verdict,
    v1alpha1::{GatewayReference, ServerPlacement},
};
use gateway_api::{gateways::Gateway, httproutes::HttpRoute};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Node, Pod, Service},
    },
    jiff::Timestamp,
};
use serde_json::{Value, json};

/// What time it is.
pub(crate) fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

/// What a test may change before it asks.
pub(crate) struct World {
    pub(crate) placement: Value,
    pub(crate) default_gateway: Option<GatewayReference>,
    pub(crate) gateway_api: bool,
    pub(crate) gateway: Option<Value>,
    /// The Services are known, and this is the one that is named.
    pub(crate) services_known: bool,
    pub(crate) service: Option<Value>,
    pub(crate) nodes: Option<Vec<Value>>,
    pub(crate) runtime_classes: BTreeSet<String>,
    pub(crate) owned: Vec<ObjectId>,
    pub(crate) deployment: Option<Value>,
    pub(crate) route: Option<Value>,
    pub(crate) pods: Vec<Value>,
}

impl World {
    /// The echo profile, two replicas, all ready, a route that is accepted.
    pub(crate) fn well() -> Self {
        Self {
            placement: json!({
                "apiVersion": "inferfleet.io/v1alpha1",
                "kind": "ServerPlacement",
                "metadata": {
                    "name": "llama", "namespace": "team-a", "uid": "placement-uid",
                    "annotations": {"inferfleet.io/server-uid": "server-uid"},
                },
                "spec": {
                    "runtime": {"profile": "echo", "content": {
                        "images": [{"vendor": "nvidia", "image": "cuda"}, {"vendor": "none", "image": "echo:1"}],
                        "command": ["echo"],
                        "args": ["--listen=0.0.0.0:$(port.http)", "--name=$(model.name)"],
                        "ports": [{"name": "metrics", "port": 8000}, {"name": "http", "port": 8000}, {"name": "grpc", "port": 9000}],
                        "probes": {
                            "startup": {"path": "/v2/health/ready", "failureSeconds": 600},
                            "readiness": {"path": "/v2/health/ready"},
                            "liveness": {"path": "/v2/health/live", "failureSeconds": 45},
                        },
                        "drainSeconds": 120,
                    }},
                    "model": {"uri": "hf://org/llama"},
                    "resources": {"requests": {"cpu": 2, "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
                    "replicas": 2,
                },
            }),
            default_gateway: Some(GatewayReference {
                namespace: "infra".to_owned(),
                name: "public".to_owned(),
                listener: None,
            }),
            gateway_api: true,
            gateway: Some(json!({
                "metadata": {"name": "public", "namespace": "infra"},
                "spec": {"gatewayClassName": "any", "listeners": [
                    {"name": "tls", "port": 443, "protocol": "HTTPS"},
                    {"name": "one-host", "port": 80, "protocol": "HTTP", "hostname": "a.example.com"},
                    {"name": "http", "port": 8080, "protocol": "HTTP"},
                ]},
                "status": {"addresses": [
                    {"type": "IPAddress", "value": "203.0.113.9"},
                    {"value": "203.0.113.10"},
                    {"type": "IPAddress", "value": "203.0.113.9"},
                ]},
            })),
            services_known: true,
            service: None,
            nodes: None,
            runtime_classes: BTreeSet::new(),
            owned: Vec::new(),
            deployment: Some(json!({
                "metadata": {"name": "llama", "namespace": "team-a", "generation": 3},
                "status": {"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2},
            })),
            route: Some(json!({
                "metadata": {"name": "llama-traffic-0", "namespace": "team-a", "generation": 5},
                "spec": {},
                "status": {"parents": [entry("http", 5, "True", "True")]},
            })),
            pods: Vec::new(),
        }
    }

    /// All is well but for the Deployment's status.
    pub(crate) fn with_status(status: Value) -> Self {
        let mut world = Self::well();
        world.deployment.as_mut().unwrap()["status"] = status;
        world
    }

    pub(crate) fn ask<T>(&self, question: impl FnOnce(&PlacementInput<'_>) -> T) -> T {
        let placement: ServerPlacement = read(&self.placement);
        let gateway: Option<Gateway> = self.gateway.as_ref().map(read);
        let service: Option<Service> = self.service.as_ref().map(read);
        let nodes: Option<Vec<Arc<Node>>> = self.nodes.as_ref().map(all);
        let deployments: Vec<Arc<Deployment>> = all(&self.deployment);
        let routes: Vec<Arc<HttpRoute>> = all(&self.route);
        let pods: Vec<Arc<Pod>> = all(&self.pods);
        let gateway = match &gateway {
            _ if !self.gateway_api => GatewayFact::ApiMissing,
            None => GatewayFact::NotFound,
            Some(gateway) => GatewayFact::Found(gateway),
        };
        question(&PlacementInput {
            placement: &placement,
            default_gateway: self.default_gateway.as_ref(),
            gateway,
            service: match &service {
                _ if !self.services_known => ServiceFact::Unlisted,
                None => ServiceFact::NotFound,
                Some(service) => ServiceFact::Found(service),
            },
            nodes: nodes.as_deref(),
            runtime_classes: &self.runtime_classes,
            owned: &self.owned,
            deployments: &deployments,
            routes: &routes,
            pods: &pods,
        })
    }

    /// The content of the profile.
    pub(crate) fn content(&mut self) -> &mut Value {
        &mut self.placement["spec"]["runtime"]["content"]
    }

    /// The Gateway has these listeners.
    pub(crate) fn listen(&mut self, listeners: Value) {
        self.gateway.as_mut().unwrap()["spec"]["listeners"] = listeners;
    }

    /// The Gateway reports these addresses.
    pub(crate) fn address(&mut self, addresses: Value) {
        self.gateway.as_mut().unwrap()["status"]["addresses"] = addresses;
    }

    pub(crate) fn plan(&self) -> PlacementPlan {
        self.ask(|input| plan(&Drivers::default(), input))
    }

    /// What is said of the placement after that plan.
    pub(crate) fn judged(&self, planned: &PlacementPlan, outcomes: &Outcomes) -> Report {
        self.ask(|input| judge(&Drivers::default(), input, planned, outcomes, now()))
    }

    /// What is said of the placement on its way out.
    pub(crate) fn leaving(&self) -> Report {
        self.ask(|input| leaving(&Drivers::default(), input))
    }

    /// The planned object of this kind, as JSON.
    pub(crate) fn rendered(&self, kind: Kind) -> Value {
        let plan = self.plan();
        let object = plan.objects.iter().find(|object| object.id().kind == kind);
        serde_json::to_value(object.unwrap()).unwrap()
    }

    /// The planned Pod, as JSON.
    pub(crate) fn pod(&self) -> Value {
        self.rendered(Kind::Deployment)["spec"]["template"]["spec"].clone()
    }

    /// The planned container, as JSON.
    pub(crate) fn container(&self) -> Value {
        self.pod()["containers"][0].clone()
    }

    /// The report when every object is as planned.
    pub(crate) fn report(&self) -> Report {
        self.report_after(|_| Outcome::Current)
    }

    pub(crate) fn report_after(&self, outcome: impl Fn(&ObjectId) -> Outcome) -> Report {
        let plan = self.plan();
        let ids = plan.objects.iter().map(agent_plan::Object::id);
        let outcomes: Outcomes = ids.map(|id| (id.clone(), outcome(&id))).collect();
        self.judged(&plan, &outcomes)
    }

    pub(crate) fn health(&self) -> String {
        shown(&self.report().verdicts[3])
    }

    pub(crate) fn route_verdict(&self) -> String {
        shown(&self.report().verdicts[1])
    }
}

/// An entry of a route's status by our Gateway.
pub(crate) fn entry(section: &str, generation: i64, accepted: &str, resolved: &str) -> Value {
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": format!("{kind}Reason"), "message": format!("{kind} said"),
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!({
        "controllerName": "example.com/gateway",
        "parentRef": {"namespace": "infra", "name": "public", "sectionName": section},
        "conditions": [condition("Accepted", accepted), condition("ResolvedRefs", resolved)],
    })
}

/// A Pod of the Deployment, with this status.
pub(crate) fn pod(name: &str, status: &Value) -> Value {
    json!({
        "metadata": {
            "name": name,
            "labels": {"inferfleet.io/server": "llama", "pod-template-hash": "abc"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "llama-abc", "uid": "r", "controller": true}],
        },
        "status": status,
    })
}

/// `True Reason: message`.
pub(crate) fn shown(verdict: &Verdict) -> String {
    let state = verdict.state.as_str();
    format!("{state} {}: {}", verdict.reason, verdict.message)
}

pub(crate) fn id(kind: Kind, name: &str) -> ObjectId {
    ObjectId {
        kind,
        name: name.to_owned(),
    }
}

fn all<'a, T: serde::de::DeserializeOwned>(
    values: impl IntoIterator<Item = &'a Value>,
) -> Vec<Arc<T>> {
    values
        .into_iter()
        .map(|value| Arc::new(read(value)))
        .collect()
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}
