//! The API types of Inferfleet, their conditions and reasons, and the CRD generator.
