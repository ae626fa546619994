//! The way into the namespaces, without root.
//!
//! A process that is alone on its one thread makes a user namespace in which it is root, and network,
//! mount and process namespaces that belong to it. Then it starts this program again as the first
//! process of the process namespace: when that one ends, the kernel ends everything inside.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// What to do where the kernel says no.
const NO_NAMESPACES: &str = "this system lets you make no user namespaces, which the test bed lives in: \
     run it as root, or allow them (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces=15000, \
     kernel.apparmor_restrict_unprivileged_userns=0; in a container: a seccomp profile that permits unshare)";

/// Enters, runs process 1 of the bed in `folder` until it ends, and removes the folder. Standard input,
/// by which process 1 notices the end of the fleet's holder, is passed on.
pub fn enter(folder: &Path) -> Result<ExitCode> {
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let wanted =
        CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    if let Err(error) = unshare(wanted) {
        bail!("{NO_NAMESPACES} ({error})");
    }
    // An ordinary user may map groups only after giving up setgroups.
    std::fs::write("/proc/self/setgroups", "deny").context("give up setgroups")?;
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1")).context(NO_NAMESPACES)?;
    std::fs::write("/proc/self/gid_map", format!("0 {group} 1")).context(NO_NAMESPACES)?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).context("make mounts private")?;
    let program = std::env::current_exe().context("find this program")?;
    let status = Command::new(program).args(["bed", "init"]).arg(folder).status().context("start process 1 of the bed")?;
    crate::folder::remove(folder)?;
    let code = status.code().or(status.signal()).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}
