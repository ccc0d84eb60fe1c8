//! Starts a real control plane.
