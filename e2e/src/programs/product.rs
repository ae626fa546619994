//! The product's own programs, built by cargo as this crate was built.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

use crate::control::ImageProgram;

/// Packages and the programs they make.
const PACKAGES: [(&str, &str); 4] =
    [("hub", "hub"), ("agent", "agent"), ("echo", "echo"), ("cli", "kubectl-inferfleet")];

/// Where the product's programs are.
#[derive(Debug, Clone)]
pub struct Product {
    folder: PathBuf,
}

static BUILT: Mutex<Option<Product>> = Mutex::new(None);

impl Product {
    /// Builds them, once per process; cargo itself locks out other builders.
    pub fn build() -> Result<Self> {
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(product) = &*built {
            return Ok(product.clone());
        }
        let folder = profile_folder()?;
        let profile = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let profile = if profile == "debug" { "dev".to_owned() } else { profile };
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "--profile", &profile]).arg("--target-dir");
        command.arg(folder.parent().context("no target folder")?);
        for (package, _) in PACKAGES {
            command.args(["--package", package]);
        }
        // Cargo sets these for this crate; the build is not of this crate.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG_")) {
            command.env_remove(name);
        }
        let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().context("run cargo")?;
        ensure!(output.status.success(), "cargo build failed: {}", String::from_utf8_lossy(&output.stderr));
        let product = Self { folder };
        *built = Some(product.clone());
        Ok(product)
    }

    /// A program by its name: `hub`, `agent`, `echo` or `kubectl-inferfleet`.
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    /// The images `inferfleet/hub`, `inferfleet/agent` and `inferfleet/echo`, for process nodes.
    pub(crate) fn images(&self) -> BTreeMap<String, ImageProgram> {
        let image = |name: &str| {
            (format!("inferfleet/{name}"), ImageProgram { path: self.path(name), args: Vec::new() })
        };
        ["hub", "agent", "echo"].into_iter().map(image).collect()
    }
}

/// The folder of the profile that this program was built with: it holds the program, or `deps` does.
fn profile_folder() -> Result<PathBuf> {
    let this = std::env::current_exe().context("find this program")?;
    let folder = this.parent().context("this program has no folder")?;
    let inner = ["deps", "examples"].map(Path::new);
    let is_inner = folder.file_name().is_some_and(|name| inner.iter().any(|inner| inner.as_os_str() == name));
    let folder = if is_inner { folder.parent().context("no profile folder")? } else { folder };
    Ok(folder.to_owned())
}

/// This crate's own program, which is the supervisor: beside or above the running one.
pub(crate) fn supervisor() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("CARGO_BIN_EXE_e2e") {
        return Ok(path.into());
    }
    let path = profile_folder()?.join("e2e");
    ensure!(path.is_file(), "there is no {}: build it with cargo build -p e2e", path.display());
    Ok(path)
}
