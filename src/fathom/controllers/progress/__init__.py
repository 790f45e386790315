"""WorkloadProgress: how far each workload has come, and what holds it."""
