//! The test bed: fleets of real control planes, their tests, and the demo.
