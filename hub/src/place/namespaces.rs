//! Which namespaces of the hub may target a cluster.

use std::collections::BTreeMap;

use crds::{
    reason,
    v1alpha1::{MemberCluster, NamespacesFrom},
};
use hub_plan::facts::Refusal;
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};

/// Why a cluster takes no servers of a namespace with these labels; `None`: it does.
pub(super) fn refusal(
    record: &MemberCluster,
    namespace: &str,
    labels: &BTreeMap<String, String>,
) -> Option<Refusal> {
    let name = record.name_any();
    let allowed = &record.spec.namespaces;
    let why = match (allowed.from, &allowed.selector) {
        (NamespacesFrom::All, _) => return None,
        (NamespacesFrom::None, _) => "from is None".to_owned(),
        // The API server lets nobody write that.
        (NamespacesFrom::Selector, None) => "it has no selector".to_owned(),
        (NamespacesFrom::Selector, Some(selector)) => match Selector::try_from(selector.clone()) {
            Ok(selector) if selector.matches(labels) => return None,
            Ok(_) => "its selector does not pick it".to_owned(),
            Err(error) => format!("its selector can't be read: {error}"),
        },
    };
    Some(Refusal {
        reason: reason::NAMESPACE_NOT_ALLOWED.to_owned(),
        message: format!(
            "MemberCluster {name} takes no servers of namespace {namespace} (spec.namespaces: {why}): have it opened, or take it out of spec.clusterTargets; what runs there stays as it is"
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refused(namespaces: &Value, labels: &[(&str, &str)]) -> Option<String> {
        let record = json!({
            "apiVersion": "inferfleet.io/v1alpha1",
            "kind": "MemberCluster",
            "metadata": {"name": "east"},
            "spec": {"namespaces": namespaces},
        });
        let record = serde_json::from_value(record).unwrap();
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        refusal(&record, "team", &labels).map(|refusal| refusal.message)
    }

    #[test]
    fn a_cluster_is_open_to_all_unless_it_says_otherwise() {
        assert_eq!(refused(&json!({}), &[]), None);
        assert_eq!(refused(&json!({"from": "All"}), &[]), None);
        let message = refused(&json!({"from": "None"}), &[]).unwrap();
        assert!(message.starts_with("MemberCluster east takes no servers of namespace team (spec.namespaces: from is None)"), "{message}");
    }

    #[test]
    fn a_selector_picks_by_labels() {
        let gold = json!({"from": "Selector", "selector": {"matchLabels": {"tier": "gold"}}});
        assert_eq!(refused(&gold, &[("tier", "gold"), ("a", "b")]), None);
        assert!(refused(&gold, &[("tier", "tin")]).is_some());
        assert!(refused(&gold, &[]).is_some());
        let not = json!({"from": "Selector", "selector": {"matchExpressions": [
            {"key": "tier", "operator": "NotIn", "values": ["gold"]},
        ]}});
        assert!(refused(&not, &[("tier", "gold")]).is_some());
        assert_eq!(refused(&not, &[]), None);
    }

    #[test]
    fn a_selector_that_can_not_be_read_picks_nothing_and_says_so() {
        let odd = json!({"from": "Selector", "selector": {"matchExpressions": [
            {"key": "tier", "operator": "Like", "values": ["g*"]},
        ]}});
        let message = refused(&odd, &[]).unwrap();
        assert!(message.contains("can't be read"), "{message}");
        let none = json!({"from": "Selector"});
        assert!(refused(&none, &[]).is_some());
    }
}
