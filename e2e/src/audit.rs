//! What an API server was asked, by its audit log.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use crate::Cluster;
use crate::installed::NAMESPACE;

/// One request that has been answered, or a watch that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asked: whoever acts as another is that other.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, …
    pub verb: String,
    /// `deployments`, or with its subresource `deployments/status`.
    pub resource: String,
    /// The object's namespace, empty if it has none.
    pub namespace: String,
    /// The object's name, empty for lists.
    pub name: String,
    /// Path and query.
    pub uri: String,
    /// The HTTP code of the answer.
    pub code: u16,
    /// When it came.
    pub received: Timestamp,
    /// When it was answered.
    pub answered: Timestamp,
}

impl Request {
    /// Did hub or agents ask?
    pub fn is_ours(&self) -> bool {
        self.component().is_some()
    }

    /// The component of Inferfleet that asked: the name of its ServiceAccount.
    pub fn component(&self) -> Option<&str> {
        let account = self.user.strip_prefix("system:serviceaccount:")?;
        account.strip_prefix(NAMESPACE)?.strip_prefix(':')
    }

    /// What may happen at rest: open watches, and renewals of leases. To read a lease is a request like any other.
    pub fn is_rest(&self) -> bool {
        let is_renewal = matches!(self.verb.as_str(), "update" | "patch");
        self.verb == "watch" || (self.resource == "leases" && is_renewal)
    }

    /// Does it change an object that is there, or make or delete one?
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

/// One line of the log. What is missing is empty: a request for no resource has no reference.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Line {
    stage: String,
    verb: String,
    user: User,
    impersonated_user: Option<User>,
    object_ref: Reference,
    #[serde(rename = "requestURI")]
    request_uri: String,
    response_status: Status,
    request_received_timestamp: String,
    stage_timestamp: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reference {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
}

/// The requests that a part of a log tells of, each once, when it was answered. A line that is still being written is not
/// there yet.
pub fn requests(log: &str) -> Vec<Request> {
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().filter_map(request).collect()
}

fn request(line: &str) -> Option<Request> {
    let line: Line = serde_json::from_str(line).ok()?;
    // Each request is told of when it comes as well, and a watch also when it begins to answer.
    if line.stage != "ResponseComplete" {
        return None;
    }
    let Reference {
        mut resource,
        subresource,
        namespace,
        name,
    } = line.object_ref;
    if !subresource.is_empty() {
        resource = format!("{resource}/{subresource}");
    }
    Some(Request {
        user: line.impersonated_user.unwrap_or(line.user).username,
        verb: line.verb,
        resource,
        namespace,
        name,
        uri: line.request_uri,
        code: line.response_status.code,
        received: line.request_received_timestamp.parse().ok()?,
        answered: line.stage_timestamp.parse().ok()?,
    })
}

/// A place in a cluster's log, from which on one reads later.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

/// The end of a cluster's log.
pub fn mark(cluster: &Cluster) -> Result<Mark> {
    // Up to the last whole line, so that none is cut in two.
    let log = read(cluster)?;
    Ok(Mark(log.rfind('\n').map_or(0, |end| end + 1)))
}

/// The requests from a mark on.
pub fn since(cluster: &Cluster, mark: Mark) -> Result<Vec<Request>> {
    let log = read(cluster)?;
    Ok(requests(log.get(mark.0..).unwrap_or_default()))
}

fn read(cluster: &Cluster) -> Result<String> {
    let path = cluster.audit_log();
    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// How often each component asked what: by component, verb and resource.
pub fn counts(requests: &[Request]) -> BTreeMap<(String, String, String), usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let Some(component) = request.component() else {
            continue;
        };
        let key = (
            component.to_owned(),
            request.verb.clone(),
            request.resource.clone(),
        );
        *counts.entry(key).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stage: &str, user: &str, verb: &str, resource: &str) -> String {
        serde_json::json!({
            "stage": stage, "verb": verb, "user": {"username": user},
            "objectRef": {"resource": resource, "namespace": "default", "name": "hello"},
            "requestURI": "/apis", "responseStatus": {"code": 200},
            "requestReceivedTimestamp": "2026-01-02T03:04:05.000001Z",
            "stageTimestamp": "2026-01-02T03:04:05.000009Z",
        })
        .to_string()
    }

    const HUB: &str = "system:serviceaccount:inferfleet-system:inferfleet-hub";

    fn one(user: &str, verb: &str, resource: &str) -> Request {
        let log = line("ResponseComplete", user, verb, resource) + "\n";
        requests(&log).remove(0)
    }

    #[test]
    fn each_request_counts_once_and_a_half_written_line_not_yet() {
        let log = [
            line("RequestReceived", HUB, "patch", "services"),
            line("ResponseComplete", HUB, "patch", "services"),
            line("ResponseComplete", HUB, "patch", "services"),
        ]
        .join("\n");
        assert_eq!(requests(&log).len(), 1);
        assert_eq!(requests(&(log + "\n")).len(), 2);
    }

    #[test]
    fn only_the_accounts_of_our_namespace_are_ours() {
        assert_eq!(one(HUB, "get", "pods").component(), Some("inferfleet-hub"));
        assert!(one(HUB, "get", "pods").is_ours());
        let other = "system:serviceaccount:inferfleet-system-2:inferfleet-hub";
        assert!(!one(other, "get", "pods").is_ours());
        assert!(!one("bed:admin", "get", "pods").is_ours());
    }

    #[test]
    fn who_acts_as_another_is_that_other() {
        let mut entry: serde_json::Value =
            serde_json::from_str(&line("ResponseComplete", "bed:admin", "get", "pods")).unwrap();
        entry["impersonatedUser"] = serde_json::json!({"username": HUB});
        assert_eq!(requests(&format!("{entry}\n"))[0].user, HUB);
    }

    #[test]
    fn watches_and_renewals_are_rest_and_reads_are_not() {
        assert!(one(HUB, "watch", "pods").is_rest());
        assert!(one(HUB, "update", "leases").is_rest());
        assert!(one(HUB, "patch", "leases").is_rest());
        assert!(!one(HUB, "get", "leases").is_rest());
        assert!(!one(HUB, "patch", "services").is_rest());
    }

    #[test]
    fn a_subresource_is_part_of_the_resource() {
        let mut entry: serde_json::Value =
            serde_json::from_str(&line("ResponseComplete", HUB, "patch", "deployments")).unwrap();
        entry["objectRef"]["subresource"] = "status".into();
        let found = requests(&format!("{entry}\n"));
        assert_eq!(found[0].resource, "deployments/status");
        assert_eq!(
            counts(&found).into_keys().next().unwrap(),
            (
                "inferfleet-hub".to_owned(),
                "patch".to_owned(),
                "deployments/status".to_owned()
            )
        );
    }
}
