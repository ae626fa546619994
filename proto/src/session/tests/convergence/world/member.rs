//! The member cluster: it applies, refuses and removes in its own time, and checks that it may.

use super::{NOW, Object, Work, World, uid};
use crate::identifiers::PlacementKey;
use crate::session::{AgentEvent, Refusal};
use crate::v1;

/// What a member reports of an object: something that follows its content.
pub(super) fn endpoint(object: &Object) -> v1::EndpointReport {
    v1::EndpointReport {
        uid: uid(object.uid),
        message: format!("{:?}", object.body),
        ..v1::EndpointReport::default()
    }
}

impl World {
    pub(super) fn agent_event(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::Welcomed { .. } => {}
            AgentEvent::Desired {
                key,
                uid: of,
                generation,
                body,
                ..
            } => {
                let number = of.trim_start_matches('u').parse().unwrap();
                let removing = matches!(self.work.get(&key), Some(Work::Remove(_)));
                let other = self
                    .cluster
                    .get(&key)
                    .is_some_and(|object| object.uid != number);
                assert!(
                    !removing && !other,
                    "{key} of {of} came before the old one was gone"
                );
                let object = Object {
                    uid: number,
                    generation,
                    body,
                };
                self.work.insert(key, Work::Apply(object));
            }
            AgentEvent::Tombstone { key, uid, .. } | AgentEvent::Absent { key, uid } => {
                let given_up = self.given_up.contains(&(key.clone(), uid.clone()));
                assert!(given_up, "{key} of {uid} is removed, but nobody gave it up");
                self.work.insert(key, Work::Remove(uid));
            }
            AgentEvent::Rejected { .. } | AgentEvent::Certificate { .. } => unreachable!(),
        }
    }

    pub(super) fn member_works(&mut self, key: &PlacementKey) {
        match self.work.remove(key) {
            None => {}
            Some(Work::Apply(object)) => {
                let newer = self
                    .cluster
                    .get(key)
                    .is_none_or(|held| held.generation <= object.generation);
                assert!(newer, "{key} went back");
                self.applies += usize::from(self.cluster.get(key) != Some(&object));
                self.cluster.insert(key.clone(), object.clone());
                self.agent.applied(key, object.generation);
                self.observe(key, &object);
            }
            Some(Work::Remove(of)) => {
                self.removals += 1;
                self.cluster.remove(key);
                if let Some(event) = self.agent.removed(key, &of) {
                    self.agent_event(event);
                }
            }
        }
    }

    pub(super) fn observe(&mut self, key: &PlacementKey, object: &Object) {
        self.agent.endpoint(key.clone(), endpoint(object), NOW);
        let report = v1::PlacementReport {
            uid: uid(object.uid),
            ..v1::PlacementReport::default()
        };
        self.agent.report(key.clone(), report, NOW);
    }

    /// It stays to be done, and may be done later.
    pub(super) fn member_refuses(&mut self, key: &PlacementKey) {
        if let Some(Work::Apply(object)) = self.work.get(key) {
            let refusal = Refusal {
                reason: "NotNow".to_owned(),
                field: String::new(),
                message: String::new(),
            };
            self.agent.refused(key, object.generation, refusal);
        }
    }
}
