//! Probes: does a request that the hub sends to a cluster's endpoint reach the server's model servers?
//!
//! A probe asks for `/cluster/<namespace>/<server>/-/ready`, which the member's route sends to the runtime's readiness
//! path. Only a 2xx with the header of this very placement counts: a gateway puts the header on its own error pages as well.
//!
//! Which endpoints are asked is planned here, and what an answer means: asking is the shell's.

use std::net::IpAddr;

use crds::v1alpha1::{EndpointPolicy, ProbePolicy};
use k8s_openapi::jiff::Timestamp;

use crate::drain::after;

/// Addresses of one endpoint that are asked: the first that answers speaks for all.
const ADDRESSES_MAX: usize = 4;

/// An endpoint that is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Where.
    pub addresses: Vec<IpAddr>,
    /// At which port.
    pub port: u16,
    /// An answer that is older, in seconds, is asked for again; `None`: one good answer is enough.
    pub max_age_seconds: Option<u32>,
    /// What did not answer is asked again after so many seconds at the latest; `None`: by the back-off alone.
    pub retry_seconds: Option<u32>,
}

/// Those of an endpoint's addresses that are asked.
pub(crate) fn asked(addresses: &[IpAddr]) -> Vec<IpAddr> {
    addresses.iter().take(ADDRESSES_MAX).copied().collect()
}

/// What the last probe of an endpoint brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFacts {
    /// The addresses that were asked.
    pub addresses: Vec<IpAddr>,
    /// Their port.
    pub port: u16,
    /// When the good answer came; when the endpoint was asked that gave none.
    pub at: Timestamp,
    /// Why there was no good one, in a few words.
    pub failure: Option<String>,
}

/// What is known of whether an endpoint can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach<'a> {
    /// Nobody has asked, or the answer is too old, or of other addresses.
    Unknown,
    /// It answered then.
    Reached(Timestamp),
    /// It did not answer well then, and why.
    Unreached(Timestamp, &'a str),
}

/// What the last probe says of an endpoint.
pub(crate) fn reach<'a>(
    probe: Option<&'a ProbeFacts>,
    addresses: &[IpAddr],
    port: u16,
) -> Reach<'a> {
    match probe {
        Some(probe) if probe.addresses == asked(addresses) && probe.port == port => {
            match &probe.failure {
                None => Reach::Reached(probe.at),
                Some(failure) => Reach::Unreached(probe.at, failure),
            }
        }
        Some(_) | None => Reach::Unknown,
    }
}

/// Until when a good answer beats silence.
pub(crate) fn holds_until(policy: &EndpointPolicy, at: Timestamp) -> Timestamp {
    after(at, policy.grace_seconds.saturating_mul(2))
}

/// Was the answer given after that moment?
pub(crate) fn is_after(probe: Option<&ProbeFacts>, moment: Timestamp) -> bool {
    probe.is_some_and(|probe| probe.at >= moment)
}

/// Does the server have its endpoints asked?
pub(crate) fn is_on(policy: &EndpointPolicy) -> bool {
    policy.probe != ProbePolicy::Off
}
