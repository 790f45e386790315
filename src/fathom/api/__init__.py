"""The API server core, free of transport: `handle(Request) -> Response | Stream`, and its HTTP shell.

Here: what a Kubernetes client may ask and what it gets. Never here: reconciling, deciding placements, or
how bytes reach a socket (but for `http`). Next rooms: `client` and `cache`, on the other side of the wire.
"""
