//! When the status of a server is written that nobody waits for at once.
//!
//! What tells of an obstacle goes within a second of the last status. What only tells of progress goes when no more of it comes,
//! as long as few servers have such news: in a rush the API server has better things to take, and each server's news wait for
//! more. A status that waits is kept: what it tells of a cluster may be the last that is heard of it for a while.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crds::v1alpha1::InferenceServerStatus;
use hub_plan::urgency::Urgency;
use operator::cache::ObjectKey;

/// What comes within this time goes together.
const PAUSE: Duration = Duration::from_secs(1);
/// No more of it comes where the server was not looked at for so long.
const QUIET: Duration = Duration::from_millis(200);
/// Progress is told within this time, whatever the rush.
const RUSH_PAUSE: Duration = Duration::from_secs(30);
/// What is published may keep a status waiting for no longer: where clusters come and go all the time, some of it always waits.
const HOLD: Duration = Duration::from_secs(5);
/// Outside of a rush as many statuses tell of progress, of all servers together: one in this time,
const PROGRESS_EVERY: Duration = Duration::from_secs(2);
/// and so many more after a time without.
const PROGRESS_AT_ONCE: u32 = 10;

/// When each server's status may be written.
#[derive(Debug, Default)]
pub struct Pace {
    turns: Mutex<Turns>,
}

#[derive(Debug, Default)]
struct Turns {
    by_server: BTreeMap<ObjectKey, Turn>,
    /// When progress has used up what it may use of the API server until now (the theoretical arrival time of GCRA).
    used_until: Duration,
}

#[derive(Debug, Default)]
struct Turn {
    /// When its status was last written.
    written: Option<Duration>,
    /// Since when there is something to write.
    waiting: Option<Duration>,
    /// When progress was last told.
    progressed: Option<Duration>,
    /// When progress is told, if no more of it comes until then.
    due: Option<Duration>,
    /// It waits for the rush to be over.
    is_put_off: bool,
    /// Since when it waits for what is published to be what it speaks of.
    held: Option<Duration>,
    /// What waits, and of which UID it speaks.
    news: Option<(String, Arc<InferenceServerStatus>)>,
}

impl Pace {
    /// How long a status has to wait that is to be written now; `None`: not at all.
    pub fn wait(&self, server: &ObjectKey, urgency: Urgency, now: Duration) -> Option<Duration> {
        let mut turns = self.turns();
        let Turns {
            by_server,
            used_until,
        } = &mut *turns;
        let turn = by_server.entry(server.clone()).or_default();
        let waiting = *turn.waiting.get_or_insert(now);
        let soon = turn.written.unwrap_or(waiting) + PAUSE;
        let late = waiting + RUSH_PAUSE;
        let due = match urgency {
            Urgency::AtOnce => now,
            Urgency::Obstacle => soon,
            Urgency::Progress if turn.is_put_off => late,
            Urgency::Progress if turn.due.is_none_or(|due| now < due) => {
                let quiet = (now + QUIET).min(waiting + PAUSE);
                let apart = turn.progressed.map(|told| told + PAUSE);
                *turn.due.insert(quiet.max(apart.unwrap_or_default()))
            }
            Urgency::Progress => {
                let is_rush = *used_until > now + PROGRESS_EVERY * (PROGRESS_AT_ONCE - 1);
                turn.is_put_off = is_rush;
                if is_rush {
                    late
                } else {
                    *used_until = now.max(*used_until) + PROGRESS_EVERY;
                    turn.progressed = Some(now);
                    now
                }
            }
        };
        (now < due).then(|| due.saturating_sub(now))
    }

    /// How long a status has to wait for the rest of what is published, which comes after `rest`; `None`: no longer.
    pub fn hold(
        &self,
        server: &ObjectKey,
        rest: Option<Duration>,
        now: Duration,
    ) -> Option<Duration> {
        let mut turns = self.turns();
        let turn = turns.by_server.entry(server.clone()).or_default();
        let Some(rest) = rest else {
            turn.held = None;
            return None;
        };
        let until = *turn.held.get_or_insert(now) + HOLD;
        (now < until).then(|| rest.min(until.saturating_sub(now)))
    }

