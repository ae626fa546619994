//! `leave`: a MemberCluster is deleted, and its way out is followed.

use anyhow::{Context, bail};
use crds::{
    ClusterName, labels,
    v1alpha1::{DeletionPolicy, MemberCluster},
};
use futures::StreamExt;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    runtime::watcher::{self, Event},
};
use serde_json::json;

/// Take a cluster out of the fleet: its endpoints drain, its model servers are removed or left running, and its
/// certificate opens nothing any more.
#[derive(Debug, clap::Args)]
pub(crate) struct Leave {
    /// The cluster's name in the fleet.
    cluster: ClusterName,

    /// What becomes of its model servers: Delete or Orphan. As its MemberCluster says when absent.
    #[arg(long, value_parser = policy)]
    policy: Option<DeletionPolicy>,

    /// Do not wait until it has left.
    #[arg(long)]
    no_wait: bool,
}

fn policy(text: &str) -> Result<DeletionPolicy, String> {
    match text {
        "Delete" => Ok(DeletionPolicy::Delete),
        "Orphan" => Ok(DeletionPolicy::Orphan),
        _ => Err("write Delete or Orphan".to_owned()),
    }
}

impl Leave {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = crate::hub().await?;
        let members: Api<MemberCluster> = Api::all(client);
        let name = self.cluster.as_str();
        let Some(record) = members
            .get_opt(name)
            .await
            .with_context(|| format!("read MemberCluster {name}"))?
        else {
            bail!("there is no MemberCluster {name}: `kubectl get memberclusters` lists them");
        };
        if let Some(policy) = self.policy {
            let patch = json!({
                "metadata": {"uid": record.uid()},
                "spec": {"deletionPolicy": policy},
            });
            members
                .patch(name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .with_context(|| format!("set spec.deletionPolicy of MemberCluster {name}"))?;
        }
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: record.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        members
            .delete(name, &parameters)
            .await
            .with_context(|| format!("delete MemberCluster {name}"))?;
        if self.no_wait {
            say(&format!("{name} leaves"));
            return Ok(());
        }
        follow(members, name, &record.uid().unwrap_or_default()).await
    }
}

/// Says how far the cluster is, until its record is gone.
async fn follow(members: Api<MemberCluster>, name: &str, uid: &str) -> anyhow::Result<()> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = std::pin::pin!(watcher::watcher(members, config));
    let mut said = String::new();
    let (mut listed, mut there) = (false, false);
    while let Some(event) = events.next().await {
        // The API server may come and go: the watch goes on by itself.
        let Ok(event) = event else { continue };
        match event {
            Event::Init => there = false,
            Event::InitApply(record) | Event::Apply(record)
                if record.uid().as_deref() == Some(uid) =>
            {
                there = true;
                let line = progress(&record);
                if line != said {
                    say(&line);
                    said = line;
                }
            }
            Event::InitApply(_) | Event::Apply(_) => {}
            Event::Delete(record) => there &= record.uid().as_deref() != Some(uid),
            Event::InitDone => listed = true,
        }
        if listed && !there {
            say(&format!("{name} has left"));
            return Ok(());
        }
    }
    bail!("the watch of MemberCluster {name} ended")
}

/// How far a cluster is on its way out, in a line.
fn progress(record: &MemberCluster) -> String {
    let name = record.name_any();
    let left = record
        .status
        .as_ref()
        .and_then(|status| status.placements_left);
    let others: Vec<_> = record
        .finalizers()
        .iter()
        .filter(|finalizer| *finalizer != labels::LEAVE)
        .cloned()
        .collect();
    match left {
        _ if others.len() == record.finalizers().len() && !others.is_empty() => {
            format!("{name} waits for others: finalizers {}", others.join(", "))
        }
        Some(1) => format!("{name}: 1 placement is left"),
        Some(left) => format!("{name}: {left} placements are left"),
        None => format!("{name} leaves"),
    }
}

#[expect(clippy::print_stdout, reason = "progress is this command's result")]
fn say(line: &str) {
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use crds::v1alpha1::{MemberClusterSpec, MemberClusterStatus};

    use super::*;

    #[test]
    fn progress_counts_what_is_left_and_names_who_else_is_waited_for() {
        let mut record = MemberCluster::new("east", MemberClusterSpec::default());
        record.metadata.finalizers = Some(vec![labels::LEAVE.to_owned()]);
        assert_eq!(progress(&record), "east leaves");
        let mut left = |left| {
            record.status = Some(MemberClusterStatus {
                placements_left: Some(left),
                ..MemberClusterStatus::default()
            });
            progress(&record)
        };
        assert_eq!(left(2), "east: 2 placements are left");
        assert_eq!(left(1), "east: 1 placement is left");
        record.metadata.finalizers = Some(vec!["example.com/theirs".to_owned()]);
        assert_eq!(
            progress(&record),
            "east waits for others: finalizers example.com/theirs"
        );
    }

    #[test]
    fn a_policy_is_one_of_two_words() {
        assert_eq!(policy("Orphan"), Ok(DeletionPolicy::Orphan));
        assert!(policy("orphan").is_err());
    }
}
