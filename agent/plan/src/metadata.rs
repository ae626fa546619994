//! What every object of a placement carries: its labels and its owner.

use std::collections::BTreeMap;

use crds::{labels, v1alpha1::ServerPlacement};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

/// Set by the Deployment controller on the Pods of each of its ReplicaSets: another for each revision.
pub(crate) const TEMPLATE_HASH: &str = "pod-template-hash";

/// Metadata of the object `name` of the placement. Deleting the placement deletes the object.
pub fn metadata(placement: &ServerPlacement, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: placement.namespace(),
        labels: Some(object_labels(placement)),
        owner_references: placement.controller_owner_ref(&()).map(|owner| {
            // So that the placement is gone from the API server only when all of its objects are.
            let block_owner_deletion = Some(true);
            vec![OwnerReference {
                block_owner_deletion,
                ..owner
            }]
        }),
        ..ObjectMeta::default()
    }
}

/// Labels of each object, and of the Pods.
pub fn object_labels(placement: &ServerPlacement) -> BTreeMap<String, String> {
    let mut all = selector(placement);
    all.insert(labels::APP_NAME.to_owned(), placement.name_any());
    all.insert(labels::MANAGED_BY.to_owned(), labels::AGENT.to_owned());
    all
}

/// The labels that select the server's Pods. Frozen: a Deployment's selector can't change.
pub fn selector(placement: &ServerPlacement) -> BTreeMap<String, String> {
    [(labels::SERVER.to_owned(), placement.name_any())].into()
}

/// The same as a LabelSelector.
pub fn label_selector(placement: &ServerPlacement) -> LabelSelector {
    LabelSelector {
        match_labels: Some(selector(placement)),
        ..LabelSelector::default()
    }
}