    /// Keeps a status that waits for its turn.
    pub fn put_off(&self, server: &ObjectKey, uid: &str, status: InferenceServerStatus) {
        let mut turns = self.turns();
        let turn = turns.by_server.entry(server.clone()).or_default();
        turn.news = Some((uid.to_owned(), Arc::new(status)));
    }

    /// The status of the server of that UID that waits for its turn.
    pub fn waiting(&self, server: &ObjectKey, uid: &str) -> Option<Arc<InferenceServerStatus>> {
        let turns = self.turns();
        let (of, status) = turns.by_server.get(server)?.news.as_ref()?;
        (of == uid).then(|| Arc::clone(status))
    }

    /// The status was written: nothing waits any more.
    pub fn written(&self, server: &ObjectKey, now: Duration) {
        self.put(server, Some(now));
    }

    /// There is nothing to write.
    pub fn rest(&self, server: &ObjectKey) {
        self.put(server, None);
    }

    fn put(&self, server: &ObjectKey, written: Option<Duration>) {
        let mut turns = self.turns();
        let turn = turns.by_server.entry(server.clone()).or_default();
        *turn = Turn {
            written: written.or(turn.written),
            progressed: turn.progressed,
            ..Turn::default()
        };
    }

    /// The server is gone.
    pub fn forget(&self, server: &ObjectKey) {
        self.turns().by_server.remove(server);
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("team", name)
    }

    /// Writes what need not wait.
    fn ask(pace: &Pace, server: &ObjectKey, urgency: Urgency, now: Duration) -> Option<Duration> {
        let wait = pace.wait(server, urgency, now);
        if wait.is_none() {
            pace.written(server, now);
        }
        wait
    }

    #[test]
    fn what_is_on_its_way_is_told_when_no_more_comes_and_what_a_person_waits_for_at_once() {
        let pace = Pace::default();
        let server = key("llama");
        let tell = |urgency, now| ask(&pace, &server, urgency, at(now));
        assert_eq!(tell(Urgency::Progress, 100), Some(at(200)));
        assert_eq!(tell(Urgency::Progress, 250), Some(at(200)));
        assert_eq!(tell(Urgency::Progress, 450), None);
        assert_eq!(tell(Urgency::AtOnce, 500), None);
        // More of its kind may come, however long ago the last news were.
        assert_eq!(tell(Urgency::Progress, 9000), Some(at(200)));
    }

    #[test]
    fn what_is_on_its_way_is_told_within_a_second_and_once_a_second() {
        let pace = Pace::default();
        let server = key("llama");
        let tell = |now| ask(&pace, &server, Urgency::Progress, at(now));
        for now in (0..=800).step_by(100) {
            assert_eq!(tell(now), Some(at(200)));
        }
        assert_eq!(tell(900), Some(at(100)));
        assert_eq!(tell(1000), None);
        assert_eq!(tell(1100), Some(at(900)));
        assert_eq!(tell(1900), Some(at(200)), "more came");
        assert_eq!(tell(2050), Some(at(50)), "but no longer than a second");
        assert_eq!(tell(2100), None);
    }

    #[test]
    fn an_obstacle_is_told_at_once_where_nothing_was_for_a_second() {
        let pace = Pace::default();
        let server = key("llama");
        let tell = |urgency, now| ask(&pace, &server, urgency, at(now));
        assert_eq!(tell(Urgency::Obstacle, 100), Some(at(1000)));
        assert_eq!(tell(Urgency::AtOnce, 1300), None);
        assert_eq!(tell(Urgency::Obstacle, 2200), Some(at(100)));
        assert_eq!(tell(Urgency::Obstacle, 2300), None);
        assert_eq!(tell(Urgency::Obstacle, 9000), None);
    }

