//! Nothing of a fleet outlives its holder, and fleets don't meet.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::Fleet;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use super::{SOON, fleet, namespace, this_program};

/// The processes of this machine that have the folder in their command line.
fn processes_of(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(folder.to_str().unwrap())).collect()
}

async fn everything_ends(folder: &Path) {
    let ended = || async {
        let left = processes_of(folder);
        anyhow::ensure!(left.is_empty(), "{left:?}");
        anyhow::ensure!(!folder.exists(), "{} is left", folder.display());
        Ok(())
    };
    e2e::wait::eventually("the end of everything", SOON, ended).await.unwrap();
}

#[tokio::test]
async fn a_killed_holder_leaves_nothing_behind() {
    let mut holder = Command::new(this_program())
        .args(["up", "--members", "0", "--no-gateways"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines().map_while(Result::ok);
    let read = tokio::task::spawn_blocking(move || {
        let lines: Vec<String> = lines.take_while(|line| !line.contains("everything is up")).collect();
        lines.iter().find_map(|line| line.strip_prefix("logs: ").map(PathBuf::from))
    });
    let folder = read.await.unwrap().expect("it says where its logs are");
    assert!(processes_of(&folder).iter().any(|line| line.contains("kube-apiserver")));
    holder.kill().unwrap();
    holder.wait().unwrap();
    everything_ends(&folder).await;
}

#[tokio::test]
async fn two_fleets_live_side_by_side_and_a_dropped_one_ends() {
    let first = fleet().await;
    let second =
        Fleet::builder().members(0).gateways(false).supervisor(this_program()).start().await.expect("a second fleet");
    let (here, there) = (first.hub().client().await.unwrap(), second.hub().client().await.unwrap());
    namespace(&here, "here").await;
    namespace(&there, "there").await;
    assert!(Api::<Namespace>::all(there.clone()).get_opt("here").await.unwrap().is_none());
    assert!(Api::<Namespace>::all(there).get_opt("there").await.unwrap().is_some());
    let folder = second.folder().to_owned();
    drop(second);
    everything_ends(&folder).await;
    assert!(Api::<Namespace>::all(here).get_opt("here").await.unwrap().is_some());
}
