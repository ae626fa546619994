//! The hub: one controller for the inference servers of a whole fleet.
