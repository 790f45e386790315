"""The gateway: it answers at the addresses of Services. `controller` follows Services and endpoints, `routes`
makes one table of them, `balance` picks an endpoint for each connection, `proxy` carries the bytes. What it
measures becomes the condition `fathom.dev/Serving` of the pods. Never here: readiness; agents report that.
"""
