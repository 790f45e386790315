"""The node agent: registers a node, renews its lease, runs the pods bound to it and reports their status.

    watch ──> cache ──> plan_pod ──> Runtime          local: goes on while no API server answers
                 └────> pod_status ──> commit         reported: through the controller kit, as any controller

The deciding part runs on a Domain and is the same live, simulated and replayed. A `Runtime` runs the
containers: real processes behind the seam (`host/driver.py`, `shim`), or scripted ones on the Domain itself
(`simulated`). Never here: placing pods, replacing them, judging nodes. Next room: explain.
"""
