//! Percentiles of durations, by nearest rank: each is a value that was measured.

use std::time::Duration;

/// What was measured, in order of size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Samples(Vec<Duration>);

impl FromIterator<Duration> for Samples {
    fn from_iter<I: IntoIterator<Item = Duration>>(samples: I) -> Self {
        let mut samples: Vec<_> = samples.into_iter().collect();
        samples.sort_unstable();
        Self(samples)
    }
}

impl Samples {
    /// The smallest value that at least so many percent of all values do not exceed; zero of nothing.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (percent * self.0.len()).div_ceil(100);
        let place = rank.saturating_sub(1);
        self.0.get(place).copied().unwrap_or_default()
    }

    /// The 50th percentile.
    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }
}

/// A duration in milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// `a / b`; nothing is a ratio of nothing.
pub(crate) fn ratio(a: Duration, b: Duration) -> f64 {
    if b.is_zero() {
        return f64::INFINITY;
    }
    a.as_secs_f64() / b.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(of: impl IntoIterator<Item = u64>) -> Samples {
        of.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn a_percentile_is_the_value_of_the_nearest_rank() {
        let hundred = samples((1..=100).rev());
        assert_eq!(hundred.percentile(99), Duration::from_millis(99));
        assert_eq!(hundred.percentile(50), Duration::from_millis(50));
        assert_eq!(hundred.percentile(100), Duration::from_millis(100));
        // The textbook's five: ranks 2, 2, 3 and 5 of 5.
        let five = samples([15, 20, 35, 40, 50]);
        assert_eq!(five.percentile(30), Duration::from_millis(20));
        assert_eq!(five.percentile(40), Duration::from_millis(20));
        assert_eq!(five.median(), Duration::from_millis(35));
        assert_eq!(five.percentile(99), Duration::from_millis(50));
    }

    #[test]
    fn one_value_is_every_percentile_of_itself_and_nothing_has_none() {
        assert_eq!(samples([7]).percentile(1), Duration::from_millis(7));
        assert_eq!(samples([7]).percentile(99), Duration::from_millis(7));
        assert_eq!(samples([]).percentile(99), Duration::ZERO);
    }

    #[test]
    fn a_ratio_to_nothing_meets_no_target() {
        let (two, one) = (Duration::from_secs(2), Duration::from_secs(1));
        assert!((ratio(two, one) - 2.0).abs() < f64::EPSILON);
        assert!(ratio(one, Duration::ZERO) > 1e9);
    }
}
