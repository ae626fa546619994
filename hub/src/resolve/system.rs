//! Lookups by the name servers that the system names. Every name is taken as it stands: no search domain is added.

use std::{collections::BTreeSet, fmt, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use hickory_resolver::{
    TokioResolver, lookup::Lookup as Records, net::NetError, proto::rr::RecordType,
};
use hub_plan::facts::Family;

use super::{Answer, Lookup};

/// A family that takes longer has failed: sooner than the whole lookup, which would take the other with it.
const FAMILY_TIMEOUT: Duration = Duration::from_secs(10);

/// The system's name servers, as `/etc/resolv.conf` named them at the start.
#[derive(Clone)]
pub struct System(Result<TokioResolver, String>);

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("System")
            .field(&self.0.as_ref().map(|_resolver| ()))
            .finish()
    }
}

impl System {
    /// A system without a usable configuration is no reason not to start: only names need it, and each says so.
    pub fn load() -> Self {
        let resolver = TokioResolver::builder_tokio().and_then(|mut builder| {
            // Answers are kept by who asks.
            builder.options_mut().cache_size = 0;
            builder.build()
        });
        if let Err(error) = &resolver {
            tracing::warn!(%error, "no hostname can be resolved");
        }
        Self(resolver.map_err(|error| format!("the hub has no name server: {error}")))
    }
}

impl Lookup for System {
    fn lookup(&self, name: String) -> BoxFuture<'static, Result<Answer, String>> {
        let resolver = self.0.clone();
        async move {
            let (resolver, name) = (resolver?, format!("{name}."));
            let records = async |of| {
                let lookup = resolver.lookup(name.as_str(), of);
                match tokio::time::timeout(FAMILY_TIMEOUT, lookup).await {
                    Ok(records) => family(records),
                    Err(_elapsed) => Err("no name server answers".to_owned()),
                }
            };
            let (ipv4, ipv6) = tokio::join!(records(RecordType::A), records(RecordType::AAAA));
            joined(ipv4, ipv6)
        }
        .boxed()
    }
}

/// What both families came to. There are name servers that fail for a family that a name has not: what is known of the other
/// stands. If that is nothing, so is the whole.
pub(super) fn joined(
    ipv4: Result<Answer, String>,
    ipv6: Result<Answer, String>,
) -> Result<Answer, String> {
    let (answer, family, failure) = match (ipv4, ipv6) {
        (Ok(mut answer), Ok(ipv6)) => {
            answer.addresses.extend(ipv6.addresses);
            answer.ttl = answer.ttl.min(ipv6.ttl);
            return Ok(answer);
        }
        (Ok(answer), Err(failure)) => (answer, Family::Ipv6, failure),
        (Err(failure), Ok(answer)) => (answer, Family::Ipv4, failure),
        (Err(failure), Err(_)) => return Err(failure),
    };
    if answer.addresses.is_empty() {
        return Err(failure);
    }
    Ok(Answer {
        failure: Some((family, failure)),
        ..answer
    })
}

/// The addresses of one family: a name may have none of it.
fn family(records: Result<Records, NetError>) -> Result<Answer, String> {
    let records = match records {
        Ok(records) => records,
        Err(error) if error.is_nx_domain() => return Err("there is no such name".to_owned()),
        Err(error) if error.is_no_records_found() => {
            return Ok(Answer {
                addresses: BTreeSet::new(),
                ttl: Duration::MAX,
                failure: None,
            });
        }
        Err(error) => return Err(error.to_string()),
    };
    let answers = records.answers();
    let seconds = answers.iter().map(|record| record.ttl).min();
    Ok(Answer {
        addresses: answers
            .iter()
            .filter_map(|record| record.data.ip_addr())
            .collect(),
        ttl: seconds.map_or(Duration::MAX, |seconds| Duration::from_secs(seconds.into())),
        failure: None,
    })
}
