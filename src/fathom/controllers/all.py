"""The controllers that a cluster runs, by their ids; `seams/recorded_code.py` maps each id to its code."""

from __future__ import annotations

from fathom.seams.recorded_code import CONTROLLERS as CONTROLLER_LOCATIONS

# For the status line of `fathom up`.
SUMMARY = "controllers/cluster-summary"

CONTROLLERS = tuple(name for name in CONTROLLER_LOCATIONS if name != SUMMARY)

WORKLOADS = tuple(
    f"controllers/{name}"
    for name in (
        "deployment", "replicaset", "job", "endpoint-slices", "endpoints", "mirrored-endpoints", "budget",
        "deployment-progress", "replicaset-progress", "job-progress", "autoscaler",
    )
)  # fmt: skip
