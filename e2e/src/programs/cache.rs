//! The cache of things that take long to make, outside `target/` so that `cargo clean` spares it.
//!
//! An entry is a folder, made elsewhere and renamed into place, so that it's whole or absent. Makers of
//! the same entry wait for each other, in this process or another.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use aws_lc_rs::digest::{SHA256, digest};

fn folder() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("INFERFLEET_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("inferfleet")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/inferfleet")))
        .context("none of INFERFLEET_CACHE, XDG_CACHE_HOME and HOME is set, so there is no place for a cache")?;
    std::fs::create_dir_all(&folder).with_context(|| format!("make the cache {}", folder.display()))?;
    Ok(folder)
}

/// A short name for exactly these contents.
pub(super) fn key(parts: &[&[u8]]) -> String {
    let lengths = parts.iter().flat_map(|part| [part.len().to_le_bytes().to_vec(), part.to_vec()]);
    let hash = digest(&SHA256, &lengths.collect::<Vec<_>>().concat());
    hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Any entry whose name starts like this, made by whatever tool.
pub(super) fn any(prefix: &str) -> Result<Option<PathBuf>> {
    for entry in std::fs::read_dir(folder()?)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) && entry.path().is_dir() {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// The entry of this name; `make` fills an empty folder if there is none.
pub(super) fn entry(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = folder()?;
    let entry = folder.join(name);
    if entry.is_dir() {
        return Ok(entry);
    }
    let lock = File::create(folder.join(format!(".{name}.lock")))?;
    lock.lock().context("lock the cache")?;
    if entry.is_dir() {
        return Ok(entry);
    }
    // What an interrupted maker left would lie here: nobody else has the lock.
    let unfinished = folder.join(format!(".{name}.unfinished"));
    if unfinished.exists() {
        std::fs::remove_dir_all(&unfinished)?;
    }
    std::fs::create_dir(&unfinished)?;
    make(&unfinished)?;
    std::fs::rename(&unfinished, &entry)?;
    Ok(entry)
}