    #[test]
    fn a_server_waits_for_no_other_and_begins_anew_when_it_is_gone() {
        let pace = Pace::default();
        assert_eq!(ask(&pace, &key("a"), Urgency::AtOnce, at(0)), None);
        assert_eq!(ask(&pace, &key("b"), Urgency::AtOnce, at(1)), None);
        pace.forget(&key("a"));
        let wait = ask(&pace, &key("a"), Urgency::Obstacle, at(2000));
        assert_eq!(wait, Some(at(1000)));
    }

    #[test]
    fn in_a_rush_progress_waits_for_more_of_it_and_nothing_else_does() {
        let pace = Pace::default();
        let servers: Vec<_> = (0..50).map(|number| key(&format!("s-{number}"))).collect();
        let tell = |urgency, now| {
            let waits = servers
                .iter()
                .map(|server| ask(&pace, server, urgency, at(now)));
            let waits: Vec<_> = waits.collect();
            let written = waits.iter().filter(|wait| wait.is_none()).count();
            (written, waits.into_iter().flatten().max())
        };
        assert_eq!(tell(Urgency::Progress, 0), (0, Some(at(200))));
        assert_eq!(tell(Urgency::Progress, 1000), (10, Some(at(29_000))));
        // It asks again when its time has come, not when there might be room.
        let put_off = ask(&pace, &servers[40], Urgency::Progress, at(25_000));
        assert_eq!(put_off, Some(at(5000)));
        assert_eq!(
            ask(&pace, &servers[40], Urgency::Obstacle, at(25_000)),
            None
        );
        assert_eq!(ask(&pace, &servers[41], Urgency::AtOnce, at(25_000)), None);
        // All but those twelve whose next news have begun to wait.
        assert_eq!(tell(Urgency::Progress, 30_000).0, 38);
    }

    #[test]
    fn what_has_passed_before_it_was_told_leaves_no_news_waiting() {
        let pace = Pace::default();
        let server = key("llama");
        assert_eq!(ask(&pace, &server, Urgency::Progress, at(0)), Some(at(200)));
        pace.rest(&server);
        let wait = ask(&pace, &server, Urgency::Progress, at(5000));
        assert_eq!(wait, Some(at(200)));
    }

    #[test]
    fn what_is_published_keeps_a_status_waiting_for_a_while_and_no_longer() {
        let pace = Pace::default();
        let server = key("llama");
        let hold = |now| pace.hold(&server, Some(at(700)), at(now));
        assert_eq!(hold(0), Some(at(700)));
        assert_eq!(hold(4600), Some(at(400)));
        assert_eq!(hold(5000), None);
        assert_eq!(hold(5100), None);
        pace.written(&server, at(5100));
        assert_eq!(hold(5200), Some(at(700)));
        assert_eq!(pace.hold(&server, None, at(6000)), None);
        assert_eq!(hold(11_000), Some(at(700)), "it began to wait anew");
    }

    #[test]
    fn what_waits_is_kept_for_the_server_that_it_speaks_of_until_it_is_told() {
        let pace = Pace::default();
        let server = key("llama");
        assert_eq!(pace.waiting(&server, "1"), None);
        let status = InferenceServerStatus {
            observed_generation: 7,
            ..InferenceServerStatus::default()
        };
        pace.put_off(&server, "1", status.clone());
        let waiting = |uid| pace.waiting(&server, uid).as_deref().cloned();
        assert_eq!((waiting("1"), waiting("2")), (Some(status), None));
        pace.written(&server, at(100));
        assert_eq!(waiting("1"), None);
    }

    #[test]
    fn what_could_not_be_written_is_tried_again_without_a_wait() {
        let pace = Pace::default();
        let server = key("llama");
        assert_eq!(ask(&pace, &server, Urgency::AtOnce, at(0)), None);
        assert_eq!(pace.wait(&server, Urgency::Obstacle, at(1000)), None);
        assert_eq!(pace.wait(&server, Urgency::Obstacle, at(1100)), None);
    }
}
