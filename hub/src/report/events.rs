//! Events: what happened to an object, for `kubectl describe`. One for each transition, which is read off the status that was
//! there: so a restart repeats none, and a loop has none to repeat.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use crds::{
    condition::{AVAILABLE, CONNECTED, JOINED, READY},
    labels,
};
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use operator::cache::ObjectKey;

/// The conditions whose transitions are events.
const TOLD: [&str; 4] = [READY, AVAILABLE, JOINED, CONNECTED];
/// The longest note, in bytes (events.k8s.io/v1).
pub(super) const NOTE_MAX: usize = 1024;

/// Publishes events.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
    warned: Arc<Warned>,
}

/// The servers' conditions of which a warning was told: that they are well again is told as well.
#[derive(Debug, Default)]
struct Warned(Mutex<BTreeSet<(ObjectKey, String)>>);

impl Events {
    /// Publishes with `client`.
    pub fn new(client: Client) -> Self {
        let reporter = Reporter {
            controller: labels::HUB.to_owned(),
            instance: None,
        };
        Self {
            recorder: Recorder::new(client, reporter),
            warned: Arc::default(),
        }
    }

    /// One event for each condition of `after` whose status is another than in `before`. An event that can't be published is
    /// lost: the status says the same.
    pub async fn transitions(
        &self,
        of: &ObjectReference,
        before: &[Condition],
        after: &[Condition],
    ) {
        for condition in transitions(before, after) {
            if TOLD.contains(&condition.type_.as_str()) {
                self.publish(of, &event(condition)).await;
            }
        }
    }

    /// The same of a server, but for a creation that goes well, which its status tells, and which is one write less.
    pub async fn of_server(
        &self,
        server: &ObjectKey,
        of: &ObjectReference,
        before: &[Condition],
        after: &[Condition],
    ) {
        for condition in transitions(before, after) {
            if TOLD.contains(&condition.type_.as_str())
                && self.warned.is_told(server, before, condition)
            {
                self.publish(of, &event(condition)).await;
            }
        }
    }

    /// The server is gone.
    pub fn forget(&self, server: &ObjectKey) {
        self.warned.forget(server);
    }

    /// Something that is no condition.
    pub async fn warn(&self, of: &ObjectReference, reason: &str, note: String) {
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        self.publish(of, &event).await;
    }

    async fn publish(&self, of: &ObjectReference, event: &Event) {
        if let Err(error) = self.recorder.publish(event, of).await {
            tracing::debug!(%error, reason = event.reason, "event not published");
        }
    }
}

impl Warned {
    /// A condition is told that was well, or that fails; one that is well, if it was told before that it was not.
    fn is_told(&self, server: &ObjectKey, before: &[Condition], condition: &Condition) -> bool {
        let Self(warned) = self;
        let mut warned = warned.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (server.clone(), condition.type_.clone());
        let mut earlier = before.iter();
        let was = earlier.find(|was| was.type_ == condition.type_);
        if condition.status == "True" {
            let is_known = warned.remove(&key);
            return is_known || was.is_some_and(|was| was_told(was, before));
        }
        let was_well = was.is_some_and(|was| was.status == "True");
        let is_told = was_well || fails(condition);
        if is_told {
            warned.insert(key);
        }
        is_told
    }

    fn forget(&self, server: &ObjectKey) {
        let Self(warned) = self;
        let mut warned = warned.lock().unwrap_or_else(PoisonError::into_inner);
        warned.retain(|(key, _)| key != server);
    }
}

fn fails(condition: &Condition) -> bool {
    condition.type_ == READY && condition.status == "False"
}

/// Was it told that the condition is not well? As far as the status says, which is all that there is after a restart. The first
/// one has every condition, at one time: what has another status since was well in between, or failed.
fn was_told(condition: &Condition, all: &[Condition]) -> bool {
    let first = all.iter().map(|other| other.last_transition_time.0).min();
    fails(condition) || first.is_some_and(|first| first < condition.last_transition_time.0)
}

