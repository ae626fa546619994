//! Why Pods can't exist: what the Deployment's controller was answered, sorted by who refused.

use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus};

use super::{
    ailment::{Ailment, Finding},
    quoted,
};

/// Why a ReplicaSet can't delete Pods (Kubernetes, `pkg/controller/replicaset/replica_set_utils.go`): they are surplus.
const FAILED_DELETE: &str = "FailedDelete";
/// Why a Deployment does not progress that can't have its ReplicaSet (Kubernetes, `pkg/controller/deployment/util`).
const REPLICA_SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
/// What stands before the answer there, up to the first colon (Kubernetes, `pkg/controller/deployment/sync.go`).
const REPLICA_SET_ANSWER: &str = "Failed to create new replica set ";

/// How a quota refuses (`k8s.io/apiserver`, `pkg/admission/plugin/resourcequota/controller.go`): too much is asked for, a
/// resource that it counts is not asked for, or no quota covers what is asked for.
const QUOTA: [&str; 3] = [
    "exceeded quota: ",
    "failed quota: ",
    "insufficient quota to ",
];
/// How Pod Security refuses (`k8s.io/pod-security-admission`, `admission/admission.go`).
const POD_SECURITY: &str = "violates PodSecurity ";
/// How a missing RuntimeClass is told (Kubernetes, `plugin/pkg/admission/runtimeclass/admission.go`).
const RUNTIME_CLASS: (&str, &str) = ("pod rejected: RuntimeClass ", " not found");
/// How policies and image policies refuse (`k8s.io/apiserver`, `pkg/admission/plugin/policy/validating/dispatcher.go`;
/// Kubernetes, `plugin/pkg/admission/imagepolicy`).
const POLICIES: [&str; 2] = [
    "ValidatingAdmissionPolicy '",
    "image policy webhook backend denied ",
];
/// How answers begin that are somebody's own: a webhook's (`k8s.io/apiserver`, `pkg/admission/plugin/webhook/errors`), of
/// one that can't be asked (`pkg/util/webhook/error.go`), a mutating policy's (`pkg/admission/plugin/policy/generic`).
const OTHERS: [&str; 4] = [
    "admission webhook \"",
    "Internal error occurred: failed calling webhook \"",
    "policy '",
    "policy \"",
];

/// Why there can't be as many Pods as there should, if that is so. The Deployment has the conditions of its ReplicaSets.
pub(super) fn refused(status: &DeploymentStatus) -> Option<Finding> {
    let conditions = status.conditions.iter().flatten();
    Finding::worst(conditions.filter_map(|condition| {
        let (whom, said) = answer(condition)?;
        let said = said.unwrap_or("no message");
        let what = format!("the API server refuses {whom}");
        Some(Finding::new(ailment(said), what, quoted([Some(said)])))
    }))
}

/// Whom the API server refuses, and what it said.
fn answer(condition: &DeploymentCondition) -> Option<(&'static str, Option<&str>)> {
    let said = condition.message.as_deref();
    let why = condition.reason.as_deref();
    match (condition.type_.as_str(), condition.status.as_str()) {
        ("ReplicaFailure", "True") if why != Some(FAILED_DELETE) => Some(("Pods", said)),
        ("Progressing", "False") if why == Some(REPLICA_SET_CREATE_ERROR) => {
            let answer = said.and_then(|said| {
                let named = said.strip_prefix(REPLICA_SET_ANSWER)?;
                named.split_once(": ").map(|(_, answer)| answer)
            });
            Some(("the ReplicaSet", answer.or(said)))
        }
        (_, _) => None,
    }
}

/// Who refuses. Only how an answer begins counts: what follows may be anybody's words.
fn ailment(answer: &str) -> Ailment {
    if OTHERS.iter().any(|start| answer.starts_with(start)) {
        return Ailment::AdmissionDenied;
    }
    // `pods "llama-6c9f-" is forbidden: …` (`k8s.io/apimachinery`, `pkg/api/errors`).
    let Some((_, why)) = answer.split_once(" is forbidden: ") else {
        return Ailment::PodCreateFailed;
    };
    let begins = |starts: &[&str]| starts.iter().any(|start| why.starts_with(start));
    if begins(&QUOTA) {
        Ailment::QuotaExceeded
    } else if begins(&POLICIES) {
        Ailment::AdmissionDenied
    } else if begins(&[POD_SECURITY]) {
        Ailment::PolicyDenied
    } else if begins(&[RUNTIME_CLASS.0]) && why.ends_with(RUNTIME_CLASS.1) {
        Ailment::RuntimeClassMissing
    } else {
        Ailment::PodCreateFailed
    }
}
