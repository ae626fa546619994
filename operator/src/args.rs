//! The flags that hub and agent share.

use std::{net::SocketAddr, time::Duration};

use crate::{telemetry::Format, wake::Backoff};

/// How a component is looked at, and how it tries again.
#[derive(Clone, Debug, clap::Args)]
pub struct Common {
    /// Where /healthz, /readyz and /metrics are.
    #[arg(long, default_value = "0.0.0.0:8080")]
    pub admin_listen: SocketAddr,

    /// How a log line looks: json or text.
    #[arg(long, default_value = "json")]
    pub log_format: Format,

    /// Milliseconds after a pass or a write that failed until the next try. They double with each failure in a row. A failure
    /// whose cause is known to have passed does not wait for them, and what reconnects has pauses of its own.
    #[arg(long, default_value_t = millis(Backoff::default().first))]
    retry_first_ms: u64,

    /// Milliseconds between two tries at most.
    #[arg(long, default_value_t = millis(Backoff::default().last))]
    retry_last_ms: u64,
}

impl Common {
    /// How long a key waits that has failed.
    pub fn backoff(&self) -> Backoff {
        let first = Duration::from_millis(self.retry_first_ms);
        Backoff {
            first,
            last: Duration::from_millis(self.retry_last_ms).max(first),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        common: Common,
    }

    fn backoff(flags: &[&str]) -> Backoff {
        let flags = ["program"].iter().chain(flags);
        Program::try_parse_from(flags).unwrap().common.backoff()
    }

    #[test]
    fn the_pauses_are_the_defaults_unless_flags_say_otherwise() {
        assert_eq!(backoff(&[]), Backoff::default());
        let hour = backoff(&["--retry-first-ms=3600000"]);
        assert_eq!(hour.first, Duration::from_hours(1));
        assert_eq!(
            hour.last, hour.first,
            "the last pause is never shorter than the first"
        );
    }
}
