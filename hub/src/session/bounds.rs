//! What an agent says, as facts of bounded size. An agent may be newer, broken or hostile: nothing that it says may grow the
//! hub's memory, or make a status that the API server refuses.

use crds::{condition::State, names, reason};
use hub_plan::facts::{EndpointFacts, Refusal, Resolution, Step, StepFacts};
use proto::v1;

/// The longest reason: what conditions and our CRDs take.
const REASON_MAX: usize = 128;
/// The longest message, in bytes.
const MESSAGE_MAX: usize = 512;
/// The longest version, as our CRDs take it.
const VERSION_MAX: usize = 64;
/// Addresses of one endpoint; a Gateway has at most 16, a large cluster's nodes are more.
const ADDRESSES_MAX: usize = 1_000;
/// DNS names of one endpoint: as many as source Static takes.
const HOSTNAMES_MAX: usize = 100;
/// The longest address: an IPv6 one has 39 characters, a hostname 253.
const ADDRESS_MAX: usize = 253;

/// A reason that a condition can carry (API conventions: CamelCase), or one that says that it was none.
fn reason(text: &str) -> String {
    let inner = |c: char| c.is_ascii_alphanumeric();
    let camel = text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(inner);
    if camel && text.len() <= REASON_MAX {
        text
    } else {
        reason::INVALID_REPORT
    }
    .to_owned()
}

/// A sentence. What can't be read is left out: in JSON, each control character would take six bytes of a status.
fn message(text: &str) -> String {
    let mut text = readable(text);
    text.truncate(text.floor_char_boundary(MESSAGE_MAX));
    text
}

