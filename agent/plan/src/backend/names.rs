//! What `$(…)` in a profile stands for.

use crds::v1alpha1::{Probe, ServerPlacement};

use super::invalid;
use crate::{gateway::Refusal, model_config, substitution::Names};

/// Schemes whose models a runtime opens by itself: by the name that its hub has for them, or as a file.
const OPENED: [&str; 2] = ["hf://", "file://"];

/// The names, and what they stand for in a placement.
pub(super) fn names(placement: &ServerPlacement) -> Names {
    let mut names = Names::default();
    let spec = &placement.spec;
    let no_model = || "needs a model: set spec.model of the InferenceServer".to_owned();
    let model = spec.model.as_ref();
    let name = model_config::model_name(placement);
    names.insert("model.name", name.ok_or_else(no_model));
    let uri = model.map(|model| model.uri.as_str());
    names.insert("model.uri", uri.map(ToOwned::to_owned).ok_or_else(no_model));
    names.insert("model.path", uri.ok_or_else(no_model).and_then(path));
    let count = spec.accelerator.as_ref();
    let count = count.map_or(1, |accelerator| accelerator.wanted.count);
    names.insert("accelerator.count", Ok(count.to_string()));
    for port in &spec.runtime.content.ports {
        names.insert(format!("port.{}", port.name), Ok(port.port.to_string()));
    }
    names
}

fn path(uri: &str) -> Result<String, String> {
    let mut opened = OPENED.iter().filter_map(|scheme| uri.strip_prefix(scheme));
    opened.next().map(ToOwned::to_owned).ok_or_else(|| {
        format!(
            "needs a model that a runtime opens by itself, of scheme {}: {uri} is none",
            OPENED.join(" or ")
        )
    })
}

/// Where a replica says whether it is ready.
pub(crate) fn readiness_path(placement: &ServerPlacement) -> Result<String, Refusal> {
    let readiness = &placement.spec.runtime.content.probes.readiness;
    probe_path(placement, &names(placement), "readiness", readiness)
}

/// Where one of a profile's probes asks.
pub(super) fn probe_path(
    placement: &ServerPlacement,
    names: &Names,
    field: &str,
    probe: &Probe,
) -> Result<String, Refusal> {
    names.expand(&probe.path).map_err(|error| {
        let path = format!("spec.probes.{field}.path");
        invalid(placement, &path, &error.to_string())
    })
}
