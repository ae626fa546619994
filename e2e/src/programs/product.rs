//! The product's own programs, built by cargo as this crate was built.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

use crate::control::ImageProgram;

/// The packages whose programs make the product.
const PACKAGES: [&str; 4] = ["hub", "agent", "echo", "cli"];

/// Their programs.
const PROGRAMS: [&str; 4] = ["hub", "agent", "echo", "kubectl-inferfleet"];

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
        let profile = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let profile = if profile == "debug" {
            "dev".to_owned()
        } else {
            profile
        };
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args(["build", "--quiet", "--profile", &profile])
            .arg("--target-dir");
        command.arg(folder.parent().context("no target folder")?);
        // With the features that the running program was built with, so that nothing is built twice: tests are built for
        // the whole workspace, with what only tests need.
        if is_test(&std::env::current_exe().context("find this program")?) {
            command.args(["--workspace", "--bins", "--tests"]);
        } else {
            command.args(["--package", "e2e"]);
            for package in PACKAGES {
                command.args(["--package", package]);
            }
        }
        // Cargo sets these for this crate; the build is not of this crate.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG_"))
        {
            command.env_remove(name);
        }
        let output = command
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .context("run cargo")?;
        ensure!(
            output.status.success(),
            "cargo build failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let product = Self { folder };
        *built = Some(product.clone());
        Ok(product)
    }

    /// What is there, built before: for measurements of what one has.
    pub fn at(folder: &Path) -> Result<Self> {
        let product = Self {
            folder: std::path::absolute(folder)?,
        };
        for program in PROGRAMS {
            let path = product.path(program);
            ensure!(path.is_file(), "there is no {}", path.display());
        }
        Ok(product)
    }

    /// A program by its name: `hub`, `agent`, `echo` or `kubectl-inferfleet`.
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    /// The images `inferfleet/hub`, `inferfleet/agent` and `inferfleet/echo`, for process nodes.
    pub(crate) fn images(&self) -> BTreeMap<String, ImageProgram> {
        let image = |name: &str| {
            (
                format!("inferfleet/{name}"),
                ImageProgram {
                    path: self.path(name),
                    args: Vec::new(),
                },
            )
        };
        ["hub", "agent", "echo"].into_iter().map(image).collect()
    }
}

/// The folder of the profile that this program was built with: it holds the program, or `deps` does.
fn profile_folder() -> Result<PathBuf> {
    let this = std::env::current_exe().context("find this program")?;
    let folder = this.parent().context("this program has no folder")?;
    let folder = if is_test(&this) {
        folder.parent().context("no profile folder")?
    } else {
        folder
    };
    Ok(folder.to_owned())
}

/// Cargo puts tests into a folder `deps` of the profile's.
fn is_test(program: &Path) -> bool {
    program
        .parent()
        .and_then(Path::file_name)
        .is_some_and(|folder| folder == "deps")
}

/// This crate's own program, which is the supervisor: beside or above the running one.
pub(crate) fn supervisor() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("CARGO_BIN_EXE_e2e") {
        return Ok(path.into());
    }
    let path = profile_folder()?.join("e2e");
    ensure!(
        path.is_file(),
        "there is no {}: build it with cargo build -p e2e",
        path.display()
    );
    Ok(path)
}
