//! The agent: it dials the hub and runs what it wants in one member cluster.
