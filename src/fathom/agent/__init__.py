"""The node agent: registers a node, keeps its lease, runs the pods bound to it and says how they are.

    watch ──> cache ──> plan_pod ──> Runtime          local: goes on while no API server answers
                 └────> pod_status ──> commit         reported: through the controller kit, as any controller

The deciding part lives on a Domain and is the same live, simulated and replayed. What runs containers is a
`Runtime`: real processes behind the seam (`driver`, `shim`), or scripted ones on the Domain itself
(`simulated`). Never here: placing pods, replacing them, judging nodes. Next room: explain.
"""
