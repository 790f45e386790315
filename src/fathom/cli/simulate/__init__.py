"""The commands that record and simulate: record, replay, sim, chaos, bench."""
