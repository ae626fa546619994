//! What an API server itself notes in the metadata of an object.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta},
    jiff::{SignedDuration, Timestamp},
};

/// For how long a Gateway's yes to an older generation of a route stands: a rewrite must not look like a failure, and a controller
/// that has stopped must not look well for ever. Gateways take a route within seconds.
pub const VERDICT_SECONDS: u32 = 60;

/// When a Gateway's yes to an older generation of the route is to be doubted.
pub fn doubted(route: &ObjectMeta) -> Option<Timestamp> {
    let span = SignedDuration::from_secs(VERDICT_SECONDS.into());
    written(route)?.checked_add(span).ok()
}

/// When the object was last written, by whomever and but for its status: by the clock of its API server, which moves it only with
/// a write that changes something. So who starts anew counts from the same moment.
pub fn written(meta: &ObjectMeta) -> Option<Timestamp> {
    let entries = meta.managed_fields.iter().flatten();
    let of_object = entries.filter(|entry| is_of_object(entry));
    of_object
        .filter_map(|entry| Some(entry.time.as_ref()?.0))
        .max()
}

/// Is the entry of writes to the object itself, and not to its status or another subresource?
pub fn is_of_object(entry: &ManagedFieldsEntry) -> bool {
    entry.subresource.as_deref().unwrap_or_default().is_empty()
}
