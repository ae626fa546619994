//! Which model each cluster serves for a server. A build of the hub may replace it.

use crds::{
    ClusterName,
    v1alpha1::{InferenceServer, Model},
};
use hub_plan::facts::Refusal;

/// Says which model a target is to serve. The cluster's agent makes its model list of it, a ConfigMap that the runtime mounts.
pub trait ModelConfigProvider: Send + Sync {
    /// The model of one target, from what is known now; `None`: it serves without one. Who learns something new wakes the
    /// server. Clusters of one answer share one placement.
    ///
    /// # Errors
    /// When that can't be said: the cluster keeps what it has, and its condition says why.
    fn model(
        &self,
        server: &InferenceServer,
        cluster: &ClusterName,
    ) -> Result<Option<Model>, Refusal>;
}

/// The model of the server's specification, everywhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpecifiedModel;

impl ModelConfigProvider for SpecifiedModel {
    fn model(
        &self,
        server: &InferenceServer,
        _cluster: &ClusterName,
    ) -> Result<Option<Model>, Refusal> {
        Ok(server.spec.model.clone().map(Model::from))
    }
}