/// The conditions of `after` whose status is another than in `before`.
pub fn transitions<'a>(
    before: &'a [Condition],
    after: &'a [Condition],
) -> impl Iterator<Item = &'a Condition> {
    after.iter().filter(|condition| {
        !before
            .iter()
            .any(|other| other.type_ == condition.type_ && other.status == condition.status)
    })
}

fn event(condition: &Condition) -> Event {
    let well = condition.status == "True";
    let end = condition.message.floor_char_boundary(NOTE_MAX);
    let note = condition.message.get(..end).unwrap_or_default();
    Event {
        type_: if well {
            EventType::Normal
        } else {
            EventType::Warning
        },
        reason: condition.reason.clone(),
        note: Some(note.to_owned()),
        action: format!("{}{}", condition.type_, condition.status),
        secondary: None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

    use super::*;

    fn condition(kind: &str, status: &str, reason: &str) -> Condition {
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: "a sentence".to_owned(),
            observed_generation: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        }
    }

    #[test]
    fn only_a_status_that_changed_is_a_transition() {
        let before = [
            condition(READY, "Unknown", "StartingBackend"),
            condition(AVAILABLE, "False", "TooFewReadyClusters"),
        ];
        let after = [
            condition(READY, "Unknown", "Unschedulable"),
            condition(AVAILABLE, "True", "Serving"),
        ];
        let kinds: Vec<_> = transitions(&before, &after)
            .map(|condition| condition.type_.as_str())
            .collect();
        assert_eq!(kinds, [AVAILABLE], "another reason is no transition");
        assert_eq!(transitions(&after, &after).count(), 0);
        assert_eq!(transitions(&[], &after).count(), 2);
    }

    #[test]
    fn a_creation_that_goes_well_is_not_told_and_what_goes_wrong_and_right_again_is() {
        let events = Warned::default();
        let server = ObjectKey::new("team", "llama");
        let told = |before: &str, status: &str| {
            let before = [condition(READY, before, "Because")];
            events.is_told(&server, &before, &condition(READY, status, "Because"))
        };
        assert!(!told("Unknown", "True"), "it is created");
        assert!(told("True", "Unknown"));
        assert!(told("Unknown", "True"), "it is well again");
        assert!(!told("Unknown", "True"));
        assert!(told("Unknown", "False"));
        events.forget(&server);
        assert!(!told("Unknown", "True"));
    }

    #[test]
    fn that_it_is_well_again_is_told_by_a_hub_that_did_not_see_it_fail() {
        let server = ObjectKey::new("team", "llama");
        let told = |kind: &str, before: &str, since: i64| {
            let mut was = condition(kind, before, "Because");
            was.last_transition_time = Time(Timestamp::from_second(since).unwrap());
            let before = [condition("Validation", "True", "Valid"), was];
            Warned::default().is_told(&server, &before, &condition(kind, "True", "Serving"))
        };
        assert!(!told(READY, "Unknown", 0), "it is created");
        assert!(!told(AVAILABLE, "False", 0), "it is created");
        assert!(told(READY, "False", 0), "that was a warning");
        assert!(told(READY, "Unknown", 1), "it was well or failed before");
        assert!(told(AVAILABLE, "False", 1), "it was well before");
    }

    #[test]
    fn an_event_says_the_reason_and_warns_of_what_is_not_well() {
        let well = event(&condition(READY, "True", "Serving"));
        assert_eq!(
            (well.type_, well.reason.as_str()),
            (EventType::Normal, "Serving")
        );
        let ill = event(&condition(READY, "False", "Unschedulable"));
        assert_eq!(ill.type_, EventType::Warning);
        assert_eq!(ill.action, "ReadyFalse");
    }

    #[test]
    fn a_note_has_as_many_bytes_as_the_api_server_takes() {
        let mut long = condition(READY, "False", "Unschedulable");
        long.message = format!("x{}", "ä".repeat(NOTE_MAX));
        let note = event(&long).note.unwrap();
        assert_eq!(note.len(), NOTE_MAX - 1, "no character is cut in two");
    }
}
