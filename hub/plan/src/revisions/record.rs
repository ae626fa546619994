//! The ControllerRevisions that records are kept in.

use std::collections::BTreeMap;

use crds::{
    labels,
    v1alpha1::{AcceleratorProfileSpec, RuntimeProfileSpec},
};
use k8s_openapi::{
    api::apps::v1::ControllerRevision,
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, runtime::RawExtension},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Pins, Revision, Shelf};

/// Every record.
#[derive(Clone, Debug, Default)]
pub struct Shelves {
    /// Of RuntimeProfiles.
    pub runtimes: Shelf<RuntimeProfileSpec>,
    /// Of AcceleratorProfiles.
    pub accelerators: Shelf<AcceleratorProfileSpec>,
}

/// A kind of profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ProfileKind {
    /// `RuntimeProfile`.
    RuntimeProfile,
    /// `AcceleratorProfile`.
    AcceleratorProfile,
}

/// Which profile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileName {
    /// Its kind.
    pub kind: ProfileKind,
    /// Its name.
    pub name: String,
}

/// The specification of a profile of either kind.
pub trait Profile: PartialEq + Serialize + DeserializeOwned {
    /// Its kind.
    const KIND: ProfileKind;

    /// What is recorded of its kind.
    fn shelf(shelves: &Shelves) -> &Shelf<Self>;

    /// The same, to be changed.
    fn shelf_mut(shelves: &mut Shelves) -> &mut Shelf<Self>;

    /// The pins of its kind.
    fn pins(pins: &Pins) -> &BTreeMap<String, Revision>;
}

impl Profile for RuntimeProfileSpec {
    const KIND: ProfileKind = ProfileKind::RuntimeProfile;

    fn shelf(shelves: &Shelves) -> &Shelf<Self> {
        &shelves.runtimes
    }

    fn shelf_mut(shelves: &mut Shelves) -> &mut Shelf<Self> {
        &mut shelves.runtimes
    }

    fn pins(pins: &Pins) -> &BTreeMap<String, Revision> {
        &pins.runtime
    }
}

impl Profile for AcceleratorProfileSpec {
    const KIND: ProfileKind = ProfileKind::AcceleratorProfile;

    fn shelf(shelves: &Shelves) -> &Shelf<Self> {
        &shelves.accelerators
    }

    fn shelf_mut(shelves: &mut Shelves) -> &mut Shelf<Self> {
        &mut shelves.accelerators
    }

    fn pins(pins: &Pins) -> &BTreeMap<String, Revision> {
        &pins.accelerators
    }
}

/// The data of a ControllerRevision.
#[derive(Serialize, Deserialize)]
struct Data {
    kind: ProfileKind,
    name: String,
    #[serde(default)]
    spec: Value,
}

/// The ControllerRevision of what a profile says.
///
/// # Errors
/// When it can't be written as JSON.
pub fn record<S: Profile>(
    namespace: &str,
    profile: &str,
    revision: Revision,
    spec: &S,
) -> Result<ControllerRevision, serde_json::Error> {
    let data = Data {
        kind: S::KIND,
        name: profile.to_owned(),
        spec: serde_json::to_value(spec)?,
    };
    let labels = [
        (labels::MANAGED_BY, labels::HUB),
        (labels::PROFILE, profile),
    ];
    Ok(ControllerRevision {
        metadata: ObjectMeta {
            name: Some(record_name(S::KIND, profile, revision)),
            namespace: Some(namespace.to_owned()),
            labels: Some(
                labels
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
            ),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(serde_json::to_value(data)?)),
        revision,
    })
}

/// A specification as it is read back from its record. A profile that could differ from its own record would be recorded for ever.
pub fn as_recorded<S: Profile + Clone>(spec: &S) -> S {
    let text = serde_json::to_value(spec).ok();
    text.and_then(|text| S::deserialize(text).ok())
        .unwrap_or_else(|| spec.clone())
}

/// The name of the ControllerRevision.
pub fn record_name(kind: ProfileKind, profile: &str, revision: Revision) -> String {
    let kind = match kind {
        ProfileKind::RuntimeProfile => "runtimeprofile",
        ProfileKind::AcceleratorProfile => "acceleratorprofile",
    };
    format!("{kind}-{profile}-{revision}")
}

impl Shelves {
    /// Takes what a ControllerRevision holds, or that it is gone. Returns the profile that it is of; `None`: it is no record.
    pub fn take(&mut self, object: &ControllerRevision, kept: bool) -> Option<ProfileName> {
        let RawExtension(data) = object.data.as_ref()?;
        let Data { kind, name, spec } = Data::deserialize(data).ok()?;
        let revision = object.revision;
        match kind {
            ProfileKind::RuntimeProfile => put(&mut self.runtimes, &name, revision, &spec, kept),
            ProfileKind::AcceleratorProfile => {
                put(&mut self.accelerators, &name, revision, &spec, kept);
            }
        }
        Some(ProfileName { kind, name })
    }
}

fn put<S: Profile>(shelf: &mut Shelf<S>, name: &str, revision: Revision, spec: &Value, kept: bool) {
    if kept {
        shelf.put(name, revision, S::deserialize(spec).ok());
    } else {
        shelf.lose(name, revision);
    }
}
