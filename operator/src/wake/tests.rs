use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[expect(
    clippy::disallowed_methods,
    reason = "the clock is paused: it shows what the loop waited for"
)]
/// Runs the loop until `done` ran often enough.
async fn run_until(wakes: &Wakes<u8>, enough: usize, next: Next) -> Duration {
    let count = Arc::new(AtomicUsize::new(0));
    let reached = Arc::new(Notify::new());
    let start = tokio::time::Instant::now();
    let work = |_| {
        let (count, reached) = (Arc::clone(&count), Arc::clone(&reached));
        async move {
            if count.fetch_add(1, Ordering::SeqCst) + 1 == enough {
                reached.notify_one();
            }
            next
        }
    };
    tokio::select! {
        () = wakes.run(2, Backoff::default(), work) => {}
        () = reached.notified() => {}
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_key_woken_often_runs_once() {
    let wakes = Wakes::default();
    for _ in 0..5 {
        wakes.wake(1);
    }
    wakes.wake(2);
    run_until(&wakes, 2, Next::Rest).await;
    assert_eq!(wakes.depth(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_waits_longer_each_time() {
    let wakes = Wakes::default();
    wakes.wake(1);
    let elapsed = run_until(&wakes, 4, Next::Retry).await;
    let longest = Duration::from_millis(500 + 1000 + 2000);
    assert!(elapsed >= longest / 2, "{elapsed:?}");
    assert!(
        elapsed <= longest + Duration::from_millis(10),
        "{elapsed:?}"
    );
}

/// Runs a key that fails once: `recover` is called after its failure, or within its run.
async fn retried_after(recover_within: bool) -> Duration {
    let wakes = Arc::new(Wakes::default());
    wakes.wake(1u8);
    let (runs, second) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let failed = Arc::new(Notify::new());
    let work = |_| {
        let (wakes, runs) = (Arc::clone(&wakes), Arc::clone(&runs));
        let (second, failed) = (Arc::clone(&second), Arc::clone(&failed));
        async move {
            if runs.fetch_add(1, Ordering::SeqCst) > 0 {
                second.notify_one();
                return Next::Rest;
            }
            if recover_within {
                wakes.retry_now();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            failed.notify_one();
            Next::Retry
        }
    };
    let hour = Backoff {
        first: Duration::from_hours(1),
        last: Duration::from_hours(1),
    };
    let recover = async {
        failed.notified().await;
        // The clock is paused: it moves on once the loop has nothing left to do but to wait.
        tokio::time::sleep(Duration::from_secs(1)).await;
        if !recover_within {
            wakes.retry_now();
        }
        second.notified().await;
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "the clock is paused: it shows what the loop waited for"
    )]
    let start = tokio::time::Instant::now();
    tokio::select! {
        () = wakes.run(2, hour, work) => {}
        () = recover => {}
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_is_tried_at_once_when_its_cause_has_passed() {
    assert!(retried_after(false).await < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_while_its_cause_passes_does_not_wait_for_its_back_off() {
    assert!(retried_after(true).await < Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_key_woken_during_its_run_runs_again_and_never_twice_at_once() {
    let wakes = Arc::new(Wakes::default());
    wakes.wake(1u8);
    let (running, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let second = Arc::new(Notify::new());
    let work = |key| {
        let (wakes, running, runs) = (Arc::clone(&wakes), Arc::clone(&running), Arc::clone(&runs));
        let second = Arc::clone(&second);
        async move {
            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
            if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                wakes.wake(key);
                tokio::task::yield_now().await;
            } else {
                second.notify_one();
            }
            running.fetch_sub(1, Ordering::SeqCst);
            Next::Rest
        }
    };
    tokio::select! {
        () = wakes.run(8, Backoff::default(), work) => {}
        () = second.notified() => {}
    }
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_due_runs_then() {
    let wakes = Wakes::default();
    wakes.wake(1);
    let elapsed = run_until(&wakes, 3, Next::After(Duration::from_secs(7))).await;
    let seconds = elapsed.as_secs_f64();
    assert!((14.0..14.1).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waits_for_an_event_is_looked_at_ever_more_rarely_without_one() {
    let wakes = Wakes::default();
    wakes.wake(1);
    let elapsed = run_until(&wakes, 4, Next::Recheck { within: None }).await;
    let longest = Duration::from_secs(10 + 20 + 40);
    assert!(elapsed >= longest / 2, "{elapsed:?}");
    assert!(
        elapsed <= longest + Duration::from_millis(10),
        "{elapsed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waits_for_an_event_and_is_due_runs_then() {
    let wakes = Wakes::default();
    wakes.wake(1);
    let within = Some(Duration::from_secs(2));
    let elapsed = run_until(&wakes, 4, Next::Recheck { within }).await;
    let seconds = elapsed.as_secs_f64();
    assert!((6.0..6.1).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_that_is_due_does_not_wait_for_its_back_off() {
    let wakes = Wakes::default();
    wakes.wake(1);
    let elapsed = run_until(&wakes, 9, Next::RetryWithin(Duration::from_secs(1))).await;
    assert!(elapsed < Duration::from_secs(8), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn the_key_that_waits_longest_runs_first_and_one_that_comes_back_goes_behind() {
    let wakes = Arc::new(Wakes::default());
    for key in [3u8, 1, 2, 1] {
        wakes.wake(key);
    }
    let ran = Arc::new(Mutex::new(Vec::new()));
    let done = Arc::new(Notify::new());
    let work = |key| {
        let mut ran = ran.lock().unwrap();
        ran.push(key);
        // Two keys that would never leave the others a turn.
        if key < 3 {
            wakes.wake(key);
        }
        if ran.len() == 7 {
            done.notify_one();
        }
        std::future::ready(Next::Rest)
    };
    tokio::select! {
        () = wakes.run(1, Backoff::default(), work) => {}
        () = done.notified() => {}
    }
    assert_eq!(ran.lock().unwrap()[..7], [3, 1, 2, 1, 2, 1, 2]);
}

/// Runs one key that waits for events: it is woken again within its first `events` runs. When each run began.
async fn looks(events: usize, within: &'static [u64], enough: usize) -> Vec<Duration> {
    let wakes = Arc::new(Wakes::default());
    wakes.wake(1u8);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let reached = Arc::new(Notify::new());
    #[expect(
        clippy::disallowed_methods,
        reason = "the clock is paused: it shows what the loop waited for"
    )]
    let start = tokio::time::Instant::now();
    let work = |key| {
        let (wakes, runs) = (Arc::clone(&wakes), Arc::clone(&runs));
        let reached = Arc::clone(&reached);
        async move {
            let mut runs = runs.lock().unwrap();
            let number = runs.len();
            runs.push(start.elapsed());
            if number < events {
                wakes.wake(key);
            }
            if number + 1 == enough {
                reached.notify_one();
            }
            let within = within.get(number).copied().map(Duration::from_secs);
            Next::Recheck { within }
        }
    };
    tokio::select! {
        () = wakes.run(2, Backoff::default(), work) => {}
        () = reached.notified() => {}
    }
    let runs = runs.lock().unwrap();
    runs.clone()
}

#[tokio::test(start_paused = true)]
async fn the_first_look_without_an_event_comes_in_time_however_many_events_there_were() {
    let runs = looks(20, &[], 23).await;
    let pause = runs[21].saturating_sub(runs[20]);
    assert!(pause <= Duration::from_secs(11), "{pause:?}");
    let next = runs[22].saturating_sub(runs[21]);
    assert!(next > Duration::from_secs(9), "ever more rarely: {next:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_due_by_time_makes_no_look_later() {
    let runs = looks(0, &[1; 10], 12).await;
    let pause = runs[11].saturating_sub(runs[10]);
    assert!(pause <= Duration::from_secs(11), "{pause:?}");
}
