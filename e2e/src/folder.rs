//! The folder of a fleet: logs, certificates, sockets. Removed at the end unless something failed.
//!
//! The last process of the bed removes it. A panic anywhere in a process that holds fleets, which is how
//! a test fails, has their folders kept and says where they are.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

use anyhow::{Context, Result};

/// A file of this name has the folder kept.
const KEEP: &str = "keep";

static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Makes a private folder and watches for panics from now on.
pub(crate) fn create() -> Result<PathBuf> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            usual(info);
            keep_all();
        }));
    });
    let folder = tempfile::Builder::new().prefix("inferfleet-").tempdir().context("make the fleet's folder")?.keep();
    live().push(folder.clone());
    Ok(folder)
}

fn live() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::print_stderr, reason = "this is where a failed test says where to look")]
fn keep_all() {
    for folder in live().iter().filter(|folder| !is_kept(folder)) {
        match keep(folder) {
            Ok(()) => eprintln!("the fleet's logs are kept in {}", folder.display()),
            Err(error) => eprintln!("the fleet's logs can't be kept: {error:#}"),
        }
    }
}

/// Has the folder kept.
pub(crate) fn keep(folder: &Path) -> Result<()> {
    Ok(std::fs::write(folder.join(KEEP), "")?)
}

fn is_kept(folder: &Path) -> bool {
    folder.join(KEEP).exists()
}

/// The holder has let go of it.
pub(crate) fn forget(folder: &Path) {
    live().retain(|live| live != folder);
}

/// Removes the folder, if nobody wants it.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    if is_kept(folder) {
        return Ok(());
    }
    let pods = folder.join(crate::bed::init::PODS);
    if let Err(error) = nix::mount::umount2(&pods, nix::mount::MntFlags::MNT_DETACH) {
        // The bed ended before it mounted its memory there.
        tracing::debug!(%error, "unmount");
    }
    std::fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))
}
