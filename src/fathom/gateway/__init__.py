"""The gateway: proxies connections to the addresses of Services (what kube-proxy does elsewhere).

`controller` follows Services and EndpointSlices, `routes` makes one table of them, `balance` picks an
endpoint for each connection, `proxy` carries the bytes. Whether the gateway reaches a pod becomes the pod's
condition `fathom.dev/Serving`. Never here: readiness; agents report that.
"""
