//! The root of a container: made by the container's own process before it becomes its program.
//!
//! The supervisor writes a [`Sandbox`] to a file and starts this program with that file, in the Pod's
//! network namespace. [`enter_pod`] then makes a mount namespace, builds a root in memory from the
//! machine's system folders, the program and the volumes, and turns into the program.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};

/// Where a container finds its program; first in its `PATH`.
pub(super) const PROGRAM: &str = "/program";

/// What the machine's programs need to run, taken as it is.
const SYSTEM: [&str; 9] = [
    "bin", "sbin", "usr", "lib", "lib32", "lib64", "libx32", "nix", "gnu",
];
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
const SETTINGS: [&str; 8] = [
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "nsswitch.conf",
    "passwd",
    "group",
    "ssl",
    "pki",
];

/// Where a program that is built to count the lines it runs keeps the counts: see CONTRIBUTING.
const PROFILE: &str = "LLVM_PROFILE_FILE";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Mount {
    pub(super) source: PathBuf,
    pub(super) target: PathBuf,
    pub(super) read_only: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sandbox {
    /// An empty folder that becomes the root.
    pub(super) root: PathBuf,
    pub(super) host_name: String,
    /// The text of `/etc/hosts`.
    pub(super) hosts: String,
    /// The program on the machine.
    pub(super) program: PathBuf,
    pub(super) mounts: Vec<Mount>,
    pub(super) read_only_root: bool,
    pub(super) working_dir: PathBuf,
    pub(super) command: Vec<String>,
    pub(super) env: Vec<(String, String)>,
}

const NONE: Option<&str> = None;

/// Becomes the program that the sandbox in `file` describes. Returns only when that failed.
pub fn enter_pod(file: &Path) -> Result<std::convert::Infallible> {
    let sandbox: Sandbox =
        serde_json::from_slice(&std::fs::read(file)?).context("read the sandbox")?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS)
        .context("make a mount namespace")?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)
        .context("make mounts private")?;
    nix::unistd::sethostname(&sandbox.host_name).context("set the host name")?;
    sandbox.build_root()?;
    nix::unistd::chroot(&sandbox.root).context("change the root")?;
    std::env::set_current_dir(&sandbox.working_dir).context("change to workingDir")?;
    let (program, args) = sandbox.command.split_first().context("an empty command")?;
    let error = Command::new(program)
        .args(args)
        .env_clear()
        .envs(sandbox.env.iter().cloned())
        .envs(profile().map(|file| (PROFILE, file)))
        .exec();
    Err(error).with_context(|| format!("start {program}"))
}

impl Sandbox {
    fn build_root(&self) -> Result<()> {
        let root = &self.root;
        mount(Some("tmpfs"), root, Some("tmpfs"), MsFlags::empty(), NONE)
            .context("mount the root")?;
        for name in SYSTEM {
            let (host, own) = (Path::new("/").join(name), root.join(name));
            match std::fs::symlink_metadata(&host) {
                Ok(meta) if meta.is_symlink() => {
                    std::os::unix::fs::symlink(std::fs::read_link(&host)?, own)?;
                }
                Ok(_) => bind(&host, &own, false)?,
                Err(_) => {}
            }
        }
        bind(Path::new("/proc"), &root.join("proc"), false)?;
        for name in DEVICES {
            bind(
                &Path::new("/dev").join(name),
                &root.join("dev").join(name),
                false,
            )?;
        }
        for name in SETTINGS {
            let host = Path::new("/etc").join(name);
            if host.exists() {
                bind(&host, &root.join("etc").join(name), false)?;
            }
        }
        std::fs::create_dir_all(root.join("etc"))?;
        std::fs::write(root.join("etc/hosts"), &self.hosts)?;
        for name in ["tmp", "run", "root", "var/tmp"] {
            std::fs::create_dir_all(root.join(name))?;
        }
        // Relative: an absolute link would lead out of the root while it is being built.
        std::os::unix::fs::symlink("../run", root.join("var/run"))?;
        bind(
            &self.program,
            &root.join(program_path(&self.program).trim_start_matches('/')),
            true,
        )?;
        for volume in &self.mounts {
            let target = root.join(volume.target.strip_prefix("/").unwrap_or(&volume.target));
            bind(&volume.source, &target, volume.read_only)
                .with_context(|| format!("mount {}", volume.target.display()))?;
        }
        if let Some(folder) = profile().as_ref().and_then(|file| Path::new(file).parent()) {
            bind(
                folder,
                &root.join(folder.strip_prefix("/").unwrap_or(folder)),
                false,
            )
            .with_context(|| format!("mount {}", folder.display()))?;
        }
        if self.read_only_root {
            make_read_only(root)?;
        }
        Ok(())
    }
}

/// The file of counts, when this run is to count: the bed inherits the path from the tests, and hands it on.
fn profile() -> Option<OsString> {
    std::env::var_os(PROFILE).filter(|file| Path::new(file).is_absolute())
}

/// Where the container sees the program.
pub(super) fn program_path(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    format!("{PROGRAM}/{name}")
}

fn bind(source: &Path, target: &Path, read_only: bool) -> Result<()> {
    if source.is_dir() {
        std::fs::create_dir_all(target).with_context(|| format!("make {}", target.display()))?;
    } else {
        std::fs::create_dir_all(target.parent().unwrap_or(target))?;
        std::fs::write(target, "").with_context(|| format!("make {}", target.display()))?;
    }
    mount(
        Some(source),
        target,
        NONE,
        MsFlags::MS_BIND | MsFlags::MS_REC,
        NONE,
    )
    .with_context(|| format!("bind {} to {}", source.display(), target.display()))?;
    if read_only {
        make_read_only(target)
    } else {
        Ok(())
    }
}

/// A user namespace may not drop the flags of a mount that came from outside, so they're kept.
fn make_read_only(target: &Path) -> Result<()> {
    let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    let now = nix::sys::statvfs::statvfs(target)?.flags();
    for (has, keep) in [
        (nix::sys::statvfs::FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (nix::sys::statvfs::FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (nix::sys::statvfs::FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (nix::sys::statvfs::FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (
            nix::sys::statvfs::FsFlags::ST_NODIRATIME,
            MsFlags::MS_NODIRATIME,
        ),
        (
            nix::sys::statvfs::FsFlags::ST_RELATIME,
            MsFlags::MS_RELATIME,
        ),
    ] {
        if now.contains(has) {
            flags |= keep;
        }
    }
    mount(NONE, target, NONE, flags, NONE)
        .with_context(|| format!("make {} read-only", target.display()))
}
