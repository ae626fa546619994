//! The flags, and the Pod that the environment names. Owns no behaviour.

use std::{net::SocketAddr, path::PathBuf};

use serde::Serialize;

/// A tiny model server that echoes what it is asked and says who it is.
#[derive(clap::Parser, Debug)]
#[command(version)]
pub struct Args {
    /// Address to listen at.
    #[arg(long, default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,

    /// The model list, a JSON file: {"models": [{"name": "…", "uri": "…"}]}. One model `echo` when absent.
    #[arg(long, env = "INFERFLEET_MODEL_CONFIG")]
    pub model_config: Option<PathBuf>,

    /// The Pod that this process is.
    #[command(flatten)]
    pub pod: Pod,
}

/// The Pod that answers, as the downward API names it; empty fields outside a Pod.
#[derive(clap::Args, Clone, Debug, Default, Serialize)]
pub struct Pod {
    /// Name of the Pod.
    #[arg(long = "pod-name", env = "POD_NAME", default_value = "")]
    pub name: String,
    /// Namespace of the Pod.
    #[arg(long = "pod-namespace", env = "POD_NAMESPACE", default_value = "")]
    pub namespace: String,
    /// UID of the Pod.
    #[arg(long = "pod-uid", env = "POD_UID", default_value = "")]
    pub uid: String,
    /// Node of the Pod.
    #[arg(long = "node-name", env = "NODE_NAME", default_value = "")]
    pub node: String,
}
