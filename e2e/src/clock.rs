//! The only place of this crate that reads a clock.

use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

/// A moment on the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "the one reader of the monotonic clock")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// Wall-clock time, as API objects carry it.
#[expect(clippy::disallowed_methods, reason = "the one reader of the wall clock")]
fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Now, to the second.
pub fn time() -> Time {
    Time(timestamp())
}

/// Now, to the microsecond.
pub fn micro_time() -> MicroTime {
    MicroTime(timestamp())
}

/// Waits between two looks at a foreign program that offers nothing to wait on, such as the
/// readiness URL of an API server that is starting.
pub async fn pause_between_looks() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
