//! What hub and agents ask of the clusters of a fleet, from one moment to another.

use std::time::Duration;

use anyhow::Result;

use crate::Installed;
use crate::audit::{self, Mark, Request};

/// Without a request for this long, nothing is under way.
const QUIET: Duration = Duration::from_secs(3);

/// Now, in each cluster's log: the hub's first.
pub(super) fn marks(installed: &Installed) -> Result<Vec<Mark>> {
    let clusters = installed.fleet().clusters();
    clusters.iter().map(audit::mark).collect()
}

/// What hub and agents have asked of each cluster since, but for lease renewals and open watches.
pub(super) fn asked(installed: &Installed, marks: &[Mark]) -> Result<Vec<Vec<Request>>> {
    let clusters = installed.fleet().clusters().iter().zip(marks);
    let asked = clusters.map(|(cluster, mark)| {
        let mut requests = audit::since(cluster, *mark)?;
        requests.retain(|request| request.is_ours() && !request.is_rest());
        Ok(requests)
    });
    asked.collect()
}

/// Returns once hub and agents have asked nothing for a while.
pub(super) async fn quiet(installed: &Installed) -> Result<()> {
    loop {
        let before = marks(installed)?;
        // Time is the subject: that nothing comes can't be waited for in another way.
        tokio::time::sleep(QUIET).await;
        if asked(installed, &before)?.iter().all(Vec::is_empty) {
            return Ok(());
        }
    }
}
