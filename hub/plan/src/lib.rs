//! The pure planner of the hub: facts in, placements, discovery objects and verdicts out.
