//! Which revisions of profiles a server has, and which are kept.

use std::collections::{BTreeMap, BTreeSet};

use crds::{
    condition::State,
    labels,
    v1alpha1::{
        AcceleratorProfileSpec, InferenceServer, InferenceServerStatus, RevisionNumber,
        RuntimeProfileSpec, UpdatePolicy,
    },
};
use hub_plan::{
    overrides::Missing,
    placements::{Intent, Site, placements},
    revisions::{Pins, Shelves, choose, profiles, record},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use crate::given::{cluster, healthy, profile, server};

fn runtime(image: &str) -> RuntimeProfileSpec {
    let mut spec = profile().spec;
    image.clone_into(&mut spec.images[0].image);
    spec
}

fn accelerator(resource: &str) -> AcceleratorProfileSpec {
    serde_json::from_value(json!({"vendor": "nvidia", "resourceName": resource})).unwrap()
}

/// What is recorded of `echo`, from revision 1; it says the last.
fn recorded(images: &[&str]) -> Shelves {
    let mut shelves = Shelves::default();
    for (revision, image) in (1..).zip(images) {
        shelves.runtimes.put("echo", revision, Some(runtime(image)));
    }
    shelves
        .runtimes
        .say("echo", images.last().map(|image| runtime(image)));
    shelves
}

/// The same of the accelerator `gpu`.
fn with_gpu(mut shelves: Shelves, resources: &[&str]) -> Shelves {
    for (revision, resource) in (1..).zip(resources) {
        let spec = accelerator(resource);
        shelves.accelerators.put("gpu", revision, Some(spec));
    }
    let last = resources.last().map(|resource| accelerator(resource));
    shelves.accelerators.say("gpu", last);
    shelves
}

fn pinned(text: &str) -> InferenceServer {
    let mut server = server(&[("east", 1)]);
    let annotation = (labels::PROFILE_REVISIONS.to_owned(), text.to_owned());
    server.metadata.annotations = Some([annotation].into());
    server
}

fn named(mut server: InferenceServer, revision: &str) -> InferenceServer {
    server.spec.runtime.profile_revision = Some(RevisionNumber(revision.to_owned()));
    server
}

fn following(mut server: InferenceServer) -> InferenceServer {
    server.spec.runtime.update_policy = UpdatePolicy::Automatic;
    server
}

fn on_gpu(mut server: InferenceServer) -> InferenceServer {
    server.spec.accelerator = Some(serde_json::from_value(json!({"profile": "gpu"})).unwrap());
    server
}

fn chosen(server: &InferenceServer, shelves: &Shelves) -> String {
    choose(server, shelves).text().unwrap()
}

fn validation(status: &InferenceServerStatus) -> &Condition {
    let mut conditions = status.conditions.iter();
    conditions.find(|one| one.type_ == "Validation").unwrap()
}

#[test]
fn an_edit_of_a_profile_moves_no_server_but_a_new_one_and_one_that_follows() {
    let (one, two) = (recorded(&["a"]), recorded(&["a", "b"]));
    let new = server(&[("east", 1)]);
    let of_one = chosen(&new, &one);
    assert_eq!(of_one, r#"{"runtime":{"echo":1}}"#);
    let old = pinned(&of_one);
    assert_eq!(chosen(&old, &two), of_one);
    assert_eq!(chosen(&new, &two), r#"{"runtime":{"echo":2}}"#);
    assert_eq!(chosen(&following(old), &two), r#"{"runtime":{"echo":2}}"#);
}

#[test]
fn a_server_moves_to_the_revision_that_it_names_and_stays_there() {
    let three = recorded(&["a", "b", "c"]);
    let back = named(pinned(r#"{"runtime":{"echo":3}}"#), "2");
    let moved = chosen(&back, &three);
    assert_eq!(moved, r#"{"runtime":{"echo":2}}"#);
    assert_eq!(chosen(&pinned(&moved), &three), moved);
}

#[test]
fn accelerators_move_with_the_runtime_and_not_by_themselves() {
    let shelves = with_gpu(recorded(&["a", "b"]), &["x.com/gpu", "y.com/gpu"]);
    let old = on_gpu(pinned(
        r#"{"runtime":{"echo":1},"accelerators":{"gpu":1,"former":4}}"#,
    ));
    let text = |runtime, gpu| {
        let runtime: BTreeMap<_, _> = [("echo", runtime)].into();
        json!({"runtime": runtime, "accelerators": {"gpu": gpu}})
    };
    let chosen = |server: &InferenceServer| json!(choose(server, &shelves));
    assert_eq!(chosen(&old), text(1, 1));
    assert_eq!(chosen(&named(old.clone(), "2")), text(2, 2));
    assert_eq!(chosen(&following(old)), text(2, 2));
    // One that is new to the server has no older revision to stay on.
    let new = on_gpu(pinned(r#"{"runtime":{"echo":1}}"#));
    assert_eq!(chosen(&new), text(1, 2));
}

#[test]
fn a_name_that_is_wrong_for_a_moment_costs_no_pin() {
    let shelves = with_gpu(recorded(&["a", "b"]), &["x.com/gpu", "y.com/gpu"]);
    let pins = r#"{"runtime":{"echo":1},"accelerators":{"gpu":1}}"#;
    let right = on_gpu(pinned(pins));
    let mut no_runtime = right.clone();
    no_runtime.spec.runtime.profile = "ecko".to_owned();
    let mut no_gpu = right.clone();
    no_gpu.spec.accelerator = Some(serde_json::from_value(json!({"profile": "gpv"})).unwrap());
    for wrong in [no_runtime, no_gpu, named(right.clone(), "9")] {
        assert_eq!(chosen(&wrong, &shelves), pins);
    }
    assert_eq!(chosen(&right, &shelves), pins);
}

#[test]
fn what_a_cluster_is_to_hold_is_the_pinned_revision() {
    let shelves = with_gpu(recorded(&["a", "b"]), &["x.com/gpu", "y.com/gpu"]);
    let server = on_gpu(pinned(r#"{"runtime":{"echo":1},"accelerators":{"gpu":1}}"#));
    let sites = [(cluster("east"), Site::default())].into();
    let profiles = profiles(&server, &shelves);
    let planned = placements(&server, &profiles, &sites, &BTreeSet::new());
    let [spec] = planned.specs.as_slice() else {
        panic!("one placement, not {}", planned.specs.len())
    };
    let one = Some("1".to_owned());
    assert_eq!(spec.runtime.revision, one);
    assert_eq!(spec.runtime.content, runtime("a"));
    let gpu = spec.accelerator.as_ref().unwrap();
    assert_eq!(gpu.revision, one);
    assert_eq!(gpu.content, Some(accelerator("x.com/gpu")));
    let mut given = healthy();
    given.server = server;
    given.profiles = profiles;
    assert_eq!(given.plan().status.profile_revision, one);
}

#[test]
fn what_can_not_be_had_is_said_and_what_runs_stays() {
    let mut unrecorded = recorded(&["a"]);
    unrecorded.runtimes.say("echo", Some(runtime("b")));
    let mut failing = unrecorded.clone();
    assert!(failing.runtimes.fail("echo", Some("forbidden".to_owned())));
    let mut gone = recorded(&["a"]);
    gone.runtimes.say("echo", None);
    let new = server(&[("east", 1)]);
    let on_one = pinned(r#"{"runtime":{"echo":1}}"#);
    let cases = [
        (
            &new,
            Shelves::default(),
            "RuntimeProfileNotFound",
            "create it",
        ),
        // No new server is given less than a profile says, nor what is left of one that is gone.
        (&new, unrecorded, "RecordingProfile", "is being recorded"),
        (&new, failing, "RecordingProfile", "servers: forbidden"),
        (&new, gone.clone(), "RuntimeProfileNotFound", "create it"),
        (
            &named(on_one.clone(), "7"),
            recorded(&["a", "b"]),
            "ProfileRevisionNotFound",
            "7 of RuntimeProfile echo, but there is 1, 2:",
        ),
        (
            &pinned(r#"{"runtime":{"echo":7}}"#),
            recorded(&["a"]),
            "ProfileRevisionNotFound",
            "but there is 1:",
        ),
        (&on_one, gone, "Valid", "revision 1 of RuntimeProfile echo"),
    ];
    for (server, shelves, reason, message) in cases {
        let mut given = healthy();
        given.server = server.clone();
        given.profiles = profiles(server, &shelves);
        let status = given.plan().status;
        let validation = validation(&status);
        assert_eq!(validation.reason, reason);
        assert!(
            validation.message.contains(message),
            "{}",
            validation.message
        );
        let failed = validation.status == State::False.as_str();
        assert_eq!(failed, reason.ends_with("NotFound"));
        let sites = [(cluster("east"), Site::default())].into();
        let planned = placements(server, &given.profiles, &sites, &BTreeSet::new());
        let runs = matches!(planned.intents[&cluster("east")], Intent::Run(_));
        assert_eq!(runs, reason == "Valid");
    }
}

#[test]
fn an_accelerator_that_is_not_recorded_yet_is_no_one_s_to_mend() {
    let mut shelves = recorded(&["a"]);
    let server = on_gpu(pinned(r#"{"runtime":{"echo":1}}"#));
    let missing = profiles(&server, &shelves).accelerators["gpu"].clone();
    assert_eq!(missing, Err(Missing::Profile));
    shelves
        .accelerators
        .say("gpu", Some(accelerator("x.com/gpu")));
    let mut given = healthy();
    given.profiles = profiles(&server, &shelves);
    given.server = server;
    let status = given.plan().status;
    let validation = validation(&status);
    assert_eq!(validation.reason, "RecordingProfile");
    assert!(validation.message.starts_with("AcceleratorProfile gpu"));
}

#[test]
fn what_a_profile_says_is_recorded_once_under_the_next_number() {
    let upkeep = |shelves: &Shelves, used: &[i64]| {
        let used = used.iter().copied().collect();
        let upkeep = shelves.runtimes.entry("echo").unwrap().upkeep(&used);
        let recorded: Vec<_> = upkeep
            .record
            .into_iter()
            .map(|(revision, content)| (revision, content.images[0].image.clone()))
            .collect();
        (recorded, upkeep.prune, upkeep.forget)
    };
    let mut shelves = Shelves::default();
    shelves.runtimes.say("echo", Some(runtime("a")));
    assert_eq!(
        upkeep(&shelves, &[]),
        (vec![(1, "a".to_owned())], vec![], vec![])
    );
    let nothing = (vec![], vec![], vec![]);
    assert_eq!(upkeep(&recorded(&["a"]), &[]), nothing);
    let mut edited = recorded(&["a", "b"]);
    edited.runtimes.say("echo", Some(runtime("a")));
    // As it once was, and newer all the same: who follows goes there.
    assert_eq!(upkeep(&edited, &[]).0, [(3, "a".to_owned())]);
    // A number that some server has is never given to something else.
    assert_eq!(upkeep(&edited, &[7]).0, [(8, "a".to_owned())]);
    let mut unreadable = Shelves::default();
    unreadable.runtimes.put("echo", 4, None);
    unreadable.runtimes.say("echo", Some(runtime("a")));
    assert_eq!(upkeep(&unreadable, &[]).0, [(5, "a".to_owned())]);
}

#[test]
fn records_are_kept_while_a_server_has_them_and_the_last_ten_beside() {
    let images: Vec<_> = (1..=14).map(|number| number.to_string()).collect();
    let images: Vec<_> = images.iter().map(String::as_str).collect();
    let mut shelves = recorded(&images);
    let prune = |shelves: &Shelves, used: &[i64]| {
        let used = used.iter().copied().collect();
        shelves.runtimes.entry("echo").unwrap().upkeep(&used).prune
    };
    assert_eq!(prune(&shelves, &[]), [3, 2, 1]);
    assert_eq!(prune(&shelves, &[2]), [3, 1]);
    shelves.runtimes.say("echo", None);
    assert_eq!(
        prune(&shelves, &[2, 14]),
        [13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 1]
    );
}

#[test]
fn a_record_that_somebody_deletes_is_written_again_while_it_is_needed() {
    let mut shelves = recorded(&["a", "b", "c"]);
    for revision in 1..=3 {
        shelves.runtimes.lose("echo", revision);
    }
    let entry = shelves.runtimes.entry("echo").unwrap();
    let upkeep = entry.upkeep(&[1].into());
    let numbers: Vec<_> = upkeep.record.iter().map(|(number, _)| *number).collect();
    assert_eq!((numbers, upkeep.forget), (vec![3, 1], vec![2]));
    shelves.runtimes.forget("echo", 2);
    assert_eq!(shelves.runtimes.entry("echo").unwrap().numbers(), [1, 3]);
}

#[test]
fn a_record_says_what_the_profile_said_and_whose_it_is() {
    let object = record("inferfleet", "echo", 3, &runtime("a")).unwrap();
    let name = object.metadata.name.clone().unwrap();
    assert_eq!(
        (name.as_str(), object.revision),
        ("runtimeprofile-echo-3", 3)
    );
    let mut shelves = Shelves::default();
    let of = shelves.take(&object, true).unwrap();
    assert_eq!(of.name, "echo");
    let entry = shelves.runtimes.entry("echo").unwrap();
    assert_eq!(**entry.get(3).unwrap(), runtime("a"));
    let mut strange = object;
    strange.data = Some(serde_json::from_value(json!({"spec": {}})).unwrap());
    assert_eq!(shelves.take(&strange, true), None);
}

#[test]
fn a_server_lets_go_of_what_it_is_pinned_to_no_more() {
    let pins = |text: &str| Pins::of(&pinned(text));
    let before = pins(r#"{"runtime":{"echo":1},"accelerators":{"gpu":1,"npu":2}}"#);
    let later = pins(r#"{"runtime":{"echo":2},"accelerators":{"npu":2}}"#);
    let left: Vec<_> = before
        .left(&later)
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(left, ["echo", "gpu"]);
    assert_eq!(before.left(&before), []);
    assert_eq!(pins("what is this"), Pins::default());
}