fn readable(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// A version, cut to what a status takes.
pub(super) fn version(text: &str) -> String {
    readable(text).chars().take(VERSION_MAX).collect()
}

/// Why a value was not applied; the field at fault goes into the sentence.
pub(super) fn refusal(refused: &v1::Refused) -> Refusal {
    let text = if refused.field.is_empty() {
        refused.message.clone()
    } else {
        format!("{}: {}", refused.field, refused.message)
    };
    Refusal {
        reason: reason(&refused.reason),
        message: message(&text),
    }
}

/// What became of a step; `None`: a step of a newer agent, for which this hub has no condition.
pub(super) fn step(report: &v1::StepReport) -> Option<(Step, StepFacts)> {
    let step = match report.step() {
        v1::Step::Backend => Step::Backend,
        v1::Step::TrafficRoute => Step::TrafficRoute,
        v1::Step::ModelConfig => Step::ModelConfig,
        v1::Step::Health => Step::Health,
        v1::Step::Unspecified => return None,
    };
    let state = match report.verdict() {
        v1::Verdict::True => State::True,
        v1::Verdict::False => State::False,
        v1::Verdict::Unknown | v1::Verdict::Unspecified => State::Unknown,
    };
    Some((
        step,
        StepFacts {
            state,
            reason: reason(&report.reason),
            message: message(&report.message),
        },
    ))
}

/// Where a cluster admits traffic. A hostname that is none counts as an address, so that the plan refuses it by name.
pub(super) fn endpoint(report: &v1::EndpointReport) -> EndpointFacts {
    let is_short = |text: &&String| text.len() <= ADDRESS_MAX;
    let names = report.hostnames.iter().filter(is_short);
    let (hostnames, others): (Vec<_>, Vec<_>) = names
        .take(HOSTNAMES_MAX)
        .partition(|name| names::is_dns_name(name));
    let fit = report.addresses.iter().filter(is_short).chain(others);
    // What is no address is shown as it was written.
    let fit = fit.take(ADDRESSES_MAX).map(|text| readable(text));
    let addresses: Vec<_> = fit.collect();
    // A port beyond 16 bits is none, and an address without a port is no endpoint.
    let port = u16::try_from(report.port).unwrap_or_default();
    if port == 0 && !(addresses.is_empty() && hostnames.is_empty()) {
        return EndpointFacts {
            reason: reason::INVALID_REPORT.to_owned(),
            message: format!("the agent reports port {}, which is none", report.port),
            ..EndpointFacts::default()
        };
    }
    let unresolved = |name: &String| (name.clone(), Resolution::default());
    EndpointFacts {
        addresses,
        hostnames: hostnames.into_iter().map(unresolved).collect(),
        port,
        reason: reason(&report.reason),
        message: message(&report.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_camel_case_and_bounded() {
        assert_eq!(reason("CrashLoopBackOff"), "CrashLoopBackOff");
        for bad in ["", "crash", "Crash Loop", "Crash\nLoop", &"X".repeat(129)] {
            assert_eq!(reason(bad), "InvalidReport", "{bad}");
        }
    }

    #[test]
    fn messages_versions_and_addresses_are_cut() {
        let report = v1::EndpointReport {
            addresses: vec!["203.0.113.1".to_owned(); 5_000],
            port: 80,
            message: "m".repeat(100_000),
            ..v1::EndpointReport::default()
        };
        let facts = endpoint(&report);
        assert_eq!(
            (facts.addresses.len(), facts.message.len()),
            (ADDRESSES_MAX, MESSAGE_MAX)
        );
        assert_eq!(version(&"v".repeat(100)).len(), VERSION_MAX);
    }

    #[test]
    fn a_message_takes_no_more_room_in_a_status_whatever_it_is_made_of() {
        for letter in ["m", "\u{7}", "\n", "€", "𝄞", "\"", "\\"] {
            let message = message(&letter.repeat(10_000));
            let size = serde_json::to_vec(&message).unwrap().len();
            assert!(size <= 2 * MESSAGE_MAX + 2, "{letter:?}: {size} bytes");
            assert!(message.len() > MESSAGE_MAX - 4, "{letter:?}");
        }
    }

    #[test]
    fn what_a_terminal_would_obey_reaches_no_status() {
        let report = v1::EndpointReport {
            addresses: vec!["\u{1b}[2J".to_owned()],
            hostnames: vec!["h\u{7}.example".to_owned()],
            port: 80,
            message: "m\u{1b}".to_owned(),
            ..v1::EndpointReport::default()
        };
        let facts = endpoint(&report);
        assert_eq!(facts.addresses, [" [2J", "h .example"]);
        assert_eq!(facts.message, "m ");
        assert_eq!(version("v1\u{1b}"), "v1 ");
    }

    #[test]
    fn hostnames_are_dns_names_of_a_bounded_number() {
        let mut hostnames: Vec<_> = (0..500)
            .map(|number| format!("h{number}.example"))
            .collect();
        hostnames.insert(0, "x".repeat(100_000));
        hostnames.insert(0, "not_a.name".to_owned());
        let report = v1::EndpointReport {
            hostnames,
            port: 80,
            ..v1::EndpointReport::default()
        };
        let facts = endpoint(&report);
        assert_eq!(facts.hostnames.len(), HOSTNAMES_MAX - 1);
        assert_eq!(facts.addresses, ["not_a.name"]);
    }

    #[test]
    fn a_port_that_is_none_is_no_endpoint() {
        for port in [0, 65_536] {
            let report = v1::EndpointReport {
                addresses: vec!["203.0.113.1".to_owned()],
                port,
                ..Default::default()
            };
            assert_eq!(endpoint(&report).reason, "InvalidReport");
            let report = v1::EndpointReport {
                hostnames: vec!["lb.example".to_owned()],
                port,
                ..Default::default()
            };
            assert_eq!(endpoint(&report).reason, "InvalidReport");
        }
    }

    #[test]
    fn a_step_of_a_newer_agent_is_passed_over() {
        assert!(
            step(&v1::StepReport {
                step: 77,
                ..v1::StepReport::default()
            })
            .is_none()
        );
    }
}
