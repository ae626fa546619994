//! The pure planner of the agent: a placement and facts in, manifests and verdicts out.
