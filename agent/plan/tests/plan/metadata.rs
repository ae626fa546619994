//! What every object of a placement carries.

use agent_plan::Kind;
use serde_json::json;

use crate::given::World;

#[test]
fn every_object_names_the_placement_as_its_controller() {
    for object in World::well().plan().objects {
        let metadata = &serde_json::to_value(&object).unwrap()["metadata"];
        let owner = &metadata["ownerReferences"][0];
        assert_eq!(owner["apiVersion"], "inferfleet.io/v1alpha1");
        assert_eq!(owner["kind"], "ServerPlacement");
        assert_eq!(owner["name"], "llama");
    }
}

#[test]
fn a_placement_is_gone_only_when_all_its_objects_are() {
    for object in World::well().plan().objects {
        let metadata = &serde_json::to_value(&object).unwrap()["metadata"];
        assert_eq!(metadata["ownerReferences"][0]["blockOwnerDeletion"], true);
    }
}

#[test]
fn every_object_says_which_server_it_is_of() {
    for object in World::well().plan().objects {
        let labels = &serde_json::to_value(&object).unwrap()["metadata"]["labels"];
        assert_eq!(labels["inferfleet.io/server"], "llama");
        assert_eq!(labels["app.kubernetes.io/name"], "llama");
    }
}

#[test]
fn the_pods_carry_the_labels_of_every_object() {
    let deployment = World::well().rendered(Kind::Deployment);
    assert_eq!(
        deployment["spec"]["template"]["metadata"],
        json!({"labels": deployment["metadata"]["labels"]})
    );
}

#[test]
fn objects_have_the_names_that_follow_from_the_servers() {
    let mut world = World::well();
    world.placement["metadata"]["name"] = json!("qwen");
    let plan = world.plan();
    let names: Vec<_> = plan
        .objects
        .iter()
        .map(agent_plan::Object::id)
        .map(|id| format!("{} {}", id.kind.as_str(), id.name))
        .collect();
    assert_eq!(
        names,
        [
            "ConfigMap qwen-model-config",
            "ServiceAccount qwen",
            "Deployment qwen",
            "Service qwen",
            "PodDisruptionBudget qwen",
            "HTTPRoute qwen-traffic-0",
        ]
    );
}

#[test]
fn servers_of_one_name_in_two_namespaces_share_nothing_on_a_node() {
    let pod = World::well().rendered(Kind::Deployment)["spec"]["template"]["spec"].clone();
    let volumes = pod["volumes"].as_array().unwrap();
    assert!(!volumes.is_empty());
    for volume in volumes {
        assert!(volume.get("hostPath").is_none(), "{volume}");
    }
    for shared in ["hostNetwork", "hostPID", "hostIPC"] {
        assert!(pod.get(shared).is_none(), "{shared}");
    }
}
