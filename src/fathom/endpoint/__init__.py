"""The metrics endpoint of a control plane process: HTTPS for the API server alone, published in the API.

    Prometheus ──/metrics/scheduler──> API server: authorizes ──> this endpoint ──> the process's Registry
                                          └─ where: EndpointSlice fathom-system/metrics.NAME

The scheduler, the controllers and the gateway use it. The API server serves its own metrics itself; an agent
serves those of its node beside logs (`agent/host/endpoint.py`). Nothing here decides anything.
"""
