"""Where a process of the control plane can be measured: HTTPS for the API server alone, and how it is found.

    Prometheus ──/metrics/scheduler──> API server: may they? ──> this endpoint ──> the process's Registry
                                          └─ where: EndpointSlice fathom-system/metrics.NAME

The scheduler, the controllers and the gateway use it. The API server serves its own metrics itself; an agent
serves those of its node beside logs (`agent/host/endpoint.py`). Nothing here decides anything.
"""
