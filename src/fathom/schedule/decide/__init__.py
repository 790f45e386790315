"""The decision, pure: nodes and pods in, placements and reasons out. No clock, no I/O."""
